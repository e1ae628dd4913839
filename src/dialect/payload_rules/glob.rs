//! The names of models in a payload rule: like model patterns, but compared without case, and with the classes `[ab]`
//! and the choices `{a,b}` of shells.

use regex_lite::{Regex, RegexBuilder};

/// The largest compiled size, in bytes, which bounds the cost of matching one name.
const MAX_COMPILED: usize = 256 * 1024;
/// The longest name that is matched, in bytes; no model's is longer.
const MAX_NAME: usize = 1024;

/// The compiled pattern of a name.
pub(super) struct Glob {
    /// The pattern in lower case: a name that is spelled like it matches, whatever special characters it has.
    text: String,
    /// The regular expression; `None` where the pattern has no special characters, or cannot be compiled.
    regex: Option<Regex>,
}

impl Glob {
    pub(super) fn new(text: &str) -> Self {
        let body = text.strip_prefix("re:").map(str::to_owned);
        let special = text.contains(['*', '?', '[', '{']).then(|| format!("^(?:{})$", translated(text)));
        let compile = |body: String| {
            RegexBuilder::new(&body)
                .case_insensitive(true)
                .dot_matches_new_line(true)
                .size_limit(MAX_COMPILED)
                .build()
        };
        let regex = body.or(special).and_then(|body| compile(body).ok());
        Self { text: text.to_lowercase(), regex }
    }

    pub(super) fn matches(&self, model: &str) -> bool {
        if model.len() > MAX_NAME {
            return false;
        }
        self.text == model.to_lowercase() || self.regex.as_ref().is_some_and(|regex| regex.is_match(model))
    }
}

/// Translates a glob into a regular expression. A bracket or brace that is never closed stands for itself.
fn translated(glob: &str) -> String {
    let mut out = String::new();
    let mut open_choices = 0;
    let mut rest = glob;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            '[' => match rest.split_once(']').filter(|(class, _)| !class.is_empty()) {
                Some((class, behind)) => {
                    out.push_str(&class_of(class));
                    rest = behind;
                }
                None => out.push_str("\\["),
            },
            '{' if rest.contains('}') => {
                out.push_str("(?:");
                open_choices += 1;
            }
            ',' if open_choices > 0 => out.push('|'),
            '}' if open_choices > 0 => {
                out.push(')');
                open_choices -= 1;
            }
            other => out.push_str(&regex_lite::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    out
}

fn class_of(class: &str) -> String {
    let (negated, class) = match class.strip_prefix(['!', '^']) {
        Some(class) => ("^", class),
        None => ("", class),
    };
    let mut escaped = String::new();
    for c in class.chars() {
        if matches!(c, '\\' | '[' | ']' | '^' | '&' | '~') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    format!("[{negated}{escaped}]")
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn a_name_matches_as_a_glob_in_any_case() {
        for (glob, model, matches) in [
            ("gpt-4o", "GPT-4o", true),
            ("gpt-4o", "gpt-4o-mini", false),
            ("GPT-*", "gpt-4o", true),
            ("*", "vendor/model", true),
            ("gpt-?", "gpt-4", true),
            ("gpt-?", "gpt-4o", false),
            ("gpt-[45]*", "gpt-5-mini", true),
            ("gpt-[!45]*", "gpt-5-mini", false),
            ("gpt-[a-c]", "gpt-B", true),
            ("{gpt,o}-*", "o-3", true),
            ("{gpt,o}-*", "claude-3", false),
            ("[NV]x", "[nv]X", true),
            ("a.c*", "abc", false),
            ("a[c", "a[c", true),
            ("a{c*", "a{cd", true),
            ("re:^gpt-(4|5)$", "GPT-5", true),
            ("re:(", "re:(", true),
            ("re:(", "x", false),
        ] {
            assert_eq!(Glob::new(glob).matches(model), matches, "{glob} {model}");
        }
    }
}
