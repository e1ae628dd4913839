//! A sealed text on its way into the database, with its claim on the key that sealed it.
//!
//! A key may be deleted when nothing sealed with it is left. What is stored, the database knows. What is
//! not stored yet, in a batch that is being put together or in the writer's queue, holds a [`Claim`], and
//! lets go of it with the statement, once the writer has committed it or given it up.

use std::fmt;

use tokio::sync::watch;

/// A sealed text for a statement.
#[derive(Clone)]
pub struct Sealed {
    text: String,
    _claim: Claim,
}

/// One of the texts that keep a key from being deleted.
#[derive(Clone)]
pub(in crate::store) struct Claim(#[expect(dead_code, reason = "held, never read")] watch::Receiver<()>);

/// All claims on one key.
#[derive(Clone)]
pub(in crate::store) struct Claims(watch::Sender<()>);

// === impl Sealed ===

impl Sealed {
    pub(in crate::store) fn new(text: String, claim: Claim) -> Self {
        Self { text, _claim: claim }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl PartialEq for Sealed {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

// === impl Claims ===

impl Claims {
    /// The claims on a new key, and the first of them, of which the others are clones.
    pub(in crate::store) fn new() -> (Self, Claim) {
        let (claims, claim) = watch::channel(());
        (Self(claims), Claim(claim))
    }

    /// Gives once every claim has been let go of.
    pub(in crate::store) async fn released(&self) {
        self.0.closed().await;
    }

    pub(in crate::store) fn are_released(&self) -> bool {
        self.0.is_closed()
    }
}
