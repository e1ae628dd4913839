//! A message as a mail: who it is from and to, and its text (RFC 5322, 2045, 2047).
//!
//! Everything that is not plain ASCII is encoded, so no server needs to know more than the oldest does,
//! and nothing of a title or message can end a header or the mail.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::message::Message;

/// Bytes in one encoded word: with its frame and `Subject: ` it fits a line of 76.
const WORD: usize = 39;
/// A subject up to here stands as it is when it is plain.
const PLAIN_SUBJECT: usize = 66;
/// Characters of base64 in a line.
const LINE: usize = 76;

/// Sender and recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) from: Mailbox,
    pub(super) to: Vec<Mailbox>,
}

/// `name@host`, perhaps with the name people know it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mailbox {
    name: String,
    pub(super) address: String,
}

impl Envelope {
    /// Reads one sender, and recipients split at commas.
    pub(super) fn parse(from: &str, to: &str) -> Result<Self, String> {
        let entries = to.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let to: Vec<_> = entries.map(Mailbox::parse).collect::<Result<_, _>>()?;
        if to.is_empty() {
            return Err("there is no recipient".to_owned());
        }
        Ok(Self { from: Mailbox::parse(from)?, to })
    }
}

impl Mailbox {
    /// Reads `a@b` or `Name <a@b>`.
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (name, address) = match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
            Some((name, address)) => (name.trim().trim_matches('"'), address.trim()),
            None => ("", text),
        };
        let is_usable =
            address.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
                && address.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>,;\"\\".contains(&byte));
        if !is_usable {
            return Err(format!("{text:?} is not a mail address"));
        }
        Ok(Self { name: name.to_owned(), address: address.to_owned() })
    }

    fn shown(&self) -> String {
        let (name, address) = (&self.name, &self.address);
        if name.is_empty() {
            address.clone()
        } else if is_plain(name) {
            format!("\"{}\" <{address}>", name.replace('\\', "\\\\").replace('"', "\\\""))
        } else {
            format!("{}\r\n <{address}>", encoded_words(name))
        }
    }
}

/// The whole mail, its lines ended by CR LF. `id` is unique.
pub(super) fn text(message: &Message, envelope: &Envelope, id: &str) -> String {
    let to: Vec<String> = envelope.to.iter().map(Mailbox::shown).collect();
    let host = envelope.from.address.rsplit_once('@').map_or("localhost", |(_, host)| host);
    let subject = message.tag_line();
    let subject =
        if is_plain(&subject) && subject.len() <= PLAIN_SUBJECT { subject } else { encoded_words(&subject) };
    let headers = [
        format!("From: {}", envelope.from.shown()),
        format!("To: {}", to.join(",\r\n ")),
        format!("Subject: {subject}"),
        format!("Date: {}", message.date),
        format!("Message-ID: <{id}@{host}>"),
        "MIME-Version: 1.0".to_owned(),
        "Content-Type: text/plain; charset=utf-8".to_owned(),
        "Content-Transfer-Encoding: base64".to_owned(),
        // No vacation notice should answer (RFC 3834).
        "Auto-Submitted: auto-generated".to_owned(),
    ];
    format!("{}\r\n\r\n{}", headers.join("\r\n"), body(&message.levelled()))
}

/// A text in base64, its own line ends as mail wants them.
fn body(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let encoded = BASE64_STANDARD.encode(lines.join("\r\n") + "\r\n");
    let mut body = String::with_capacity(encoded.len() + encoded.len() / LINE * 2 + 2);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        body.push_str(line);
        body.push_str("\r\n");
        rest = after;
    }
    body
}

/// Stands in a header as it is, and is not taken for an encoded word.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) && !text.contains("=?")
}

/// RFC 2047, 2: each word holds whole characters.
fn encoded_words(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        if word.len() + c.len_utf8() > WORD {
            words.push(std::mem::take(&mut word));
        }
        word.push(c);
    }
    words.push(word);
    let encoded = words.iter().map(|word| format!("=?UTF-8?B?{}?=", BASE64_STANDARD.encode(word)));
    encoded.collect::<Vec<_>>().join("\r\n ")
}

#[cfg(test)]
mod tests {
    use super::super::message::sample;
    use super::*;
    use crate::store::events::EventLevel;

    fn mail(title: &str, message: &str) -> (String, String) {
        let envelope = Envelope::parse("gate@g.example", "a@b.example").expect("an envelope");
        let text = text(&sample(title, message, EventLevel::Error), &envelope, "id-1");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }

