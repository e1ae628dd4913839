//! Replaces tool names that an upstream would refuse, and restores them in answers.
//!
//! OpenAI's endpoints take at most 64 characters, and these and messages only letters, digits, `_` and `-`; Google
//! wants a letter or `_` first. A client's name that does not fit is replaced in the same way wherever it occurs in a
//! request, and every answer gets the client's own name back.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::literal::Text;

/// The longest name at OpenAI's endpoints, in characters.
pub const MAX_CHARS: usize = 64;

/// The longest name that is replaced, in bytes: answers repeat the client's name in every call. A longer one stays, and the
/// upstream refuses it.
const MAX_REPLACED: usize = 1024;
/// The longest number that is appended to a name, with its `_`: a request has fewer parts than five digits tell.
const MAX_SUFFIX: usize = 6;

/// The names of one request that had to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolNames {
    /// The upstream's name for each of the client's; `client` has them the other way round.
    upstream: HashMap<String, String>,
    client: HashMap<String, String>,
}

impl ToolNames {
    /// Makes the names fit: those of the tools that are offered, and of the calls that were made, each in order. A
    /// later call changes none of the earlier names, so that the conversation begins as before.
    pub fn fit<'t>(offered: &[Cow<'t, str>], called: &[Cow<'t, str>], fits: impl Fn(&str) -> String) -> Self {
        let stays = |name: &&Cow<'t, str>| fits(name) == ***name;
        let mut kept: HashSet<String> = offered.iter().filter(stays).map(|name| name.to_string()).collect();
        let mut taken = kept.clone();
        // The last number appended to the names with each beginning. Names that differ only behind it share their numbers,
        // so that none walks over those of all others.
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut names = Self::default();
        for name in offered.iter().chain(called).filter(|name| name.len() <= MAX_REPLACED) {
            if kept.contains(&**name) || names.upstream.contains_key(&**name) {
                continue;
            }
            let short = fits(name);
            let mut free = short.clone();
            while taken.contains(&free) {
                let number = numbers.entry(beginning(&short, MAX_SUFFIX)).or_default();
                *number += 1;
                let suffix = format!("_{number}");
                free = beginning(&short, suffix.len()) + &suffix;
            }
            taken.insert(free.clone());
            if free == **name {
                kept.insert(free);
                continue;
            }
            names.upstream.insert(name.to_string(), free.clone());
            names.client.insert(free, name.to_string());
        }
        names
    }

    pub fn is_empty(&self) -> bool {
        self.upstream.is_empty()
    }

    /// Returns the upstream's name for the client's.
    pub fn upstream<'t>(&self, client: &'t Text<'_>) -> Text<'t> {
        find(&self.upstream, client)
    }

    /// Returns the client's name for the upstream's.
    pub fn client<'t>(&self, upstream: &'t Text<'_>) -> Text<'t> {
        find(&self.client, upstream)
    }
}

/// Returns the beginning of a name that leaves room for so many characters.
fn beginning(name: &str, room: usize) -> String {
    name.chars().take(MAX_CHARS - room).collect()
}

fn find<'t>(names: &HashMap<String, String>, name: &'t Text<'_>) -> Text<'t> {
    if names.is_empty() {
        return name.borrowed();
    }
    names.get(&*name.decode()).map_or_else(|| name.borrowed(), |other| Text::of(other))
}

/// Shortens a name for an OpenAI endpoint to 64 characters: `mcp__` and the last segment where that fits, else the last
/// 64 characters.
pub fn short(name: &str) -> String {
    if name.chars().count() <= MAX_CHARS {
        return name.to_owned();
    }
    if name.starts_with("mcp__")
        && let Some((_, segment)) = name.rsplit_once("__")
        && !segment.is_empty()
    {
        let short = format!("mcp__{segment}");
        if short.chars().count() <= MAX_CHARS {
            return short;
        }
    }
    let skipped = name.chars().count() - MAX_CHARS;
    name.chars().skip(skipped).collect()
}

/// Makes a name for an OpenAI endpoint: `[A-Za-z0-9_-]{1,64}`.
pub fn for_openai(name: &str) -> String {
    short(&with_letters(name, "_-"))
}

/// Makes a name for a messages endpoint: `[A-Za-z0-9_-]{1,128}`.
pub fn plain(name: &str) -> String {
    with_letters(name, "_-").chars().take(128).collect()
}

