//! Reads the items of `input` as turns of a conversation.
//!
//! Items are a flat list; the canonical form has turns. Reasoning, a message and the calls that follow are one turn
//! of the assistant; consecutive outputs of calls are one turn of the user.

use std::collections::HashSet;

use super::content::{self, TextPlace};
use super::{calls, reasoning};
use crate::dialect::canonical::{Call, CallKind, ConversionError, Part, Role, ToolResult, Turn};
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;

/// The turns and calls that have been read so far.
#[derive(Debug, Default)]
pub(super) struct Items<'a> {
    pub turns: Vec<Turn<'a>>,
    /// The ids of the calls so far.
    called: HashSet<Text<'a>>,
}

impl<'a> Items<'a> {
    /// Reads `input`: a text of the user, or a list of items.
    pub(super) fn read(&mut self, input: &Node<'a>) -> Result<(), ConversionError> {
        if let Some(text) = input.text() {
            self.push_turn(Role::User, vec![Part::Text(text)]);
            return Ok(());
        }
        if !input.is_array() {
            return Err(ConversionError::invalid("input", "must be a string or a list"));
        }
        input.items().iter().enumerate().try_for_each(|(index, item)| self.item(index, item))
    }

    fn item(&mut self, index: usize, item: &Node<'a>) -> Result<(), ConversionError> {
        if let Some(text) = item.text() {
            self.push_turn(Role::User, vec![Part::Text(text)]);
            return Ok(());
        }
        if !item.is_object() {
            return Err(ConversionError::invalid(format!("input[{index}]"), "must be an object"));
        }
        match item.str_at("type").as_ref() {
            "message" => self.message(index, item),
            "" if item.get("role").is_some() => self.message(index, item),
            "input_text" | "input_image" | "input_file" | "input_audio" => {
                let block = content::read_block(item, || format!("input[{index}]"))?;
                self.push_turn(Role::User, vec![block]);
                Ok(())
            }
            "reasoning" => {
                let thoughts = reasoning::read(item);
                if !thoughts.is_empty() {
                    self.push_assistant(thoughts.into_iter().map(Part::Thinking).collect());
                }
                Ok(())
            }
            "function_call" => {
                self.call(index, item, CallKind::Function, "arguments");
                Ok(())
            }
            "custom_tool_call" => {
                self.call(index, item, CallKind::Custom, "input");
                Ok(())
            }
            "function_call_output" => self.output(index, item, CallKind::Function),
            "custom_tool_call_output" => self.output(index, item, CallKind::Custom),
            // Its results are known to the model that searched, and cannot be passed on to another one.
            "web_search_call" => Ok(()),
            "" => Err(ConversionError::invalid(format!("input[{index}].type"), "is required")),
            kind => {
                let role = if kind.ends_with("_output") { Role::User } else { Role::Assistant };
                let foreign = Part::Foreign(item.text_at("type").unwrap_or_default());
                self.turn(role).parts.push(foreign);
                Ok(())
            }
        }
    }

    fn message(&mut self, index: usize, item: &Node<'a>) -> Result<(), ConversionError> {
        let place = TextPlace { item: index, member: "content" };
        let parts = match item.get("content") {
            Some(content) => content::read(content, place)?,
            None => Vec::new(),
        };
        match item.str_at("role").as_ref() {
            "user" | "" => self.push_turn(Role::User, parts),
            "assistant" => self.push_assistant(parts),
            role @ ("system" | "developer") => {
                if !parts.iter().all(|part| matches!(part, Part::Text(_))) {
                    return Err(ConversionError::invalid(place.to_string(), "must be text"));
                }
                let role = if role == "system" { Role::System } else { Role::Developer };
                if parts.iter().any(|part| *part != Part::Text(Text::EMPTY)) {
                    self.push_turn(role, parts);
                }
            }
            _ => {
                let problem = "must be user, assistant, system or developer";
                return Err(ConversionError::invalid(format!("input[{index}].role"), problem));
            }
        }
        Ok(())
    }

    /// Reads a call. A call without a name calls nothing, and is left out.
    fn call(&mut self, index: usize, item: &Node<'a>, kind: CallKind, input: &str) {
        let Some(name) = item.text_at("name").filter(|name| !name.is_blank()) else { return };
        let id = calls::call_id(item).unwrap_or_else(|| Text::of(&format!("call_{index}")));
        self.called.insert(id.clone());
        let input = calls::input(item, input);
        self.turn(Role::Assistant).parts.push(Part::Call(Call { id, name, kind, input, signature: None }));
    }

    /// Reads the output of a call. An output without a call is left out, because no other dialect takes it.
    fn output(&mut self, index: usize, item: &Node<'a>, kind: CallKind) -> Result<(), ConversionError> {
        let Some(call_id) = calls::call_id(item).filter(|id| self.called.contains(id)) else { return Ok(()) };
        let place = TextPlace { item: index, member: "output" };
        let parts = match item.get("output") {
            None => Vec::new(),
            Some(output) if output.is_string() || output.is_array() => content::read(output, place)?,
            // Some clients send the value instead of its text.
            Some(output) => vec![Part::Text(Text::of(output.raw()))],
        };
        let result = Part::Result(ToolResult { call_id, kind, parts, listed: false, is_error: false });
        match self.turns.last_mut() {
            Some(Turn { role: Role::User, parts, .. }) if matches!(parts.last(), Some(Part::Result(_))) => {
                parts.push(result);
            }
            _ => self.push_turn(Role::User, vec![result]),
        }
        Ok(())
    }

    fn push_turn(&mut self, role: Role, parts: Vec<Part<'a>>) {
        self.turns.push(Turn::new(role, parts));
    }

    /// Adds what the assistant thought or said. It begins a new turn, unless the last part of the assistant's turn is
    /// a thought or a call: calls wait for their outputs, so that turn is not over.
    fn push_assistant(&mut self, parts: Vec<Part<'a>>) {
        let goes_on = self.turns.last().is_some_and(|turn| {
            turn.role == Role::Assistant
                && !matches!(turn.parts.last(), Some(Part::Text(_) | Part::Refusal(_)))
        });
        if goes_on {
            self.turn(Role::Assistant).parts.extend(parts);
        } else {
            self.push_turn(Role::Assistant, parts);
        }
    }

    /// Returns the last turn if it has that role, or a new one.
    fn turn(&mut self, role: Role) -> &mut Turn<'a> {
        if self.turns.last().is_none_or(|turn| turn.role != role) {
            self.push_turn(role, Vec::new());
        }
        let last = self.turns.len() - 1;
        &mut self.turns[last]
    }
}
