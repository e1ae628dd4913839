//! Makes a request fit what its target takes, before it is written: names of tools, ids of calls, custom tools. The
//! changes are reversed in the answer ([`restore`](super::restore)).

use std::borrow::Cow;

use super::{call_ids, instructions};
use crate::dialect::Dialect;
use crate::dialect::canonical::{
    Call, CallKind, Format, Part, Request, Role, Tool, ToolChoice, Turn, Vendor,
};
use crate::dialect::literal::{Json, Text};
use crate::dialect::names::{self, ToolNames};

/// The schema of a custom tool for a target that has only functions.
const ONE_INPUT: &str = r#"{"type":"object","properties":{"input":{"type":"string"}}}"#;

/// The changes that must be reversed in the answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fitted {
    pub names: ToolNames,
    /// The client's names of custom tools that went upstream as functions, sorted.
    pub custom_tools: Vec<String>,
}

/// Fits a request to a dialect of a vendor; returns what must be reversed in the answer.
pub fn fit(request: &mut Request<'_>, to: Dialect, vendor: Vendor) -> Fitted {
    instructions::place(request, to, vendor);
    call_ids::settle(request, to);
    let (offered, called) = tool_names(request);
    let fits = match to {
        Dialect::Messages => names::plain,
        Dialect::Gemini => names::for_google,
        _ => names::for_openai,
    };
    let names = ToolNames::fit(&offered, &called, fits);
    let takes_custom = to == Dialect::Responses || (to == Dialect::Chat && vendor == Vendor::OpenAi);
    let mut custom_tools = Vec::new();
    for tool in &mut request.tools {
        if !takes_custom && let Tool::Custom { name, description, .. } = tool {
            custom_tools.push(name.decode().into_owned());
            let (name, description) = (std::mem::take(name), description.take());
            let parameters = Some(Json::checked(ONE_INPUT));
            *tool = Tool::Function { name, description, parameters, strict: None };
        }
        if let Tool::Function { name, .. } | Tool::Custom { name, .. } = tool {
            rename(name, &names);
        }
    }
    let as_functions = |kind: &mut CallKind| {
        if !takes_custom {
            *kind = CallKind::Function;
        }
    };
    match &mut request.tool_choice {
        Some(ToolChoice::Named { name, kind }) => {
            rename(name, &names);
            as_functions(kind);
        }
        Some(ToolChoice::Allowed { names: allowed, .. }) => {
            for (name, kind) in allowed {
                rename(name, &names);
                as_functions(kind);
            }
        }
        _ => {}
    }
    for part in request.turns.iter_mut().flat_map(|turn| &mut turn.parts) {
        match part {
            Part::Call(call) => {
                if call.kind == CallKind::Custom && !takes_custom {
                    wrap(call);
                }
                rename(&mut call.name, &names);
                call_ids::fit(&mut call.id, to);
            }
            Part::Result(result) => {
                as_functions(&mut result.kind);
                call_ids::fit(&mut result.call_id, to);
            }
            _ => {}
        }
    }
    custom_tools.sort_unstable();
    Fitted { names, custom_tools }
}

/// Gives the request a question, which all dialects but chat require. Where a conversation has only instructions, the
/// last of them becomes the user's question; where there is a turn of the user, even a blank one, they stay the
/// operator's. Messages wants the user to speak first, and gemini does where the assistant began with a call: a user's
/// turn of one dot is put in front.
pub(super) fn put_a_question(request: &mut Request<'_>, to: Dialect) {
    let says = |part: &Part<'_>| match (part, to) {
        // Thinking that nothing follows is not sent to messages.
        (Part::CacheMark(_), _) | (Part::Thinking(_), Dialect::Messages) => false,
        (Part::Text(text), Dialect::Messages) => !text.is_blank(),
        (Part::Text(text), Dialect::Gemini) => !text.is_empty(),
        _ => true,
    };
    if to == Dialect::Chat {
        return;
    }
    let user_says = |text| Turn::new(Role::User, vec![Part::Text(text)]);
    let speaking = request.turns.iter().filter(|turn| turn.parts.iter().any(says));
    let mut begun = speaking.clone().take_while(|turn| turn.role == Role::Assistant);
    let wants_user = match to {
        Dialect::Messages => begun.next().is_some(),
        Dialect::Gemini => begun.flat_map(|turn| &turn.parts).any(|part| matches!(part, Part::Call(_))),
        _ => false,
    };
    match speaking.clone().next() {
        None if request.turns.iter().any(|turn| turn.role == Role::User) => {}
        None => {
            if let Some(last) = request.system.iter().rposition(|text| !text.is_blank()) {
                request.turns = vec![user_says(request.system.remove(last))];
            }
        }
        Some(_) if wants_user => request.turns.insert(0, user_says(Text::plain("."))),
        Some(_) => {}
    }
}

