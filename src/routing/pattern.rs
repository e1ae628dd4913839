//! How routes, keys and mapping rules name models: exactly, by glob, or by regular expression.
//!
//! | kind | written | matches |
//! |---|---|---|
//! | exact | anything else | the same bytes; `[NV]x` is a literal |
//! | glob | with `*` or `?` | `*` any run including `/`, `?` one character; the whole name, case-sensitive |
//! | regex | `re:…` | anywhere in the name unless anchored by `^` or `$`, case-sensitive |
//!
//! A pattern is compiled once. The regex engine runs in linear time, so that no operator's pattern can stall requests.

use std::borrow::Cow;
use std::fmt;

use regex_lite::{Regex, RegexBuilder};

/// Longest accepted regular expression, in characters.
const MAX_REGEX: usize = 256;
/// The largest compiled regex, in bytes. Bounds the cost of matching one name, for bodies like `(a{50}){50}`.
const MAX_COMPILED: usize = 256 * 1024;
/// The longest name of a model, in bytes. A longer one is only compared exactly, never matched by a glob or a regex.
const MAX_NAME: usize = 1024;

/// A compiled pattern; blanks around its text are not part of it.
#[derive(Clone)]
pub struct ModelPattern {
    text: Box<str>,
    kind: PatternKind,
}

#[derive(Clone)]
enum PatternKind {
    Exact,
    Glob,
    /// Boxed, because every channel has a pattern and few are regexes: unboxed, it would enlarge them all.
    Regex(Box<Regex>),
    /// A stored regex that does not compile; it matches only its own text.
    Unusable,
}

/// Why a pattern was refused, in words for the person who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError(String);

// === impl ModelPattern ===

impl ModelPattern {
    /// Parses a pattern that is about to be saved; refuses an unusable one.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(PatternError("a model pattern must not be blank".to_owned()));
        }
        let kind = match regex_body(text) {
            Some(body) => PatternKind::Regex(Box::new(compile(body)?)),
            None if text.contains(['*', '?']) => PatternKind::Glob,
            None => PatternKind::Exact,
        };
        Ok(Self { text: text.into(), kind })
    }

    /// Parses a pattern that was saved or imported; keeps an unusable regex, which matches only its own text.
    pub fn stored(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|_| Self { text: text.trim().into(), kind: PatternKind::Unusable })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern names exactly one model, byte for byte.
    pub fn is_exact(&self) -> bool {
        matches!(self.kind, PatternKind::Exact)
    }

    /// Returns whether the pattern matches the model.
    pub fn matches(&self, model: &str) -> bool {
        if *self.text == *model {
            return true;
        }
        match &self.kind {
            PatternKind::Exact | PatternKind::Unusable => false,
            _ if model.len() > MAX_NAME => false,
            PatternKind::Glob => glob_matches(&self.text, model),
            PatternKind::Regex(regex) => regex.is_match(model),
        }
    }
}

impl fmt::Debug for ModelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl fmt::Display for ModelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for ModelPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for ModelPattern {}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PatternError {}

fn regex_body(text: &str) -> Option<&str> {
    let prefix = text.get(..3)?;
    prefix.eq_ignore_ascii_case("re:").then(|| text[3..].trim())
}

fn compile(body: &str) -> Result<Regex, PatternError> {
    if body.is_empty() {
        return Err(PatternError("nothing follows `re:`".to_owned()));
    }
    if body.chars().count() > MAX_REGEX {
        return Err(PatternError(format!("the regular expression is longer than {MAX_REGEX} characters")));
    }
    let build = |expression: &str| {
        RegexBuilder::new(expression)
            .size_limit(MAX_COMPILED)
            .build()
            .map_err(|error| PatternError(format!("the regular expression is not usable: {error}")))
    };
    // Anchors at the ends apply to the whole body: `^a|b$` matches `a` or `b` and nothing longer.
    let (start, rest) = body.strip_prefix('^').map_or(("", body), |rest| ("^", rest));
    let (rest, end) = match rest.strip_suffix('$') {
        Some(kept) if !ends_in_escape(kept) => (kept, "$"),
        _ => (rest, ""),
    };
    // The body is compiled on its own first: wrapping would make `a)|(b` valid.
    let bare = build(rest)?;
    if start.is_empty() && end.is_empty() { Ok(bare) } else { build(&format!("{start}(?:{rest}){end}")) }
}

