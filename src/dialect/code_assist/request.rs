//! Puts requests into their envelope and takes them out of it.

use std::borrow::Cow;

use bytes::Bytes;

use super::agent::Agent;
use crate::dialect::edit::edit;
use crate::dialect::json;
use crate::dialect::writer::Writer;

/// The member of a request that names the command line's session. Google's API refuses names that it does not know.
const SESSION: &str = "session_id";

/// The members that a request to count tokens may have. Google's API refuses unknown names here, too.
const COUNTED: [&str; 7] = [
    "model",
    "contents",
    "systemInstruction",
    "system_instruction",
    "tools",
    "generationConfig",
    "generation_config",
];
/// The members in which a client of gemini may send a whole request whose tokens are to be counted.
const WHOLE: [&str; 2] = ["generateContentRequest", "generate_content_request"];

/// The members around a request.
pub struct Envelope<'a> {
    pub model: &'a str,
    pub project: Option<&'a str>,
    pub agent: Option<Agent<'a>>,
}

/// A request that was taken out of its envelope.
pub struct Opened {
    pub model: String,
    pub body: Bytes,
}

// === impl Envelope ===

impl Envelope<'_> {
    /// Puts the request, which comes in pieces, into its envelope.
    pub fn seal(&self, request: [Bytes; 3]) -> [Bytes; 3] {
        let mut head = Writer::with_capacity(192);
        head.object(|o| {
            o.field("model", self.model);
            o.field_if("project", self.project);
            if let Some(agent) = &self.agent {
                agent.put(o);
            }
        });
        // The request is the last member, so that it is not copied.
        let mut head = head.into_string();
        head.truncate(head.len() - 1);
        head.push_str(",\"request\":");
        let [first, second, third] = request;
        let whole = match (second.is_empty(), third.is_empty()) {
            (true, true) => first,
            _ => Bytes::from([first, second, third].concat()),
        };
        [Bytes::from(head), whole, Bytes::from_static(b"}")]
    }
}

/// Puts a request whose tokens are to be counted into its envelope, with the model inside the request and nothing
/// around it.
pub fn seal_count(model: &str, request: &str) -> String {
    let whole = WHOLE.iter().find_map(|name| json::member(request, name)).unwrap_or(request);
    let mut others = Vec::new();
    let collect = |member: json::Member<'_>| {
        if !COUNTED.contains(&member.key.as_ref()) {
            others.push(member.key.into_owned());
        }
    };
    json::members_before_cut(whole, collect);
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let name = serde_json::Value::from(format!("models/{model}")).to_string();
    format!(r#"{{"request":{}}}"#, edit(whole, &[("model", &name)], &others))
}

/// Why an envelope cannot be opened, for the client.
#[derive(Debug)]
pub struct UnusableEnvelope {
    /// The field that is wrong.
    pub field: Option<&'static str>,
    pub message: &'static str,
}

/// Opens the envelope.
pub fn open(body: &Bytes) -> Result<Opened, UnusableEnvelope> {
    let unusable = |field, message| UnusableEnvelope { field, message };
    let text =
        std::str::from_utf8(body).map_err(|_| unusable(None, "The request body is not valid UTF-8"))?;
    let (mut model, mut request) = (None, None);
    let read = json::members(text, |member| match member.key.as_ref() {
        "model" => model = json::string(member.value),
        "request" => request = Some((member.at, member.value)),
        _ => {}
    });
    read.map_err(|_| unusable(None, "The request body is not a JSON object"))?;
    let request = request.filter(|(_, request)| request.starts_with('{'));
    let (at, request) =
        request.ok_or(unusable(Some("request"), "request is required and must be an object"))?;
    // A request to count tokens names the model inside.
    let model = model.or_else(|| json::member(request, "model").and_then(json::string)).unwrap_or_default();
    let name = model.trim().strip_prefix("models/").unwrap_or(model.trim());
    if name.is_empty() {
        return Err(unusable(Some("model"), "model is required"));
    }
    let body = match edit(request, &[], &[SESSION]) {
        Cow::Borrowed(_) => body.slice(at..at + request.len()),
        Cow::Owned(edited) => Bytes::from(edited),
    };
    Ok(Opened { model: name.to_owned(), body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_opened_or_says_what_it_lacks() {
        for (body, wanted) in [
            (r#"{"model":"m","project":"p","request":{"contents":[1]}}"#, Ok(("m", r#"{"contents":[1]}"#))),
            (r#"{"request":{"model":"models/m","a":1}}"#, Ok(("m", r#"{"model":"models/m","a":1}"#))),
            (r#"{"model":" models/m ","request":{}}"#, Ok(("m", "{}"))),
            (r#"{"model":"m","request":{"a":1,"session_id":"s","b":2}}"#, Ok(("m", r#"{"a":1,"b":2}"#))),
            (r#"{"model":"m"}"#, Err(Some("request"))),
            (r#"{"model":"m","request":[]}"#, Err(Some("request"))),
            (r#"{"model":" ","request":{}}"#, Err(Some("model"))),
            (r#"{"model":5,"request":{}}"#, Err(Some("model"))),
            ("[]", Err(None)),
            ("{", Err(None)),
        ] {
            let opened = open(&Bytes::from(body));
            let opened =
                opened.as_ref().map(|it| (it.model.as_str(), std::str::from_utf8(&it.body).unwrap()));
            assert_eq!(opened.map_err(|unusable| unusable.field), wanted, "{body}");
        }
    }

    #[test]
    fn what_is_counted_has_its_model_within_and_no_name_that_a_count_does_not_know() {
        for (body, wanted) in [
            (r#"{"contents":[1]}"#, r#"{"request":{"contents":[1],"model":"models/m"}}"#),
            (
                r#"{"model":"models/x","contents":[1],"safetySettings":[],"toolConfig":{},"tools":[2]}"#,
                r#"{"request":{"model":"models/m","contents":[1],"tools":[2]}}"#,
            ),
            (
                r#"{"generateContentRequest":{"model":"models/x","contents":[1],"cachedContent":"c"}}"#,
                r#"{"request":{"model":"models/m","contents":[1]}}"#,
            ),
        ] {
            assert_eq!(seal_count("m", body), wanted);
        }
    }

    #[test]
    fn what_is_sealed_opens_as_it_was() {
        let agent = Agent { name: "a", kind: "agent", request_id: "agent-1" };
        for (project, agent, head) in [
            (None, None, r#"{"model":"m\"","request":{"a":1}}"#),
            (Some("p"), None, r#"{"model":"m\"","project":"p","request":{"a":1}}"#),
            (
                None,
                Some(agent),
                r#"{"model":"m\"","userAgent":"a","requestType":"agent","requestId":"agent-1","request":{"a":1}}"#,
            ),
        ] {
            let envelope = Envelope { model: "m\"", project, agent };
            let pieces = ["{\"a\"", ":1", "}"].map(Bytes::from);
            let sealed = Bytes::from(envelope.seal(pieces).concat());
            assert_eq!(sealed, head);
            let opened = open(&sealed).expect("it opens");
            assert_eq!((opened.model.as_str(), &opened.body[..]), ("m\"", &b"{\"a\":1}"[..]));
        }
    }
}
