//! Rewrites `input` for an upstream that takes a list without system messages (Codex).
//!
//! System messages before the first user or assistant item move to `instructions`; later ones stay where they are and
//! become developer messages. If those moved as well, each of them would change the beginning of the prompt, and
//! nothing of it would be cached.

use crate::dialect::edit::edit;
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Returns the body with the texts of its first system messages before its own instructions. What such a message
/// holds besides texts stays in `input`. `None` when there is no system message.
pub fn with_gathered_instructions(body: &Node<'_>) -> Option<String> {
    let items = body.items_at("input");
    items.iter().find(|item| is_message_of("system", item))?;
    let speaks = |item: &Node<'_>| !is_message_of("system", item) && !is_message_of("developer", item);
    let first_word = items.iter().position(speaks).unwrap_or(items.len());
    let mut gathered: Vec<Text<'_>> = Vec::new();
    let mut input = Writer::with_capacity(body.raw().len());
    input.list(|list| {
        for (index, item) in items.iter().enumerate() {
            if !is_message_of("system", item) {
                list.item(item.json());
                continue;
            }
            if index > first_word {
                list.object(|o| put_as_developers(o, item));
                continue;
            }
            let (texts, others) = taken_apart(item);
            gathered.extend(Some(Text::join(&texts, "\\n")).filter(|text| !text.is_blank()));
            if !others.is_empty() {
                list.object(|o| put_with_content(o, item, &others));
            }
        }
    });
    gathered.extend(body.text_at("instructions").filter(|text| !text.is_empty()));
    let instructions = format!("\"{}\"", Text::join(&gathered, "\\n\\n").literal());
    let set = [("instructions", instructions.as_str()), ("input", input.as_str())];
    Some(edit(body.raw(), &set, &[]).into_owned())
}

/// Turns an input that is a string into a list with one user message; `None` for any other input.
pub fn as_message(input: &str) -> Option<String> {
    let is_text = input.starts_with('"');
    is_text.then(|| format!(r#"[{{"type":"message","role":"user","content":{input}}}]"#))
}

fn is_message_of(role: &str, item: &Node<'_>) -> bool {
    matches!(item.str_at("type").as_ref(), "message" | "") && item.str_at("role") == role
}

fn put_as_developers(o: &mut Writer, message: &Node<'_>) {
    for (key, value) in message.members() {
        match key.as_ref() {
            "role" => o.field(key, "developer"),
            _ => o.field(key, value.json()),
        }
    }
}

/// Returns the texts of a message, and its other parts.
fn taken_apart<'n, 'a>(item: &'n Node<'a>) -> (Vec<Text<'a>>, Vec<&'n Node<'a>>) {
    let Some(content) = item.get("content") else { return Default::default() };
    let parts = if content.is_array() { content.items() } else { std::slice::from_ref(content) };
    let text = |part: &Node<'a>| part.text().or_else(|| part.text_at("text"));
    (parts.iter().filter_map(text).collect(), parts.iter().filter(|part| text(part).is_none()).collect())
}

/// Writes the members of a message, with these parts as its content.
fn put_with_content(o: &mut Writer, message: &Node<'_>, parts: &[&Node<'_>]) {
    for (key, value) in message.members() {
        match key.as_ref() {
            "content" => o.array(key, |a| parts.iter().for_each(|part| a.item(part.json()))),
            _ => o.field(key, value.json()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_messages_go_before_the_instructions_until_somebody_speaks() {
        for (body, wanted) in [
            (
                r#"{"model":"m","instructions":"I","input":[{"role":"system","content":"A "},{"role":"user","content":"x"},{"type":"message","role":"system","content":[{"type":"input_text","text":"B"},{"type":"input_text","text":"C"}]}]}"#,
                Some(
                    r#"{"model":"m","instructions":"A \n\nI","input":[{"role":"user","content":"x"},{"type":"message","role":"developer","content":[{"type":"input_text","text":"B"},{"type":"input_text","text":"C"}]}]}"#,
                ),
            ),
            (
                r#"{"instructions":"I","input":[{"role":"developer","content":"D"},{"type":"message","role":"system","content":[{"type":"input_text","text":"B"},{"type":"input_text","text":"C"}]}]}"#,
                Some(r#"{"instructions":"B\nC\n\nI","input":[{"role":"developer","content":"D"}]}"#),
            ),
            (
                r#"{"input":[{"role":"system","content":[{"type":"input_text","text":"A"},{"type":"input_image","image_url":"u"}]}]}"#,
                Some(
                    r#"{"input":[{"role":"system","content":[{"type":"input_image","image_url":"u"}]}],"instructions":"A"}"#,
                ),
            ),
            (
                r#"{"input":[{"role":"system","content":""},{"role":"user","content":"x"}],"instructions":null}"#,
                Some(r#"{"input":[{"role":"user","content":"x"}],"instructions":""}"#),
            ),
            (r#"{"input":[{"role":"developer","content":"D"}]}"#, None),
            (r#"{"input":"x"}"#, None),
        ] {
            assert_eq!(with_gathered_instructions(&Node::parse(body).unwrap()).as_deref(), wanted);
        }
    }

    #[test]
    fn a_text_stands_for_a_message_of_the_user() {
        let message = r#"[{"type":"message","role":"user","content":"a\"b"}]"#;
        assert_eq!(as_message(r#""a\"b""#).as_deref(), Some(message));
        assert_eq!((as_message("[]"), as_message("null")), (None, None));
    }
}