/// Returns whether the text ends in an unfinished escape.
fn ends_in_escape(text: &str) -> bool {
    text.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Matches a glob in one walk over both texts, backtracking only to the last `*`.
fn glob_matches(pattern: &str, name: &str) -> bool {
    let (mut rest, mut left) = (pattern, name);
    // After the last `*`: the pattern behind it, and the part of the name that the star may still consume.
    let mut star: Option<(&str, &str)> = None;
    loop {
        let mut wanted = rest.chars();
        let mut given = left.chars();
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                rest = wanted.as_str();
                star = Some((rest, left));
                continue;
            }
            (Some('?'), Some(_)) => {
                (rest, left) = (wanted.as_str(), given.as_str());
                continue;
            }
            (Some(one), Some(other)) if one == other => {
                (rest, left) = (wanted.as_str(), given.as_str());
                continue;
            }
            _ => {}
        }
        let Some((behind, from)) = star else {
            return false;
        };
        let mut grown = from.chars();
        if grown.next().is_none() {
            return false;
        }
        (rest, left) = (behind, grown.as_str());
        star = Some((behind, left));
    }
}

/// Returns whether both are spellings of one model: equal after trimming, lower-casing and dropping everything up to the
/// last `/`.
pub fn alias_equal(one: &str, other: &str) -> bool {
    if one == other {
        return !one.trim().is_empty();
    }
    let (one, other) = (bare_name(one), bare_name(other));
    if one.is_empty() || other.is_empty() {
        return false;
    }
    if one.is_ascii() && other.is_ascii() {
        return one.eq_ignore_ascii_case(other);
    }
    one.chars().flat_map(char::to_lowercase).eq(other.chars().flat_map(char::to_lowercase))
}

/// Returns the normalised name, which all spellings of one model share.
pub fn norm(model: &str) -> Cow<'_, str> {
    lower_case(bare_name(model))
}

/// Converts a name to lower case; borrows it if it already is, as most are.
pub fn lower_case(name: &str) -> Cow<'_, str> {
    let is_lower = name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if is_lower { Cow::Borrowed(name) } else { Cow::Owned(name.to_lowercase()) }
}

