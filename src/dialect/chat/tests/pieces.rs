//! Peculiarities of upstreams that are undone before anything else: inline thinking, snapshots.

use proptest::prelude::*;

use crate::dialect::chat::inline::{Inline, TextKind};
use crate::dialect::chat::snapshots::Snapshots;
use crate::dialect::literal::Text;

/// Returns the thinking and the text of an answer that comes in these pieces.
fn told_apart(pieces: &[&str]) -> (String, String) {
    let mut inline = Inline::default();
    let (mut thought, mut said) = (String::new(), String::new());
    let mut take = |kind: TextKind, literal: &str| match kind {
        TextKind::Thinking => thought.push_str(literal),
        _ => said.push_str(literal),
    };
    pieces.iter().for_each(|piece| inline.feed(piece, &mut take));
    inline.finish(&mut take);
    (thought, said)
}

fn whole(pieces: &[&str]) -> Vec<String> {
    let mut snapshots = Snapshots::default();
    let mut out = Vec::new();
    pieces.iter().for_each(|piece| snapshots.feed(piece, &mut |new| out.push(new.to_owned())));
    snapshots.finish(&mut |new| out.push(new.to_owned()));
    out
}

#[test]
fn thinking_is_told_from_text_at_the_start_alone() {
    for (text, thought, said) in [
        ("<think>a</think>b", "a", "b"),
        ("<THINK>a</Think>\\n\\nb", "a", "\\n\\nb"),
        (" \\n<think>a</think>", "a", ""),
        ("\\u003cthink\\u003ea\\u003c/think\\u003eb", "a", "b"),
        ("<think>a<\\/think>b", "a", "b"),
        ("<think>a < b </thin </think>c", "a < b </thin ", "c"),
        ("<think>a<</think>c", "a<", "c"),
        ("<think>never closed </th", "never closed </th", ""),
        ("<think></think>b", "", "b"),
        ("x <think>a</think>", "", "x <think>a</think>"),
        ("<thinking>a", "", "<thinking>a"),
        ("  <th", "", "  <th"),
        ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
        ("\\ud83d\\ude00<think>", "", "\\ud83d\\ude00<think>"),
        ("", "", ""),
    ] {
        assert_eq!(told_apart(&[text]), (thought.to_owned(), said.to_owned()), "{text}");
    }
    let blanks = " ".repeat(65) + "<think>a";
    assert_eq!(told_apart(&[&blanks]).1, blanks);
}

#[test]
fn where_the_chunks_cut_makes_no_difference() {
    for text in ["<think>é😀 a</thin</think>b<think>", "  <thinker", "<think>a</thin", "\\n<tHink>a"] {
        let wanted = told_apart(&[text]);
        for (first, _) in text.char_indices() {
            // No chunk ends within an escape, because each is a complete JSON string.
            if text[..first].ends_with('\\') {
                continue;
            }
            let (one, rest) = text.split_at(first);
            assert_eq!(told_apart(&[one, rest]), wanted, "{one}|{rest}");
        }
        let letters: Vec<String> = text.replace("\\n", " ").chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(told_apart(&letters), told_apart(&[&text.replace("\\n", " ")]), "{text}");
    }
}

#[test]
fn snapshots_become_pieces() {
    let start = "The quick brown fox jumps";
    let steps: Vec<String> = [start, " over", " the", " lazy", " dog", "."]
        .iter()
        .scan(String::new(), |text, step| {
            text.push_str(step);
            Some(text.clone())
        })
        .collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    assert_eq!(whole(&steps), [start, " over the lazy", " dog", "."]);
    let again: Vec<&str> = steps.iter().chain(steps.last()).copied().collect();
    assert_eq!(whole(&again).concat(), "The quick brown fox jumps over the lazy dog.");
}

#[test]
fn pieces_that_look_like_snapshots_stay_pieces() {
    let line = "------------------------------\\n";
    let two = format!("{line}{line}");
    let three = format!("{two}{line}");
    for pieces in [
        &["hel", "lo f(", "(x))"][..],
        &[line, line, line, line, line],
        &["a", "ab", "abc", "abcd", "abcde"],
        &[line, &two, &three],
        &[line, &two, &three, "x"],
        &[line, &two, "x", &three],
    ] {
        assert_eq!(whole(pieces).concat(), pieces.concat());
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_or_added(pieces in prop::collection::vec("(<think>|</think>|<|/|th|é|ink>| |a){0,6}", 0..8)) {
        let all = pieces.concat();
        let borrowed: Vec<&str> = pieces.iter().map(String::as_str).collect();
        prop_assert_eq!(told_apart(&borrowed), told_apart(&[&all]));
        let (thought, said) = told_apart(&[&all]);
        prop_assert!(all.len() - thought.len() - said.len() <= all.len());
        if thought.is_empty() && !all.trim_start().to_lowercase().starts_with("<think>") {
            prop_assert_eq!(said, all);
        }
    }

    #[test]
    fn any_literal_is_read(text in "\\PC{0,20}", cut in 0usize..20) {
        let literal = Text::of(&text).literal().to_owned();
        let at = literal.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(literal.len());
        let (one, rest) = literal.split_at(at);
        told_apart(&[one, rest]);
        whole(&[one, rest, &literal]);
    }
}
