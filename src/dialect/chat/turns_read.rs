//! Reads the messages of a request.

use super::{calls, content, thinking};
use crate::dialect::cache_marks;
use crate::dialect::canonical::{CallKind, ConversionError, Part, Role, ToolResult, Turn};
use crate::dialect::literal::{Json, Text};
use crate::dialect::marked_turns;
use crate::dialect::tree::Node;
use crate::dialect::waiting_calls::WaitingCalls;

/// The name under which calls without an id are kept.
const UNNAMED: Text<'static> = Text::EMPTY;

/// The types of parts in which LangChain (`output_version` `v1`) keeps what another provider's own tools did for an earlier
/// answer, and what only that provider understands.
const RECORDS: [&str; 4] =
    ["server_tool_call", "server_tool_call_chunk", "server_tool_result", "non_standard"];

/// The contents of the messages that have been read so far.
#[derive(Debug, Default)]
pub(super) struct Messages<'a> {
    pub system: Vec<Text<'a>>,
    /// The cache marks of the system texts, each with the position of its text.
    pub system_marks: Vec<(usize, Json<'a>)>,
    pub turns: Vec<Turn<'a>>,
    /// The calls so far.
    calls: WaitingCalls<'a>,
    /// The kind of each call in `calls`.
    kinds: Vec<CallKind>,
}

impl<'a> Messages<'a> {
    /// Reads the message at `index`.
    pub(super) fn read(&mut self, index: usize, message: &Node<'a>) -> Result<(), ConversionError> {
        let field = |name: &str| format!("messages[{index}].{name}");
        if !message.is_object() {
            return Err(ConversionError::invalid(format!("messages[{index}]"), "must be an object"));
        }
        let listed = message.get("content").is_some_and(Node::is_array);
        let mut parts = match message.get("content") {
            None => Vec::new(),
            Some(node) => content::read_marked(node).ok_or_else(|| {
                ConversionError::invalid(field("content"), "must be a string or a list of content parts")
            })?,
        };
        // Some clients mark the message instead of its last part.
        let mark = cache_marks::of(message);
        match &*message.str_at("role") {
            role @ ("system" | "developer") => {
                // Later ones stay where they are: if the beginning of a prompt changes with every turn, it is never
                // cached.
                if self.turns.is_empty() {
                    self.push_system(parts, mark);
                } else {
                    let mark = mark.or(marked_turns::taken(&mut parts));
                    let Some(text) = joined(parts) else { return Ok(()) };
                    let role = if role == "system" { Role::System } else { Role::Developer };
                    self.push(Turn::new(role, marked(vec![Part::Text(text)], mark)));
                }
            }
            "user" => self.push(Turn { listed, ..Turn::new(Role::User, marked(parts, mark)) }),
            "assistant" => {
                let parts = self.assistant(index, message, parts)?;
                self.push(Turn::new(Role::Assistant, marked(parts, mark)));
            }
            "tool" => {
                let call_id = self.answered(message.text_at("tool_call_id"));
                let call_id = call_id
                    .ok_or_else(|| ConversionError::invalid(field("tool_call_id"), "must be a string"))?;
                self.push_result(call_id, marked(parts, mark), listed);
            }
            "function" => {
                let name = self.answered(message.text_at("name"));
                let name = name.ok_or_else(|| ConversionError::invalid(field("name"), "must be a string"))?;
                self.push_result(name, marked(parts, mark), listed);
            }
            _ => {
                let roles = "must be one of system, developer, user, assistant, tool";
                return Err(ConversionError::invalid(field("role"), roles));
            }
        }
        Ok(())
    }

    /// Adds a message to the system texts: one text up to each mark, so that what changes behind a mark is not cached with
    /// what stands before it. The mark of the message itself belongs to its last text.
    fn push_system(&mut self, parts: Vec<Part<'a>>, mark_of_message: Option<Json<'a>>) {
        let (mut texts, mut open) = (Vec::new(), Vec::new());
        for part in parts {
            let Part::CacheMark(mark) = part else {
                open.push(part);
                continue;
            };
            match (joined(std::mem::take(&mut open)), texts.last_mut()) {
                (Some(text), _) => texts.push((text, Some(mark))),
                (None, Some((_, last))) => *last = Some(mark),
                (None, None) => {}
            }
        }
        texts.extend(joined(open).map(|text| (text, None)));
        if let (Some(mark), Some((_, last))) = (mark_of_message, texts.last_mut()) {
            *last = Some(mark);
        }
        for (text, mark) in texts {
            self.system_marks.extend(mark.map(|mark| (self.system.len(), mark)));
            self.system.push(text);
        }
    }