/// Returns the name without what stands before its last `/`, such as a provider.
pub fn bare_name(model: &str) -> &str {
    let model = model.trim();
    let slash = model.bytes().rposition(|byte| byte == b'/');
    slash.map(|at| &model[at + 1..]).filter(|name| !name.is_empty()).unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_as_documented() {
        for (pattern, model, expected) in [
            ("gpt-4o", "gpt-4o", true),
            ("gpt-4o", "GPT-4o", false),
            (" gpt-4o ", "gpt-4o", true),
            ("[NV]deepseek-v3", "[NV]deepseek-v3", true),
            ("[NV]deepseek-v3", "Ndeepseek-v3", false),
            ("gpt-*", "gpt-4o", true),
            ("gpt-*", "gpt-", true),
            ("gpt-*", "GPT-4o", false),
            ("gpt-*", "my-gpt-4o", false),
            ("*", "openai/gpt-4o", true),
            ("*/gpt-4?", "openai/gpt-4o", true),
            ("gpt-4?", "gpt-4", false),
            ("gpt-4?", "gpt-4é", true),
            ("*-mini*", "o4-mini", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("a.c", "abc", false),
            ("gpt-*", "gpt-*", true),
            (r"re:^claude-(opus|sonnet)-4-6$", "claude-opus-4-6", true),
            (r"re:^claude-(opus|sonnet)-4-6$", "claude-haiku-4-6", false),
            (r"re:^gpt-4o-mini-\d+$", "gpt-4o-mini-2024", true),
            ("re:mini", "gpt-4o-mini-2024", true),
            ("re:mini", "gpt-4o-MINI", false),
            ("  RE: ^gpt ", "gpt-4", true),
            ("re:^a|b$", "a", true),
            ("re:^a|b$", "b", true),
            ("re:^a|b$", "ax", false),
            ("re:^a|b$", "xb", false),
            (r"re:^a\$", "a$", true),
            (r"re:^a\$", "a$b", true),
            (r"re:a\\$", r"xa\", true),
            ("re:^(?:gpt|claude)-5$", "claude-5", true),
            ("re:a{1,3}b", "aab", true),
            ("re:(", "re:(", true),
        ] {
            assert_eq!(ModelPattern::stored(pattern).matches(model), expected, "{pattern} on {model}");
        }
    }

    #[test]
    fn an_unusable_regex_is_refused_with_a_reason_and_never_matches() {
        for (pattern, reason) in [
            ("re:", "nothing follows"),
            ("re:  ", "nothing follows"),
            ("re:(", "not usable"),
            ("re:a)|(b", "not usable"),
            ("re:^a)|(b$", "not usable"),
            ("re:(?=claude)", "not usable"),
            (r"re:(a)\1", "not usable"),
            ("re:((a{100}){100}){100}", "not usable"),
            ("", "blank"),
            (&format!("re:{}", "a".repeat(257)), "longer than 256"),
        ] {
            let error = ModelPattern::parse(pattern).expect_err(pattern).to_string();
            assert!(error.contains(reason), "{pattern}: {error}");
            assert!(!ModelPattern::stored(pattern).matches("claude"), "{pattern}");
        }
    }

    #[test]
    fn only_plain_names_are_exact() {
        for (pattern, exact) in [
            ("gpt-4o", true),
            ("[NV]x", true),
            ("gpt*", false),
            ("gpt?", false),
            ("re:gpt", false),
            ("re:(", false),
        ] {
            assert_eq!(ModelPattern::stored(pattern).is_exact(), exact, "{pattern}");
        }
    }

    #[test]
    fn spellings_of_one_model_are_alias_equal() {
        for (one, other, expected) in [
            ("openai/gpt-4o", "gpt-4o", true),
            (" Azure/OpenAI/GPT-4o ", "gpt-4O", true),
            ("openai/", "openai/", true),
            ("openai/", "openai", false),
            ("gpt-4o", "gpt-4", false),
            ("", "", false),
            ("Ünïcode", "x/ünïCODE", true),
        ] {
            assert_eq!(alias_equal(one, other), expected, "{one} and {other}");
            assert_eq!(norm(one) == norm(other) && !norm(one).is_empty(), expected, "{one} and {other}");
        }
    }

    proptest! {
        #[test]
        fn no_pattern_panics_and_each_matches_itself(pattern in ".{0,40}", model in ".{0,40}") {
            let compiled = ModelPattern::stored(&pattern);
            compiled.matches(&model);
            prop_assert!(compiled.matches(pattern.trim()));
        }

        #[test]
        fn regexes_of_any_shape_do_not_panic(body in r"[a-b\\^$|()\[\]{}*+?,0-9:=!<dw.]{0,24}", model in "[ab0-9]{0,12}") {
            ModelPattern::stored(&format!("re:{body}")).matches(&model);
        }

        #[test]
        fn globs_agree_with_the_obvious_recursion(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
            fn obvious(pattern: &[u8], name: &[u8]) -> bool {
                match (pattern.split_first(), name.split_first()) {
                    (None, None) => true,
                    (Some((b'*', rest)), _) => (0..=name.len()).any(|run| obvious(rest, &name[run..])),
                    (Some((b'?', rest)), Some((_, left))) => obvious(rest, left),
                    (Some((one, rest)), Some((other, left))) => one == other && obvious(rest, left),
                    _ => false,
                }
            }
            prop_assert_eq!(glob_matches(&pattern, &name), obvious(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
