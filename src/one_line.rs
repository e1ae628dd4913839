//! Makes texts of unknown origin fit for one line of a log, a table or a response, and shortens texts.

/// Returns the first `most` characters of a text.
pub fn first_chars(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

/// Returns a text as one line: runs of white space and control characters become one blank, and those at its ends are
/// removed. So are characters that change the direction of what follows.
pub fn one_line(text: &str) -> String {
    short_line(text, usize::MAX, "")
}

/// Returns [`one_line`] cut to at most `most` characters; if it was longer, `cut` is appended.
pub fn short_line(text: &str, most: usize, cut: &str) -> String {
    let mut line = String::new();
    let words = text.split(|c: char| c.is_control() || c.is_whitespace());
    for word in words.map(|word| word.trim_matches(is_direction)).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !is_direction(*c)));
        // The rest would be cut off.
        if line.len() / char::MAX.len_utf8() > most {
            break;
        }
    }
    if let Some((end, _)) = line.char_indices().nth(most) {
        line.truncate(end);
        line.push_str(cut);
    }
    line
}

/// Returns a text of several lines, cut to at most `most` characters; if it was longer, `cut` is appended. Other control
/// characters than line breaks and tabs are removed, and those that change the direction of what follows.
pub fn short_text(text: &str, most: usize, cut: &str) -> String {
    let is_shown = |c: &char| !is_direction(*c) && (!c.is_control() || matches!(c, '\n' | '\r' | '\t'));
    let mut shown = text.chars().filter(is_shown);
    let mut short: String = shown.by_ref().take(most).collect();
    if shown.next().is_some() {
        short.push_str(cut);
    }
    short
}

/// Whether a character changes the direction of the text that follows (Unicode Standard Annex 9): with those a name can
/// be shown as another one.
pub fn is_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changes_the_direction_of_a_line() {
        assert_eq!(one_line("a\u{202e}gnp.exe \u{202d} \u{2066}b\u{2069}"), "agnp.exe b");
        assert_eq!(one_line("\u{202e}"), "");
    }

    #[test]
    fn a_text_keeps_its_lines_and_is_cut_by_characters() {
        assert_eq!(short_text("a\r\n\tb\u{1b}[31m\u{202e}c\0", 99, "…"), "a\r\n\tb[31mc");
        assert_eq!(short_text("äöü", 3, "…"), "äöü");
        assert_eq!(short_text("äöüß", 3, "…"), "äöü…");
    }

    #[test]
    fn the_beginning_is_counted_by_characters() {
        for (text, most, expected) in [("äöü", 3, "äöü"), ("äöü", 2, "äö"), ("äöü", 0, ""), ("", 2, "")]
        {
            assert_eq!(first_chars(text, most), expected);
        }
    }

    #[test]
    fn what_is_one_line_stays_one() {
        assert_eq!(one_line(" a\r\n\tb \u{7}\u{85}\u{a0} c\u{0} "), "a b c");
        assert_eq!(one_line("\n\n"), "");
    }

    #[test]
    fn a_line_is_cut_by_characters() {
        assert_eq!(short_line("äöü ß", 5, "…"), "äöü ß");
        assert_eq!(short_line("äöü  ßx", 5, "…"), "äöü ß…");
        assert_eq!(short_line(&"𝛼 ".repeat(10_000), 3, ""), "𝛼 𝛼");
        assert_eq!(short_line("a", 0, "…"), "…");
    }
}
