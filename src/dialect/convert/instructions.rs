//! Places the operator's instructions of a conversation: at its head, or where they stand.
//!
//! Only those before the first word of either side go to the head. Later ones stay where they are: a provider bills the
//! part it has read before at a tenth, as long as the request begins with the same words, and a client adds new
//! instructions in nearly every turn.
//!
//! | towards | later instructions are |
//! |---|---|
//! | chat, responses | messages of their own |
//! | messages, gemini | texts of the user, in a tag that sets them apart from the user's own words |

use crate::dialect::Dialect;
use crate::dialect::canonical::{Part, Request, Role, Turn, Vendor};
use crate::dialect::literal::Text;
use crate::dialect::marked_turns;

/// The tag in which Anthropic's clients wrap such texts, and which its models are trained to read.
const TAG: Text<'static> = Text::plain("<system-reminder>");
const END_TAG: Text<'static> = Text::plain("</system-reminder>");

/// Puts all instructions where the dialect takes them.
pub(super) fn place(request: &mut Request<'_>, to: Dialect, vendor: Vendor) {
    if !request.turns.iter().any(is_instruction) {
        return;
    }
    if to != Dialect::Chat {
        move_first_to_head(request);
    }
    put_behind_results(&mut request.turns);
    match to {
        Dialect::Messages | Dialect::Gemini => {
            request.turns.iter_mut().filter(|turn| is_instruction(turn)).for_each(remind);
        }
        Dialect::Chat if vendor != Vendor::OpenAi => {
            let named = request.turns.iter_mut().filter(|turn| turn.role == Role::Developer);
            named.for_each(|turn| turn.role = Role::System);
        }
        _ => {}
    }
}

fn is_instruction(turn: &Turn<'_>) -> bool {
    matches!(turn.role, Role::System | Role::Developer)
}

/// Moves the instructions before the first word of either side to the head. Chat has no need of it: it has a message
/// for each, also at the beginning.
fn move_first_to_head(request: &mut Request<'_>) {
    let speaks = |turn: &Turn<'_>| !is_instruction(turn) && !turn.parts.is_empty();
    let first = request.turns.iter().position(speaks).unwrap_or(request.turns.len());
    let moved = request.turns.drain(..first).flat_map(|turn| turn.parts);
    request.system.extend(moved.filter_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    }));
}

/// Moves instructions behind the results that follow them: nothing may stand between a call and its result, not even
/// instructions.
fn put_behind_results(turns: &mut Vec<Turn<'_>>) {
    let mut placed: Vec<Turn<'_>> = Vec::with_capacity(turns.len());
    // The turns of the user's side from its first instruction on, without their results.
    let mut behind = Vec::new();
    for Turn { role, parts, listed } in turns.drain(..) {
        if role == Role::Assistant {
            placed.append(&mut behind);
        }
        if role == Role::Assistant || behind.is_empty() && !matches!(role, Role::System | Role::Developer) {
            placed.push(Turn { role, parts, listed });
            continue;
        }
        let (results, others) = parted(parts);
        match placed.last_mut() {
            _ if results.is_empty() => {}
            Some(Turn { role: Role::User, parts, .. }) if ends_with_result(parts) => parts.extend(results),
            _ => placed.push(Turn::new(Role::User, results)),
        }
        if !others.is_empty() {
            behind.push(Turn { role, parts: others, listed });
        }
    }
    placed.append(&mut behind);
    *turns = placed;
}

/// Separates the results from the other parts. A cache mark stays behind the part that it marks.
fn parted<'a>(parts: Vec<Part<'a>>) -> (Vec<Part<'a>>, Vec<Part<'a>>) {
    let (mut results, mut others) = (Vec::new(), Vec::new());
    let mut is_result = false;
    for part in parts {
        is_result = matches!(part, Part::Result(_)) || is_result && matches!(part, Part::CacheMark(_));
        if is_result { results.push(part) } else { others.push(part) }
    }
    (results, others)
}

