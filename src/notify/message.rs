//! Formats a notice for people: tag line, text, footnote.

use std::borrow::Cow;

use jiff::tz::TimeZone;

use super::Notice;
use crate::one_line::one_line;
use crate::store::events::EventLevel;
use crate::time::{self, Millis};

/// The sender's name in messages.
pub(super) const SENDER: &str = "Switchyard";
/// The mark at the end of a text that was cut.
const CUT: &str = "...(truncated)";
/// The maximum length of a text on any channel, in bytes; most services accept less.
const MAX_TEXT: usize = 32 * 1024;
/// The maximum length of a title on any channel, in characters.
const MAX_TITLE: usize = 200;

/// The operator's time zone.
pub(super) struct Zone {
    pub(super) zone: TimeZone,
    pub(super) name: String,
}

/// A notice ready to be sent on any channel.
pub(super) struct Message {
    pub(super) level: EventLevel,
    pub(super) title: String,
    pub(super) text: String,
    /// ISO 8601, UTC.
    pub(super) timestamp: String,
    /// `YYYY-MM-DD HH:MM:SS`.
    pub(super) local_time: String,
    pub(super) zone: String,
    /// The date as mails write it.
    pub(super) date: String,
}

impl Message {
    /// Formats a notice; `merged` is the number of repeats held back since the last one.
    pub(super) fn new(notice: &Notice, merged: u64, now: Millis, zone: &Zone) -> Self {
        let stamp = jiff::Timestamp::from_millisecond(now).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let local = stamp.to_zoned(zone.zone.clone());
        Self {
            level: notice.level,
            title: cut(notice.title.trim(), MAX_TITLE, usize::MAX).into_owned(),
            text: with_merged(&cut(notice.message.trim(), usize::MAX, MAX_TEXT), merged),
            timestamp: time::iso(now),
            local_time: local.strftime("%Y-%m-%d %H:%M:%S").to_string(),
            zone: zone.name.clone(),
            date: jiff::fmt::rfc2822::to_string(&local).unwrap_or_default(),
        }
    }

    /// Returns `[Switchyard][ERROR] title`, always one line.
    pub(super) fn tag_line(&self) -> String {
        let level = self.level.as_str().to_uppercase();
        format!("[{SENDER}][{level}] {}", one_line(&self.title))
    }

    /// Returns tag line, text and footnote.
    pub(super) fn tagged(&self) -> String {
        format!("{}\n\n{}\n\n{}", self.tag_line(), self.text, self.footnote())
    }

    /// Returns text, level and footnote.
    pub(super) fn levelled(&self) -> String {
        self.levelled_within(usize::MAX)
    }

    /// Returns text, level and footnote in at most this many bytes; only the text is cut.
    pub(super) fn levelled_within(&self, most_bytes: usize) -> String {
        let end = format!("\n\nLevel: {}\n{}", self.level.as_str(), self.footnote());
        let text = cut(&self.text, usize::MAX, most_bytes.saturating_sub(end.len()));
        format!("{text}{end}")
    }

    fn footnote(&self) -> String {
        format!("Local Time: {} ({})\nUTC Time: {}", self.local_time, self.zone, self.timestamp)
    }
}

/// Appends a line on the repeats that were held back, if there were any.
pub(super) fn with_merged(message: &str, merged: u64) -> String {
    match merged {
        0 => message.to_owned(),
        count => format!("{message}\n\n{count} identical alerts merged during the cool-down"),
    }
}

/// Cuts a text to this many bytes of JSON, as written by programs that also escape what is special in HTML, including
/// the mark at the end.
pub(super) fn cut_escaped(text: &str, most_bytes: usize) -> Cow<'_, str> {
    let size = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => 6,
        c if c.is_control() => 6,
        c => c.len_utf8(),
    };
    if text.chars().map(size).sum::<usize>() <= most_bytes {
        return Cow::Borrowed(text);
    }
    let (mut bytes, mut end) = (CUT.len(), 0);
    for (at, c) in text.char_indices() {
        bytes += size(c);
        if bytes > most_bytes {
            break;
        }
        end = at + c.len_utf8();
    }
    Cow::Owned(format!("{}{CUT}", &text[..end]))
}

