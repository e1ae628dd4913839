//! Notices to the operator, on every configured channel.
//!
//! ```text
//! Notifier::send ─▶ cool-down ─▶ queue ─▶ every usable channel at once     returns before the queue
//! Notifier::alert  like send, for events of up to a thousand a second; also stores an event
//! Notifier::deliver                    ─▶ every usable channel at once     waits, and reports the outcome
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `notifier` | queues notices without waiting, sends them in the background, drains on stop |
//! | `cooldown` | decides which repeats are held back, and counts them |
//! | `message` | the texts: tag line, footnote, cutting |
//! | `channel` | the channels that are usable by the settings, and one delivery on each |
//! | `webhook`, `push_app`, `push_service`, `chat_bot` | the payload of each channel, and how its response is read |
//! | `mail`, `smtp` | the message as a mail, and its delivery to a server |
//! | `failure` | the failure of a channel, and the time limit of every attempt |
//! | `post` | one HTTP request of a channel, its secrets kept out of every text |
//!
//! The failure of a channel is logged (`notify failed`); it never delays the caller or another channel. Texts are sent
//! as they are, escaped for their context: no channel is asked to interpret markup in them.

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

/// A notice to the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub level: EventLevel,
    pub title: String,
    pub message: String,
    pub repeats: Repeats,
}

/// How a notice is recognised as a repeat, which is not sent again within the cool-down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeats {
    /// By level, title and message.
    ByText,
    /// By its subject (`token-expired:7`), if the message words the same thing differently each time.
    About(String),
    /// Never: every notice is sent.
    Sent,
}

impl Notice {
    /// Builds a notice that is recognised by its text.
    pub fn new(level: EventLevel, title: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level, title: title.into(), message: message.into(), repeats: Repeats::ByText }
    }

    /// Makes the notice recognised by its subject.
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        self.repeats = Repeats::About(subject.into());
        self
    }

    /// Makes the notice sent regardless of earlier ones: for the daily summary and reminders that come once.
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
