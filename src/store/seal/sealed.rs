//! A sealed text on its way into the database, with its claim on the key that sealed it.
//!
//! A key may be deleted when nothing sealed with it is left. Stored texts can be found in the database. A text
//! that is not stored yet, in a batch being built or in the writer's queue, holds a [`Claim`], which is
//! released with the statement once the writer has committed it or given it up.

use std::fmt;

use tokio::sync::watch;

/// A sealed text for a statement.
#[derive(Clone)]
pub struct Sealed {
    text: String,
    _claim: Claim,
}

/// A claim on a key; as long as one exists, the key is not deleted.
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
    /// Creates the claims on a new key, and the first claim, of which all others are clones.
    pub(in crate::store) fn new() -> (Self, Claim) {
        let (claims, claim) = watch::channel(());
        (Self(claims), Claim(claim))
    }

    /// Waits until every claim has been released.
    pub(in crate::store) async fn released(&self) {
        self.0.closed().await;
    }

    pub(in crate::store) fn are_released(&self) -> bool {
        self.0.is_closed()
    }
}