/// Cuts a text to this many UTF-16 units, as chat services count, and bytes, including the mark at the end.
pub(super) fn cut(text: &str, most_units: usize, most_bytes: usize) -> Cow<'_, str> {
    if text.encode_utf16().count() <= most_units && text.len() <= most_bytes {
        return Cow::Borrowed(text);
    }
    let (mut units, mut end) = (CUT.len(), 0);
    for (at, c) in text.char_indices() {
        units += c.len_utf16();
        let next = at + c.len_utf8();
        if units > most_units || next + CUT.len() > most_bytes {
            break;
        }
        end = next;
    }
    Cow::Owned(format!("{}{CUT}", &text[..end]))
}

#[cfg(test)]
pub(super) fn sample(title: &str, message: &str, level: EventLevel) -> Message {
    let zone = TimeZone::get("Asia/Shanghai").expect("a zone");
    let zone = Zone { zone, name: "Asia/Shanghai".to_owned() };
    // 2026-03-01T08:00:00Z
    Message::new(&Notice::new(level, title, message), 0, 1_772_352_000_000, &zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tagged_text_has_tag_line_message_and_footnote() {
        let message = sample(" Token expired ", "alice @ Demo site: HTTP 401\n", EventLevel::Error);
        let expected = "[Switchyard][ERROR] Token expired\n\nalice @ Demo site: HTTP 401\n\n\
            Local Time: 2026-03-01 16:00:00 (Asia/Shanghai)\nUTC Time: 2026-03-01T08:00:00.000Z";
        assert_eq!(message.tagged(), expected);
        let expected = "alice @ Demo site: HTTP 401\n\nLevel: error\n\
            Local Time: 2026-03-01 16:00:00 (Asia/Shanghai)\nUTC Time: 2026-03-01T08:00:00.000Z";
        assert_eq!(message.levelled(), expected);
    }

    #[test]
    fn a_title_of_several_lines_makes_one_tag_line() {
        let message = sample("a\r\nBcc: x@y.example\u{0}\u{2028}b", "", EventLevel::Warning);
        assert_eq!(message.tag_line(), "[Switchyard][WARNING] a Bcc: x@y.example b");
    }

    #[test]
    fn what_was_held_back_is_noted_below_a_blank_line() {
        assert_eq!(with_merged("m", 0), "m");
        assert_eq!(with_merged("m", 2), "m\n\n2 identical alerts merged during the cool-down");
    }

    #[test]
    fn every_channel_gets_a_bounded_text_with_its_footnote() {
        let message = sample(&"t".repeat(5000), &"\u{754c}".repeat(300_000), EventLevel::Error);
        assert_eq!(message.title.len(), MAX_TITLE);
        assert!(message.text.len() <= MAX_TEXT && message.text.ends_with(CUT));
        let levelled = message.levelled_within(1000);
        assert!(levelled.len() <= 1000 && levelled.contains(CUT), "{levelled}");
        assert!(levelled.ends_with("UTC Time: 2026-03-01T08:00:00.000Z"), "{levelled}");
    }

    #[test]
    fn a_text_in_json_is_cut_by_its_escaped_length() {
        assert_eq!(cut_escaped("a\"b", 4), "a\"b");
        assert_eq!(cut_escaped(&"<".repeat(10), 27), format!("<<{CUT}"));
        assert_eq!(cut_escaped(&"\u{754c}".repeat(10), 21), format!("\u{754c}\u{754c}{CUT}"));
    }

    #[test]
    fn a_cut_text_keeps_to_both_limits_and_says_that_it_was_cut() {
        for (text, units, bytes, expected) in [
            ("a".repeat(20), 20, 20, "a".repeat(20)),
            ("a".repeat(21), 20, 99, format!("{}{CUT}", "a".repeat(6))),
            ("\u{754c}".repeat(20), 99, 20, format!("{}{CUT}", "\u{754c}".repeat(2))),
            // A character outside the basic plane counts twice.
            ("\u{1f600}".repeat(11), 21, 99, format!("{}{CUT}", "\u{1f600}".repeat(3))),
            ("a".repeat(21), 3, 99, CUT.to_owned()),
        ] {
            assert_eq!(cut(&text, units, bytes), expected);
        }
    }
}
