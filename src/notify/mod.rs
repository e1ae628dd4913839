//! Notices to the operator, on every channel that is configured.
//!
//! ```text
//! Notifier::send ─▶ cool-down ─▶ queue ─▶ every usable channel at once     returns before the queue
//! Notifier::alert  as send, for what may happen a thousand times a second; stores an event, too
//! Notifier::deliver                     ─▶ every usable channel at once     waits, and tells how it went
//! ```
//!
//! | file | gives |
//! |---|---|
//! | `notifier` | taking notices without waiting, sending them in the background, draining on stop |
//! | `cooldown` | which repeats are held back, and how many were |
//! | `message` | the texts: tag line, footnote, cutting |
//! | `channel` | which channels are usable by the settings, and one delivery on each |
//! | `webhook`, `push_app`, `push_service`, `chat_bot` | what each channel is sent and how it says yes |
//! | `mail`, `smtp` | the message as a mail, and handing it to a server |
//! | `post` | one HTTP request of a channel, its secrets kept out of every text |
//!
//! A channel that fails is a log line (`notify failed`); it never delays the caller or another channel.
//! Texts are sent as they are, escaped for where they stand: no channel is asked to read markup in them.

mod channel;
mod chat_bot;
mod cooldown;
mod failure;
mod mail;
mod message;
mod notifier;
mod post;
mod push_app;
mod push_service;
mod smtp;
#[cfg(test)]
mod tests;
mod webhook;

pub use notifier::{Notifier, Report};

use crate::store::events::{EventLevel, NewEvent};

/// Something to tell the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub level: EventLevel,
    pub title: String,
    pub message: String,
    pub repeats: Repeats,
}

/// How a notice is known again, so that the same is not sent again within the cool-down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeats {
    /// By level, title and message.
    ByText,
    /// By what it is about (`token-expired:7`), where the message says the same in other words each time.
    About(String),
    /// Not at all: every one is sent.
    Sent,
}

impl Notice {
    /// One that is known again by its text.
    pub fn new(level: EventLevel, title: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level, title: title.into(), message: message.into(), repeats: Repeats::ByText }
    }

    /// Known again by its subject.
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        self.repeats = Repeats::About(subject.into());
        self
    }

    /// Sent whatever was sent before: the daily summary, reminders that come once.
    pub fn always(mut self) -> Self {
        self.repeats = Repeats::Sent;
        self
    }
}

impl From<&NewEvent> for Notice {
    fn from(event: &NewEvent) -> Self {
        Self::new(event.level, event.title.clone(), event.message.clone().unwrap_or_default())
    }
}