/// Makes a name for a gemini endpoint: letters, digits and `_.:-`, a letter or `_` first, at most 64 characters.
pub fn for_google(name: &str) -> String {
    let name = short(&with_letters(name, "_.:-"));
    if name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        return name;
    }
    std::iter::once('_').chain(name.chars()).take(MAX_CHARS).collect()
}

/// Returns the name with `_` for each character that is neither a letter or digit of ASCII nor one of `others`.
fn with_letters(name: &str, others: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || others.contains(letter);
    name.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(names: &[&str]) -> ToolNames {
        ToolNames::fit(&names.iter().map(|name| Cow::Borrowed(*name)).collect::<Vec<_>>(), &[], short)
    }

    #[test]
    fn long_names_come_back_whole() {
        let long = format!("mcp__{}__search", "server".repeat(13));
        let names = fit(&["add", &long]);
        assert_eq!(names.upstream(&Text::of(&long)).decode(), "mcp__search");
        assert_eq!(names.client(&Text::plain("mcp__search")).decode(), long);
        assert_eq!(names.upstream(&Text::plain("add")).decode(), "add");
        let tail = "x".repeat(30) + &"y".repeat(64);
        assert_eq!(fit(&[&tail]).upstream(&Text::of(&tail)).decode(), "y".repeat(64));
    }

    #[test]
    fn two_names_never_become_one() {
        let one = format!("{}{}", "a".repeat(40), "z".repeat(64));
        let two = format!("{}{}", "b".repeat(40), "z".repeat(64));
        let mine = format!("{}_1", "z".repeat(62));
        let names = fit(&[&one, &two, &mine, &one]);
        let shorts: Vec<_> =
            [&one, &two].map(|name| names.upstream(&Text::of(name)).decode().into_owned()).into();
        assert_eq!(shorts[0], "z".repeat(64));
        assert_eq!(shorts[1], "z".repeat(62) + "_2");
        assert_eq!(names.client(&Text::of(&shorts[1])).decode(), two);
    }

    #[test]
    fn names_that_begin_alike_are_numbered_through() {
        let all: Vec<_> = (0..10_000)
            .flat_map(|number| [".x", "_x"].map(|end| format!("{}{number:04}{end}", "p".repeat(58))))
            .map(Cow::<str>::Owned)
            .collect();
        let names = ToolNames::fit(&all, &[], for_openai);
        assert_eq!(names.upstream(&Text::of(&all[0])).decode(), "p".repeat(58) + "0000_1");
        assert_eq!(names.upstream(&Text::of(&all[19_998])).decode(), "p".repeat(58) + "_10000");
    }

    #[test]
    fn a_name_that_nobody_takes_stays_for_the_upstream_to_refuse() {
        let (long, longer) = ("x".repeat(MAX_REPLACED), "y".repeat(MAX_REPLACED + 1));
        let names = fit(&[&long, &longer]);
        assert_eq!(names.upstream(&Text::of(&long)).decode().len(), MAX_CHARS);
        assert_eq!(names.upstream(&Text::of(&longer)).decode(), longer);
    }

    #[test]
    fn a_later_call_changes_no_name() {
        let long = format!("mcp__{}__search", "server".repeat(13));
        let (offered, called) = ([Cow::Borrowed(long.as_str())], [Cow::Borrowed("mcp__search")]);
        let names = ToolNames::fit(&offered, &called, short);
        assert_eq!(names.upstream(&Text::of(&long)).decode(), "mcp__search");
        assert_eq!(names.upstream(&Text::plain("mcp__search")).decode(), "mcp__search_1");
        assert_eq!(names.client(&Text::plain("mcp__search_1")).decode(), "mcp__search");
        assert_eq!(names.client(&Text::plain("mcp__search")).decode(), long);
    }

    #[test]
    fn odd_letters_become_plain() {
        let names = ToolNames::fit(&[Cow::Borrowed("ns.do it")], &[], plain);
        assert_eq!(names.upstream(&Text::plain("ns.do it")).decode(), "ns_do_it");
        for (name, openai, google) in [
            ("get", "get", "get"),
            ("ns.do:it now", "ns_do_it_now", "ns.do:it_now"),
            ("1st-tool", "1st-tool", "_1st-tool"),
            ("größe", "gr__e", "gr__e"),
        ] {
            assert_eq!((for_openai(name).as_str(), for_google(name).as_str()), (openai, google));
        }
    }
}
