//! What a socket remembers of its last turn.
//!
//! A client that goes on from the last response sends only what is new; the request that is routed is
//! the whole conversation. Only the last turn is kept here; other turns are found if they are stored for clients of HTTP, or by
//! their upstream. A client that continues none of these gets an error and sends everything again.

use bytes::Bytes;

use crate::dialect::edit::edit;
use crate::dialect::responses::{PREVIOUS, TurnOutput, merge_turn, whole_turn};
use crate::dialect::tree::Node;
use crate::limits::FREE_BODY;

use super::frame::Frame;
use super::refusal::FrameRefusal;

/// The last turn of a socket.
pub(super) struct History {
    last: Option<Turn>,
    /// The maximum length of a request, in bytes.
    longest: usize,
}

/// Where an answer is found that is not the last one of a socket.
pub(super) enum Elsewhere {
    /// The gateway stores the answer, for clients of HTTP.
    Stored { request: Bytes, output: Vec<String> },
    /// The upstream stores the answer, and knows it by its id.
    Upstream,
}

struct Turn {
    /// The whole request as it was routed.
    request: Bytes,
    /// The items of the answer, as JSON objects.
    output: Vec<String>,
    id: String,
}

impl History {
    pub(super) fn new(longest: usize) -> Self {
        Self { last: None, longest }
    }

    /// Builds the whole request for a frame; `elsewhere` finds an answer that is not the last one of this socket.
    pub(super) fn request(
        &self,
        frame: &Frame<'_>,
        elsewhere: impl FnOnce(&str) -> Option<Elsewhere>,
    ) -> Result<Bytes, FrameRefusal> {
        let last = self.last.as_ref();
        let stored;
        let continued = match &frame.previous {
            Some(id) => match last.filter(|turn| turn.id == **id) {
                Some(turn) => Some(turn),
                None => match elsewhere(id).ok_or_else(|| not_found(id))? {
                    Elsewhere::Stored { request, output } => {
                        stored = Turn { request, output, id: id.clone().into_owned() };
                        Some(&stored)
                    }
                    Elsewhere::Upstream => {
                        let id = frame.body.get(PREVIOUS).map_or("null", Node::raw);
                        return self.bounded(referring_to(id, whole_turn(&frame.body)));
                    }
                },
            },
            None if frame.appends => {
                let message =
                    "response.append continues a response, but there is none yet: send response.create first";
                Some(last.ok_or_else(|| FrameRefusal::invalid(Some("type"), message))?)
            }
            None => None,
        };
        let request = match continued {
            Some(turn) => turn.followed_by(&frame.body),
            None => match last.filter(|_| frame.body.get("model").is_none()) {
                Some(turn) => turn.model_for(&frame.body),
                None => whole_turn(&frame.body),
            },
        };
        self.bounded(request)
    }

    fn bounded(&self, request: Bytes) -> Result<Bytes, FrameRefusal> {
        if request.len() > self.longest {
            let message = format!("The conversation is longer than {} bytes", self.longest);
            return Err(FrameRefusal::new(413, message));
        }
        Ok(request)
    }

    /// Returns the length of the last turn in bytes.
    pub(super) fn length(&self) -> usize {
        self.last.as_ref().map_or(0, Turn::length)
    }

    /// Returns how many bytes the last turn counts in the memory for bodies: none where it is short.
    pub(super) fn counted(&self) -> usize {
        Some(self.length()).filter(|length| *length > FREE_BODY).unwrap_or(0)
    }

    /// Forgets the last turn: a client that goes on from it must send everything again.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// Keeps a turn for the next one. A turn that never had an id leaves the one before in place: it
    /// came to nothing, and can be tried again.
    pub(super) fn keep(&mut self, request: Bytes, output: &TurnOutput) {
        if let Some(id) = output.response_id() {
            let output: Vec<String> = output.items().into_iter().map(str::to_owned).collect();
            self.keep_as(request, output, id.to_owned());
        }
    }

    /// Keeps a turn under this id.
    pub(super) fn keep_as(&mut self, request: Bytes, output: Vec<String>, id: String) {
        let turn = Turn { request, output, id };
        self.last = (turn.length() <= self.longest).then_some(turn);
    }
}

impl Elsewhere {
    /// Returns how many bytes it adds to a request.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Stored { request, output } => request.len() + output.iter().map(String::len).sum::<usize>(),
            Self::Upstream => 0,
        }
    }
}

impl Turn {
    fn length(&self) -> usize {
        self.request.len() + self.output.iter().map(String::len).sum::<usize>()
    }

    fn followed_by(&self, frame: &Node<'_>) -> Bytes {
        let output: Vec<&str> = self.output.iter().map(String::as_str).collect();
        let Some(request) = self.request() else { return whole_turn(frame) };
        let whole = merge_turn(&request, &output, frame);
        match request.get(PREVIOUS) {
            Some(id) => referring_to(id.raw(), whole),
            None => whole,
        }
    }

    /// Builds a separate request whose frame names no model, with the model of the last turn.
    fn model_for(&self, frame: &Node<'_>) -> Bytes {
        let request = self.request();
        let model = request.as_ref().and_then(|request| request.get("model")).map_or("null", Node::raw);
        let model = format!("{{\"model\":{model}}}");
        Node::parse(&model).map_or_else(|_| whole_turn(frame), |model| merge_turn(&model, &[], frame))
    }

    /// Parses the request, which could be parsed before it was kept.
    fn request(&self) -> Option<Node<'_>> {
        Node::parse(std::str::from_utf8(&self.request).ok()?).ok()
    }
}

