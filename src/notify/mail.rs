//! Formats a message as a mail with sender, recipients and text (RFC 5322, 2045, 2047), written by `mail-builder`.

use mail_send::mail_builder::MessageBuilder;
use mail_send::mail_builder::headers::address::Address;
use mail_send::mail_builder::headers::raw::Raw;

use super::message::Message;

/// The sender and the recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) from: Mailbox,
    pub(super) to: Vec<Mailbox>,
}

/// An address `name@host`, optionally with a display name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mailbox {
    name: String,
    pub(super) address: String,
}

impl Envelope {
    /// Reads one sender, and recipients separated by commas.
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

    fn header(&self) -> Address<'_> {
        let name = Some(self.name.as_str()).filter(|name| !name.is_empty());
        Address::new_address(name, self.address.as_str())
    }
}

/// Builds the whole mail, with CR LF line ends. `id` is unique.
pub(super) fn text(message: &Message, envelope: &Envelope, id: &str) -> String {
    let host = envelope.from.address.rsplit_once('@').map_or("localhost", |(_, host)| host);
    // A mail has no CR outside of a line end (RFC 5321 §2.3.8).
    let lines = message.levelled().replace("\r\n", "\n").replace('\r', "\n");
    let mut mail = Vec::new();
    MessageBuilder::new()
        .from(envelope.from.header())
        .to(Address::new_list(envelope.to.iter().map(Mailbox::header).collect()))
        .subject(message.tag_line())
        .header("Date", Raw::new(message.date.as_str()))
        .message_id(format!("{id}@{host}"))
        // Prevents replies by vacation notices (RFC 3834).
        .header("Auto-Submitted", Raw::new("auto-generated"))
        .text_body(lines.lines().collect::<Vec<_>>().join("\r\n") + "\r\n")
        .serialize(&mut mail);
    // All of it is ASCII, since other characters are encoded.
    String::from_utf8_lossy(&mail).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::message::sample;
    use super::*;
    use crate::store::events::EventLevel;

    /// Returns head and body of a mail with this title and message.
    fn mail(title: &str, message: &str) -> (String, String) {
        let envelope = Envelope::parse("gate@g.example", "a@b.example").expect("an envelope");
        let text = text(&sample(title, message, EventLevel::Error), &envelope, "id-1");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }

    #[test]
    fn a_plain_mail_is_readable_on_the_wire() {
        let (head, body) = mail("Token expired", "line 1\nline 2");
        let expected = "From: <gate@g.example>\r\nTo: <a@b.example>\r\nSubject: [Switchyard][ERROR] Token expired\r\n\
            Date: Sun, 1 Mar 2026 16:00:00 +0800\r\nMessage-ID: <id-1@g.example>\r\nAuto-Submitted: auto-generated\r\n\
            MIME-Version: 1.0\r\nContent-Type: text/plain; charset=\"utf-8\"\r\nContent-Transfer-Encoding: 7bit";
        assert_eq!(head, expected);
        let expected = "line 1\r\nline 2\r\n\r\nLevel: error\r\n\
            Local Time: 2026-03-01 16:00:00 (Asia/Shanghai)\r\nUTC Time: 2026-03-01T08:00:00.000Z\r\n";
        assert_eq!(body, expected);
    }

    #[test]
    fn hostile_titles_add_no_header() {
        for title in
            ["x\r\nBcc: everyone@b.example\r\n\r\nbody", "=?UTF-8?B?eA==?=", "\u{4ee4}\u{724c} \"q\" <b>"]
        {
            let (head, _) = mail(title, "m");
            let lines = head.split("\r\n").filter(|line| !line.starts_with(' '));
            let names: Vec<&str> = lines.filter_map(|line| line.split(':').next()).collect();
            let expected = [
                "From",
                "To",
                "Subject",
                "Date",
                "Message-ID",
                "Auto-Submitted",
                "MIME-Version",
                "Content-Type",
            ];
            assert_eq!(names[..8], expected, "{head}");
            assert_eq!(names.len(), 9, "{head}");
            assert!(head.is_ascii(), "{head}");
        }
    }

    #[test]
    fn every_line_end_is_cr_lf() {
        let (_, body) = mail("t", "a\r\nb\r.\rz\n");
        assert!(body.starts_with("a\r\nb\r\n.\r\nz\r\n"), "{body:?}");
        assert!(!body.replace("\r\n", "").contains(['\r', '\n']), "{body:?}");
    }

    #[test]
    fn long_subjects_are_folded() {
        let (head, _) = mail(&"\u{754c}".repeat(100), "m");
        assert!(head.is_ascii() && head.split("\r\n").all(|line| line.len() <= 78), "{head}");
    }

    #[test]
    fn senders_and_recipients_are_read_with_and_without_names() {
        let envelope =
            Envelope::parse("\"Gate One\" <g@g.example>", "a@b.example, Z\u{fc}rich <z@b.example> ,")
                .expect("read");
        let names: Vec<_> =
            envelope.to.iter().map(|mailbox| (mailbox.name.as_str(), mailbox.address.as_str())).collect();
        assert_eq!(envelope.from.name, "Gate One");
        assert_eq!(names, [("", "a@b.example"), ("Z\u{fc}rich", "z@b.example")]);
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
