//! Short functions that build requests.

use serde_json::Value;

use super::{json, target, without_breakpoints};
use crate::dialect::canonical::{
    Call, CallKind, ConversionError, Part, Request, Role, Thinking, Tool, ToolResult, Turn,
};
use crate::dialect::literal::{Json, Text};
use crate::dialect::messages::write_request;
use crate::dialect::signature::Signature;

/// Writes a request with the text "Hi" after `change` has changed it.
pub(super) fn written(
    model: &str,
    change: impl FnOnce(&mut Request<'static>),
) -> Result<Value, ConversionError> {
    let mut request = Request { turns: vec![user(vec![text("Hi")])], ..Request::default() };
    change(&mut request);
    let bytes = write_request(&request, &target(model))?;
    Ok(json(std::str::from_utf8(&bytes).unwrap()))
}

/// Writes a request with these turns and returns its messages, without breakpoints.
pub(super) fn messages(turns: Vec<Turn<'static>>) -> Value {
    let mut body = written("claude-opus-4-6", |request| request.turns = turns).unwrap();
    without_breakpoints(&mut body);
    body["messages"].take()
}

pub(super) fn text(plain: &str) -> Part<'static> {
    Part::Text(Text::of(plain))
}

pub(super) fn user(parts: Vec<Part<'static>>) -> Turn<'static> {
    Turn::new(Role::User, parts)
}

pub(super) fn assistant(parts: Vec<Part<'static>>) -> Turn<'static> {
    Turn::new(Role::Assistant, parts)
}

pub(super) fn call(id: &str, input: &str) -> Part<'static> {
    let (id, input) = (Text::of(id), Text::of(input));
    Part::Call(Call { id, name: Text::of("f"), kind: CallKind::Function, input, signature: None })
}

pub(super) fn result(id: &str, parts: Vec<Part<'static>>) -> Part<'static> {
    Part::Result(ToolResult {
        call_id: Text::of(id),
        kind: CallKind::Function,
        parts,
        listed: false,
        is_error: false,
    })
}

pub(super) fn thinking(signature: Option<Signature<'static>>) -> Part<'static> {
    Part::Thinking(Thinking { text: Text::of("Hm.\n"), signature })
}

pub(super) fn signed() -> Part<'static> {
    thinking(Some(Signature::Anthropic(Text::of("SIG"))))
}

pub(super) fn function(name: &str, parameters: Option<&str>) -> Tool<'static> {
    Tool::Function {
        name: Text::of(name),
        description: None,
        parameters: parameters.map(|schema| Json::of(&json(schema))),
        strict: Some(true),
    }
}