/// Removes blanks from the end of the assistant's last words: Claude continues from these, and refuses blanks at their
/// end. Thinking behind them and texts of nothing but blanks are not sent.
pub(super) fn trim_end(request: &mut Request<'_>) {
    let last = request.turns.iter_mut().rev().take_while(|turn| turn.role == Role::Assistant);
    let is_sent = |part: &&mut Part<'_>| match part {
        Part::Text(text) => !text.is_blank(),
        Part::Thinking(_) => false,
        _ => true,
    };
    if let Some(Part::Text(text)) = last.flat_map(|turn| turn.parts.iter_mut().rev()).find(is_sent) {
        let decoded = text.decode();
        let trimmed = decoded.trim_end();
        if trimmed.len() < decoded.len() {
            *text = Text::of(trimmed);
        }
    }
}

/// Adds a mention of JSON to a request for a JSON object. OpenAI's API requires one: in any message of chat, and in the
/// input of responses, where instructions do not count. Gemini's clients need not write it. Comes after
/// [`put_a_question`], which would take our words for the question.
pub(super) fn name_json(request: &mut Request<'_>, to: Dialect) {
    if request.format != Some(Format::JsonObject) || !matches!(to, Dialect::Chat | Dialect::Responses) {
        return;
    }
    // Only what stays the same as the conversation goes on is searched, or our words would come and go.
    let said = request.turns.first().into_iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    });
    let instructed = request.system.iter().filter(|_| to == Dialect::Chat);
    if said.chain(instructed).any(|text| text.literal().to_ascii_lowercase().contains("json")) {
        return;
    }
    let words = Text::plain("Answer with JSON.");
    match to {
        Dialect::Chat => request.system.push(words),
        _ => request.turns.insert(0, Turn::new(Role::Developer, vec![Part::Text(words)])),
    }
}

/// Returns the names of the tools that are offered, and of those that are called.
fn tool_names<'t>(request: &'t Request<'_>) -> (Vec<Cow<'t, str>>, Vec<Cow<'t, str>>) {
    let offered = request.tools.iter().filter_map(|tool| match tool {
        Tool::Function { name, .. } | Tool::Custom { name, .. } => Some(name.decode()),
        _ => None,
    });
    let called = request.turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::Call(call) => Some(call.name.decode()),
        _ => None,
    });
    (offered.collect(), called.collect())
}

fn rename(name: &mut Text<'_>, names: &ToolNames) {
    if !names.is_empty() {
        *name = names.upstream(name).into_owned();
    }
}

/// Turns the free text of a custom call into the arguments of a function.
fn wrap(call: &mut Call<'_>) {
    call.kind = CallKind::Function;
    call.input = Text::of(&format!("{{\"input\":\"{}\"}}", call.input.literal()));
}