fn ends_with_result(parts: &[Part<'_>]) -> bool {
    let last = parts.iter().rev().find(|part| !matches!(part, Part::CacheMark(_)));
    matches!(last, Some(Part::Result(_)))
}

/// Turns an instruction into one text of the user's side, with a tag that says whose words these are.
fn remind(turn: &mut Turn<'_>) {
    let mark = marked_turns::taken(&mut turn.parts);
    let texts: Vec<Text<'_>> = std::mem::take(&mut turn.parts)
        .into_iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(text),
            _ => None,
        })
        .collect();
    let text = Text::join(&texts, "\\n\\n");
    turn.role = Role::User;
    if text.is_blank() {
        return;
    }
    let is_tagged = text.decode().trim_start().starts_with(TAG.literal());
    let text = if is_tagged { text } else { Text::join([&TAG, &text, &END_TAG], "") };
    turn.parts.push(Part::Text(text));
    turn.parts.extend(mark.map(Part::CacheMark));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::canonical::{Call, CallKind, ToolResult};

    fn says(role: Role, text: &'static str) -> Turn<'static> {
        Turn::new(role, vec![Part::Text(Text::plain(text))])
    }

    fn calls(ids: &[&'static str]) -> Turn<'static> {
        let call = |id: &&'static str| {
            let (id, name) = (Text::plain(id), Text::plain("f"));
            Part::Call(Call { id, name, kind: CallKind::Function, input: Text::EMPTY, signature: None })
        };
        Turn::new(Role::Assistant, ids.iter().map(call).collect())
    }

    fn answers(id: &'static str) -> Turn<'static> {
        let result = ToolResult {
            call_id: Text::plain(id),
            kind: CallKind::Function,
            parts: Vec::new(),
            listed: false,
            is_error: false,
        };
        Turn::new(Role::User, vec![Part::Result(result)])
    }

    /// Describes in short who says what.
    fn told(turns: &[Turn<'_>]) -> Vec<String> {
        let said = |part: &Part<'_>| match part {
            Part::Text(text) => text.literal().to_owned(),
            Part::Call(call) => format!("calls {}", call.id.literal()),
            Part::Result(result) => format!("answers {}", result.call_id.literal()),
            _ => "?".to_owned(),
        };
        let line = |turn: &Turn<'_>| turn.parts.iter().map(said).collect::<Vec<_>>().join(", ");
        turns.iter().map(|turn| format!("{:?}: {}", turn.role, line(turn))).collect()
    }

    fn placed(turns: Vec<Turn<'static>>, to: Dialect) -> (Vec<Text<'static>>, Vec<String>) {
        let mut request = Request { turns, ..Request::default() };
        place(&mut request, to, Vendor::OpenAi);
        (request.system, told(&request.turns))
    }

    #[test]
    fn only_what_stands_before_the_first_word_goes_to_the_head() {
        let turns = || {
            vec![
                says(Role::Developer, "one"),
                says(Role::System, "two"),
                says(Role::User, "hi"),
                says(Role::System, "three"),
                says(Role::Assistant, "ho"),
                says(Role::Developer, "<system-reminder>four"),
                says(Role::System, " "),
            ]
        };
        let reminded = [
            "User: hi",
            "User: <system-reminder>three</system-reminder>",
            "Assistant: ho",
            "User: <system-reminder>four",
            "User: ",
        ];
        for to in [Dialect::Messages, Dialect::Gemini] {
            let (system, turns) = placed(turns(), to);
            assert_eq!(system, [Text::plain("one"), Text::plain("two")]);
            assert_eq!(turns, reminded, "{to:?}");
        }
        let (system, turns) = placed(turns(), Dialect::Responses);
        assert_eq!(system.len(), 2);
        let own =
            ["User: hi", "System: three", "Assistant: ho", "Developer: <system-reminder>four", "System:  "];
        assert_eq!(turns, own);
    }

    #[test]
    fn a_result_stays_right_behind_its_call() {
        let mut mixed = answers("c");
        mixed.parts.push(Part::Text(Text::plain("and")));
        let turns = vec![
            says(Role::User, "hi"),
            calls(&["a", "b", "c"]),
            answers("a"),
            says(Role::System, "one"),
            answers("b"),
            says(Role::User, "so"),
            mixed,
            says(Role::System, "two"),
            says(Role::Assistant, "ho"),
            says(Role::System, "three"),
        ];
        let wanted = [
            "User: hi",
            "Assistant: calls a, calls b, calls c",
            "User: answers a, answers b, answers c",
            "System: one",
            "User: so",
            "User: and",
            "System: two",
            "Assistant: ho",
            "System: three",
        ];
        for to in [Dialect::Chat, Dialect::Responses] {
            assert_eq!(placed(turns.clone(), to).1, wanted);
        }
    }
}
