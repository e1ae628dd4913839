//! The ports that browsers come back to, and which of them are open.

use tokio::sync::{Mutex, MutexGuard};

use crate::platform::OAuthProvider;

/// The port of each provider's listener. A slot is held while its listener opens or closes.
#[derive(Default)]
pub struct CallbackPorts {
    open: [Mutex<Option<u16>>; 4],
}

/// The port that browsers come back to. Its listener stays open while this is held.
pub struct CallbackPort<'a> {
    pub port: u16,
    pub(super) _slot: MutexGuard<'a, Option<u16>>,
}

// === impl CallbackPorts ===

impl CallbackPorts {
    /// Returns the slot of a provider, which has the port while the provider's listener is open.
    pub(super) fn slot(&self, provider: OAuthProvider) -> &Mutex<Option<u16>> {
        match provider {
            OAuthProvider::Codex => &self.open[0],
            OAuthProvider::Claude => &self.open[1],
            OAuthProvider::GeminiCli => &self.open[2],
            OAuthProvider::Antigravity => &self.open[3],
        }
    }
}
