//! Alerts to the operator about failing requests.
//!
//! One alert for requests that nobody could serve: the first of a route is sent, those that follow within the
//! cool-down are counted, also when all channels cool down meanwhile and none is left to try. A credential that
//! its site refuses is reported once as well. The account does not expire for it: an account whose only credential is a key
//! would never be asked again, and some hubs refuse now and then; a call to the site decides that
//! (`jobs::account_health`).

use crate::core::Core;
use crate::error_words::sites::{self, Meaning};
use crate::ids::{RouteId, TokenId};
use crate::one_line::short_line;
use crate::routing::{AccountStatus, Channel};
use crate::store::events::{EventLevel, NewEvent};

use super::call::Call;
use super::failure::Failure;
use super::operation::Operation;

/// The longest model name that an alert repeats, in characters.
const MAX_MODEL: usize = 120;
/// How much of an upstream's words an alert repeats.
const MAX_CAUSE: usize = 400;

/// Every channel that was tried has failed, the last one like this; or, without a failure, there was none to try.
/// There is no alert when the request itself is at fault, nor when an operator tries a channel.
pub(super) fn unserved(core: &Core, call: &Call, last: Option<&Failure>) {
    let is_nobodys_fault = last.is_some_and(|failure| !failure.blames_channels());
    // A count of tokens that nobody gave is estimated: its client misses nothing.
    if is_nobodys_fault || call.operation == Operation::CountTokens || call.caller.forced_channel.is_some() {
        return;
    }
    // Models without a route share one subject: their names are the clients' to choose.
    let snapshot = core.snapshot.load();
    let route = snapshot.lookup(&call.envelope.model, call.caller.policy()).map(|found| found.route.id);
    core.notifier.alert(format_args!("unserved:{}", route.unwrap_or(RouteId::ZERO)), || {
        let model = short_line(&call.model, MAX_MODEL, "…");
        let (title, message) = match last {
            Some(failure) => {
                let cause = short_line(&failure.text, MAX_CAUSE, "…");
                (
                    "All channels failed",
                    format!("Model {model}: no channel gave an answer; the last one: {cause}"),
                )
            }
            None => ("No available channel", format!("Model {model}: no channel can take its requests")),
        };
        log::warn!("{}: {message}", title.to_lowercase());
        NewEvent {
            kind: "proxy",
            title: title.to_owned(),
            message: Some(message),
            level: EventLevel::Error,
            related_id: route.map(RouteId::get),
            related_type: Some("route"),
        }
    });
}

/// A site has refused the credential of a channel. Who let the account expire over it has told so.
pub(super) fn refused(core: &Core, channel: &Channel, failure: &Failure) {
    const UNAUTHORIZED: u16 = 401;
    if failure.upstream_status() != Some(UNAUTHORIZED)
        || sites::meaning(failure.words().as_str(), Some(UNAUTHORIZED), false) != Some(Meaning::Expired)
    {
        return;
    }
    let account = &channel.account;
    let now = core.snapshot.load();
    if now.current(channel).is_none_or(|now| now.account.status == AccountStatus::Expired) {
        return;
    }
    let token_id = channel.token_id.unwrap_or(TokenId::ZERO);
    core.notifier.alert(format_args!("refused:{}:{token_id}", account.id), || {
        let name = account.username.clone().unwrap_or_else(|| format!("Account {}", account.id));
        let token =
            channel.token_name.as_ref().map_or_else(String::new, |name| format!(" (token \"{name}\")"));
        let message = format!("{name} @ {}{token}: token invalid or expired (HTTP 401)", account.site.name);
        log::warn!("token expired: {message}");
        NewEvent {
            kind: "token",
            title: "Token expired".to_owned(),
            message: Some(message),
            level: EventLevel::Error,
            related_id: Some(account.id.get()),
            related_type: Some("account"),
        }
    });
}
