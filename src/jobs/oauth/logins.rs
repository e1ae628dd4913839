//! The state that logins keep from one request to the next.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::callback_ports::CallbackPorts;
use super::login_sessions::LoginSessions;

/// Logins in a browser; [`Jobs`](crate::jobs::Jobs) holds one.
#[derive(Default)]
pub struct Logins {
    pub sessions: Arc<LoginSessions>,
    pub(super) ports: CallbackPorts,
    /// Held from looking for the account of a grant to storing it, since one owner has one account.
    pub(super) activations: Mutex<()>,
}
