//! Alerts to the operator about failing requests.
//!
//! There is one alert for requests that no channel could serve: the first of a route is sent, and those that follow
//! within the cool-down are counted, even when all channels cool down meanwhile and none is left to try. A credential
//! that its site refuses is reported once as well. The account does not expire because of it: an account whose only
//! credential is a key would never be asked again, and some hubs refuse now and then; a call to the site decides that
//! (`jobs::accounts::health`).

use crate::core::Core;
use crate::error_words::sites::{self, Meaning};
use crate::ids::{RouteId, TokenId};
use crate::one_line::short_line;
use crate::routing::{AccountStatus, Channel};
use crate::store::events::{EventLevel, NewEvent};

use super::call::Call;
use super::failure::Failure;
use super::operation::Operation;

/// The maximum length of a model name in an alert, in characters.
const MAX_MODEL: usize = 120;
/// The maximum length of an upstream's message in an alert, in characters.
const MAX_CAUSE: usize = 400;

/// Alerts that every channel tried has failed, the last one with this failure; without a failure there was none to try.
/// There is no alert when the request itself is at fault, nor when an operator tries a channel.
pub(super) fn unserved(core: &Core, call: &Call, last: Option<&Failure>) {
    let is_nobodys_fault = last.is_some_and(|failure| !failure.blames_channels());
    // A token count that no upstream gave is estimated, so its client misses nothing.
    if is_nobodys_fault || call.operation == Operation::CountTokens || call.caller.forced_channel.is_some() {
        return;
    }
    // Models without a route share one subject, because clients choose their names.
    let snapshot = core.snapshot.load();
    let route = snapshot.lookup(&call.envelope.model, call.caller.policy()).map(|found| found.route.id);
    core.notifier.alert(format_args!("unserved:{}", route.unwrap_or(RouteId::ZERO)), || {
        let model = short_line(&call.model, MAX_MODEL, "…");
        let (title, message) = match last {
            Some(failure) => {
                let cause = short_line(&failure.text, MAX_CAUSE, "…");
                (
                    "All channels failed",
                    format!("Model {model}: all channels that were tried failed; the last one with: {cause}"),
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

/// Alerts that a site has refused a channel's credential. If the account has expired, that has been reported already.
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