/// Returns the free text in the arguments of a function that stands for a custom tool; the arguments themselves when
/// the model did not keep to the schema.
pub(super) fn unwrap(arguments: &Text<'_>) -> Text<'static> {
    let json = arguments.decode();
    let input = crate::dialect::tree::Node::parse(&json)
        .ok()
        .and_then(|node| Some(node.text_at("input")?.into_owned()));
    input.unwrap_or_else(|| arguments.clone().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::canonical::ToolResult;

    fn custom_round() -> Request<'static> {
        let long = "mcp__".to_owned() + &"x".repeat(70) + "__run";
        let call = Call {
            id: Text::of("call:1"),
            name: Text::of(&long),
            kind: CallKind::Custom,
            input: Text::of("*** \"patch\"\n"),
            signature: None,
        };
        let result = ToolResult {
            call_id: Text::of("call:1"),
            kind: CallKind::Custom,
            parts: Vec::new(),
            listed: false,
            is_error: false,
        };
        Request {
            tools: vec![Tool::Custom { name: Text::of(&long), description: None, format: None }],
            tool_choice: Some(ToolChoice::Named { name: Text::of(&long), kind: CallKind::Custom }),
            turns: vec![
                Turn::new(Role::Assistant, vec![Part::Call(call)]),
                Turn::new(Role::User, vec![Part::Result(result)]),
            ],
            ..Request::default()
        }
    }

    #[test]
    fn a_custom_tool_becomes_a_function_where_it_must() {
        let mut request = custom_round();
        let fitted = fit(&mut request, Dialect::Chat, Vendor::Other);
        assert_eq!(fitted.custom_tools.len(), 1);
        let Part::Call(call) = &request.turns[0].parts[0] else { panic!("a call") };
        assert_eq!(call.name.literal(), "mcp__run");
        assert_eq!(call.input.decode(), "{\"input\":\"*** \\\"patch\\\"\\n\"}");
        assert_eq!(unwrap(&call.input).decode(), "*** \"patch\"\n");
        let named = ToolChoice::Named { name: Text::plain("mcp__run"), kind: CallKind::Function };
        assert_eq!(request.tool_choice, Some(named));

        let mut request = custom_round();
        assert!(fit(&mut request, Dialect::Responses, Vendor::Other).custom_tools.is_empty());
        assert!(matches!(request.tools[0], Tool::Custom { .. }));
    }

    #[test]
    fn a_call_and_its_result_keep_one_id() {
        for (to, kept) in [(Dialect::Messages, false), (Dialect::Chat, true)] {
            let mut request = custom_round();
            fit(&mut request, to, Vendor::Other);
            let (Part::Call(call), Part::Result(result)) =
                (&request.turns[0].parts[0], &request.turns[1].parts[0])
            else {
                panic!("a call and its result")
            };
            assert_eq!(call.id, result.call_id);
            assert_eq!(call.id.literal() == "call:1", kept, "{to:?}");
            assert!(kept || (call.id.literal().starts_with("call_") && call.id.literal().len() == 29));
        }
    }

    #[test]
    fn every_call_has_an_id_of_its_own_where_it_must() {
        let round = |id: &'static str| {
            let mut request = custom_round();
            for part in request.turns.iter_mut().flat_map(|turn| &mut turn.parts) {
                match part {
                    Part::Call(call) => call.id = Text::plain(id),
                    Part::Result(result) => result.call_id = Text::plain(id),
                    _ => {}
                }
            }
            request.turns
        };
        for (ids, to, wanted) in [
            (&["", ""][..], Dialect::Chat, &["call_0", "call_1"][..]),
            (&["", "call_0"], Dialect::Chat, &["call_0", "call_0_1"]),
            (&["call_1", ""], Dialect::Chat, &["call_1", "call_2"]),
            (&["f", "f"], Dialect::Messages, &["f", "f_2"]),
            (&["f", "f_2", "f"], Dialect::Messages, &["f", "f_2", "f_3"]),
            (&["f", "f"], Dialect::Chat, &["f", "f"]),
        ] {
            let turns = ids.iter().flat_map(|id| round(id)).collect();
            let mut request = Request { turns, ..Request::default() };
            fit(&mut request, to, Vendor::Other);
            let ids = request.turns.iter().flat_map(|turn| &turn.parts).map(|part| match part {
                Part::Call(call) => call.id.literal(),
                Part::Result(result) => result.call_id.literal(),
                _ => "",
            });
            let wanted: Vec<_> = wanted.iter().flat_map(|id| [*id; 2]).collect();
            assert_eq!(ids.collect::<Vec<_>>(), wanted, "{to:?}");
        }
    }

    #[test]
    fn arguments_outside_the_schema_pass_as_they_are() {
        for arguments in ["", "{", "{\"other\":1}", "{\"input\":1}"] {
            assert_eq!(unwrap(&Text::of(arguments)).decode(), arguments);
        }
    }
}