/// Makes the request go on from an answer that its upstream stores.
fn referring_to(id: &str, request: Bytes) -> Bytes {
    match std::str::from_utf8(&request) {
        Ok(text) => edit(text, &[(PREVIOUS, id)], &[]).into_owned().into(),
        Err(_) => request,
    }
}

fn not_found(id: &str) -> FrameRefusal {
    let message = format!("Previous response with id '{id}' not found.");
    FrameRefusal::invalid(Some("previous_response_id"), message).code("previous_response_not_found")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::frame;
    use super::*;

    fn request(history: &History, frame: &Value) -> Result<Value, Value> {
        let text = frame.to_string();
        let parsed = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap();
        let made = history.request(&frame::read(&text).unwrap(), |id| match id {
            "resp_stored" => {
                let request = Bytes::from(json!({"model":"n","input":[item("x")]}).to_string());
                Some(Elsewhere::Stored { request, output: vec![item("y").to_string()] })
            }
            "resp_upstream" => Some(Elsewhere::Upstream),
            _ => None,
        });
        made.map(|bytes| parsed(&bytes)).map_err(|refusal| parsed(refusal.frame().as_bytes()))
    }

    fn item(text: &str) -> Value {
        json!({"type":"message","role":"user","content":text})
    }

    fn after_one_turn() -> History {
        let mut history = History::new(1 << 20);
        let first = json!({"model":"m","instructions":"i","tools":[{"type":"custom","name":"p"}],
            "temperature":1,"input":[item("a")],"stream":true});
        history.keep_as(Bytes::from(first.to_string()), vec![item("b").to_string()], "resp_1".to_owned());
        history
    }

    #[test]
    fn a_turn_that_names_the_last_response_has_the_whole_conversation_once() {
        let history = after_one_turn();
        let frame = json!({"type":"response.create","previous_response_id":"resp_1","input":[item("c")]});
        let wanted = json!({"model":"m","instructions":"i","tools":[{"type":"custom","name":"p"}],
            "input":[item("a"), item("b"), item("c")],"stream":true});
        assert_eq!(request(&history, &frame), Ok(wanted.clone()));
        let older_form = json!({"type":"response.append","input":[item("c")]});
        assert_eq!(request(&history, &older_form), Ok(wanted));
    }

    #[test]
    fn a_turn_that_names_none_stands_for_itself() {
        let history = after_one_turn();
        let frame = json!({"type":"response.create","model":"n","input":[item("c")]});
        assert_eq!(request(&history, &frame), Ok(json!({"model":"n","input":[item("c")],"stream":true})));
        let nameless = json!({"type":"response.create","input":[item("c")]});
        assert_eq!(request(&history, &nameless), Ok(json!({"model":"m","input":[item("c")],"stream":true})));
    }

    #[test]
    fn a_turn_may_go_on_from_an_answer_that_is_stored_elsewhere() {
        let mut history = after_one_turn();
        let frame =
            json!({"type":"response.create","previous_response_id":"resp_stored","input":[item("c")]});
        let wanted = json!({"model":"n","input":[item("x"), item("y"), item("c")],"stream":true});
        assert_eq!(request(&history, &frame), Ok(wanted));
        let frame = json!({"type":"response.create","model":"m","previous_response_id":"resp_upstream",
            "input":[item("c")]});
        let wanted =
            json!({"model":"m","input":[item("c")],"stream":true,"previous_response_id":"resp_upstream"});
        assert_eq!(request(&history, &frame), Ok(wanted.clone()));
        history.keep_as(Bytes::from(wanted.to_string()), vec![item("d").to_string()], "resp_2".to_owned());
        let next = json!({"type":"response.create","previous_response_id":"resp_2","input":[item("e")]});
        let wanted = json!({"model":"m","input":[item("c"), item("d"), item("e")],"stream":true,
            "previous_response_id":"resp_upstream"});
        assert_eq!(request(&history, &next), Ok(wanted));
    }

    #[test]
    fn an_unknown_response_is_refused_with_the_code_that_clients_know() {
        let frame = json!({"type":"response.create","previous_response_id":"resp_0","input":[]});
        for history in [after_one_turn(), History::new(1 << 20)] {
            let error = json!({"type":"invalid_request_error","code":"previous_response_not_found",
                "message":"Previous response with id 'resp_0' not found.","param":"previous_response_id"});
            let refusal = json!({"type":"error","status":400,"error":error,"headers":{}});
            assert_eq!(request(&history, &frame), Err(refusal));
        }
        let append = json!({"type":"response.append","input":[]});
        let refusal = request(&History::new(1 << 20), &append).unwrap_err();
        assert_eq!((&refusal["status"], &refusal["error"]["param"]), (&json!(400), &json!("type")));
    }

    #[test]
    fn a_conversation_does_not_grow_beyond_a_request() {
        let mut history = History::new(100);
        let long = json!({"type":"response.create","model":"m","input":"x".repeat(100)});
        assert_eq!(request(&history, &long).unwrap_err()["status"], 413);
        let short = Bytes::from_static(b"{\"model\":\"m\",\"input\":[]}");
        history.keep_as(short.clone(), vec!["x".repeat(100)], "resp_1".to_owned());
        let next = json!({"type":"response.create","previous_response_id":"resp_1","input":[]});
        assert_eq!(request(&history, &next).unwrap_err()["error"]["code"], "previous_response_not_found");
    }

    #[test]
    fn a_turn_without_an_id_leaves_the_last_one_in_place() {
        let mut history = after_one_turn();
        history.keep(Bytes::from_static(b"{}"), &TurnOutput::default());
        let next = json!({"type":"response.create","previous_response_id":"resp_1","input":[]});
        assert_eq!(request(&history, &next).unwrap()["model"], "m");
    }
}
