//! How a payload rule names models: as model patterns do, but in any case, and with the
//! classes `[ab]` and the choices `{a,b}` of shells.

use regex_lite::{Regex, RegexBuilder};

/// Compiled size that bounds what matching one name can cost.
const MAX_COMPILED: usize = 256 * 1024;
/// A longer name is no model's.
const MAX_NAME: usize = 1024;

/// A compiled name.
pub(super) struct Glob {
    /// In lower case: a name that is spelled like its pattern matches, whatever is special in it.
    text: String,
    /// `None` where nothing is special in it, or where it cannot be compiled.
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

/// A glob as a regular expression. What is opened and never closed stands for itself.
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