    /// Reads a message of the assistant. The parts are in the order in which a model produces them: thinking,
    /// content, refusal, calls.
    fn assistant(
        &mut self,
        index: usize,
        message: &Node<'a>,
        content: Vec<Part<'a>>,
    ) -> Result<Vec<Part<'a>>, ConversionError> {
        let mut parts: Vec<_> = thinking::pieces(message).into_iter().map(Part::Thinking).collect();
        let has_calls = message.get("tool_calls").is_some() || message.get("function_call").is_some();
        let is_dropped = |part: &Part<'_>| match part {
            Part::Text(text) => has_calls && text.is_empty(),
            Part::Foreign(kind) => RECORDS.contains(&&*kind.decode()),
            _ => false,
        };
        parts.extend(content.into_iter().filter(|part| !is_dropped(part)));
        parts.extend(message.text_at("refusal").filter(|text| !text.is_empty()).map(Part::Refusal));
        if message.get("audio").is_some() {
            parts.push(Part::Foreign(Text::plain("audio")));
        }
        let legacy = message.get("function_call").is_some();
        for (number, piece) in calls::of_message(message).enumerate() {
            let mut call = piece.into_call();
            if call.name.is_blank() {
                let field = format!("messages[{index}].tool_calls[{number}].function.name");
                return Err(ConversionError::invalid(field, "must be a string that is not empty"));
            }
            if call.id.is_empty() {
                // Deterministic, so that the next request of the conversation gives the same id.
                let number = self.calls.len();
                call.id = if legacy { call.name.clone() } else { Text::of(&format!("call_{number}")) };
                self.calls.push_named(call.id.clone(), UNNAMED);
            } else {
                self.calls.push(call.id.clone());
            }
            self.kinds.push(call.kind);
            parts.push(Part::Call(call));
        }
        Ok(parts)
    }

    fn push(&mut self, turn: Turn<'a>) {
        if !turn.parts.is_empty() {
            self.turns.push(turn);
        }
    }

    /// Returns the id of the call that a result answers: the one it names, else the first that still waits, calls
    /// without an id before the others.
    fn answered(&mut self, id: Option<Text<'a>>) -> Option<Text<'a>> {
        match id.as_ref().filter(|id| !id.is_empty()) {
            Some(named) => {
                self.calls.answer(named);
                id
            }
            None => self.calls.answer_named(&UNNAMED).or_else(|| self.calls.answer_next()).or(id),
        }
    }

    fn push_result(&mut self, call_id: Text<'a>, mut parts: Vec<Part<'a>>, listed: bool) {
        let mark = marked_turns::taken(&mut parts);
        let kind =
            self.calls.last(&call_id).and_then(|place| self.kinds.get(place)).copied().unwrap_or_default();
        // An empty result has no parts.
        let parts = parts.into_iter().filter(|part| *part != Part::Text(Text::EMPTY)).collect();
        let result = Part::Result(ToolResult { call_id, kind, parts, listed, is_error: false });
        self.turns.push(Turn::new(Role::User, marked(vec![result], mark)));
    }
}

/// Puts the mark of a whole message behind its last part, unless that has a mark of its own.
fn marked<'a>(mut parts: Vec<Part<'a>>, mark: Option<Json<'a>>) -> Vec<Part<'a>> {
    if !matches!(parts.last(), None | Some(Part::CacheMark(_))) {
        parts.extend(mark.map(Part::CacheMark));
    }
    parts
}

/// Joins all text parts into one text; `None` where there is no text.
fn joined<'a>(parts: Vec<Part<'a>>) -> Option<Text<'a>> {
    let texts = parts.into_iter().filter_map(|part| match part {
        Part::Text(text) if !text.is_empty() => Some(text),
        _ => None,
    });
    let mut texts: Vec<_> = texts.collect();
    match texts.len() {
        0 | 1 => texts.pop(),
        _ => Some(Text::join(&texts, "\\n\\n")),
    }
}
