//! Makes texts of unknown origin fit for one line of a log, a table or a response.

/// Returns a text as one line: runs of white space and control characters become one blank, and those at its ends are
/// removed.
pub fn one_line(text: &str) -> String {
    short_line(text, usize::MAX, "")
}

/// Returns [`one_line`] cut to at most `most` characters; if it was longer, `cut` is appended.
pub fn short_line(text: &str, most: usize, cut: &str) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
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

#[cfg(test)]
mod tests {
    use super::*;

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