    /// Puts encoded words together again.
    fn decoded(subject: &str) -> String {
        let words = subject.split("\r\n ").map(|word| {
            let inner = word.strip_prefix("=?UTF-8?B?").and_then(|word| word.strip_suffix("?="));
            let bytes = BASE64_STANDARD.decode(inner.expect("an encoded word")).expect("base64");
            String::from_utf8(bytes).expect("whole characters")
        });
        words.collect()
    }

    #[test]
    fn a_plain_mail_is_readable_on_the_wire() {
        let (head, body) = mail("Token expired", "line 1\nline 2");
        let expected = "From: gate@g.example\r\nTo: a@b.example\r\nSubject: [Switchyard][ERROR] Token expired\r\n\
            Date: Sun, 1 Mar 2026 16:00:00 +0800\r\nMessage-ID: <id-1@g.example>\r\nMIME-Version: 1.0\r\n\
            Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\nAuto-Submitted: auto-generated";
        assert_eq!(head, expected);
        assert!(body.ends_with("\r\n") && body.lines().all(|line| line.len() <= LINE), "{body}");
        let text = BASE64_STANDARD.decode(body.replace("\r\n", "")).expect("base64");
        let expected = "line 1\r\nline 2\r\n\r\nLevel: error\r\n\
            Local Time: 2026-03-01 16:00:00 (Asia/Shanghai)\r\nUTC Time: 2026-03-01T08:00:00.000Z\r\n";
        assert_eq!(String::from_utf8(text).expect("UTF-8"), expected);
    }

    #[test]
    fn hostile_texts_stay_where_they_belong() {
        for (title, shown) in [
            ("x\r\nBcc: everyone@b.example\r\n\r\nbody", "x Bcc: everyone@b.example body"),
            ("=?UTF-8?B?eA==?=", "=?UTF-8?B?eA==?="),
            ("\u{4ee4}\u{724c}\u{1f600} \"q\" <b>", "\u{4ee4}\u{724c}\u{1f600} \"q\" <b>"),
        ] {
            let (head, _) = mail(title, ".\r\n.\r\nQUIT\r\n");
            let names: Vec<&str> = head
                .split("\r\n")
                .filter(|line| !line.starts_with(' '))
                .filter_map(|line| line.split(':').next())
                .collect();
            assert_eq!(names.len(), 9, "{head}");
            assert!(head.is_ascii(), "{head}");
            let subject = head.split_once("Subject: ").and_then(|(_, rest)| rest.split_once("\r\nDate: "));
            let (subject, _) = subject.expect("a subject");
            let read = if subject.contains("=?") { decoded(subject) } else { subject.to_owned() };
            assert_eq!(read, format!("[Switchyard][ERROR] {shown}"));
        }
        let (_, body) = mail("t", ".\r\n.\r\nQUIT\r\n");
        assert!(!body.lines().any(|line| line.starts_with('.')), "{body}");
    }

    #[test]
    fn long_subjects_are_folded_between_characters() {
        let title = "\u{754c}".repeat(100);
        let (head, _) = mail(&title, "m");
        assert!(head.split("\r\n").all(|line| line.len() <= 78), "{head}");
        let (subject, _) = head
            .split_once("Subject: ")
            .and_then(|(_, rest)| rest.split_once("\r\nDate: "))
            .expect("a subject");
        assert_eq!(decoded(subject), format!("[Switchyard][ERROR] {title}"));
    }

    #[test]
    fn senders_and_recipients_are_read_with_and_without_names() {
        let envelope =
            Envelope::parse("\"Gate \\ One\" <g@g.example>", "a@b.example, Z\u{fc}rich <z@b.example> ,")
                .expect("read");
        assert_eq!(envelope.from.shown(), "\"Gate \\\\ One\" <g@g.example>");
        let to: Vec<_> = envelope.to.iter().map(|mailbox| mailbox.address.as_str()).collect();
        assert_eq!(to, ["a@b.example", "z@b.example"]);
        assert_eq!(envelope.to[1].shown(), "=?UTF-8?B?WsO8cmljaA==?=\r\n <z@b.example>");
        for (from, to) in [
            ("g", "a@b.example"),
            ("g@g.example", ""),
            ("g@g.example", "a@b.example> RCPT TO:<x@y.example"),
            ("g@g.example\r\nX: y", "a@b.example"),
            ("g@g.example", "a b@c.example"),
            ("g@g.example", "\u{fc}@b.example"),
        ] {
            assert!(Envelope::parse(from, to).is_err(), "{from} {to}");
        }
    }
}
