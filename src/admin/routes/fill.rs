//! The consequences of saving a route: the channels that a pattern route starts with, and the source routes that take
//! over the strategy of a group.

use std::collections::HashSet;
use std::sync::Arc;

use super::view::{RouteIndex, is_exact};
use crate::admin::errors::{AdminError, Result};
use crate::core::Core;
use crate::ids::RouteId;
use crate::jobs::rebuild;
use crate::routing::rebuild::Credential;
use crate::routing::{ModelPattern, Strategy};
use crate::store;
use crate::store::route_edits::RouteDraft;
use crate::store::routes::{ChannelRow, NewChannel, RouteRow};

/// The key that no two channels of a route share: the credential and the upstream model name in lower case.
pub type ChannelKey = (Credential, String);

/// Builds the key of a channel with this credential and source model.
pub fn channel_key(credential: Credential, source_model: Option<&str>) -> ChannelKey {
    (credential, source_model.unwrap_or_default().trim().to_lowercase())
}

/// Builds the key of a stored channel; without a model of its own it serves its route's model.
pub fn key_of(route_index: &RouteIndex, channel: &ChannelRow) -> ChannelKey {
    let credential = credential_of(channel);
    channel_key(credential, route_index.source_model(channel))
}

/// Builds the channels of a route with this pattern, except those that it keeps: copies of the channels of enabled
/// exact routes that it matches, then one for each offer of a model that it matches.
pub async fn fill(
    core: &Arc<Core>,
    route_index: &RouteIndex,
    own_id: Option<RouteId>,
    pattern: &str,
) -> store::Result<Vec<NewChannel>> {
    let pattern = ModelPattern::stored(pattern);
    let own = own_id.into_iter().flat_map(|id| route_index.owned(id));
    let mut known: HashSet<ChannelKey> =
        own.filter(|channel| channel.manual_override).map(|channel| key_of(route_index, channel)).collect();
    let mut channels = Vec::new();
    let sources = route_index.routes().filter(|route| {
        Some(route.id) != own_id && route.enabled && is_exact(route) && pattern.matches(&route.model_pattern)
    });
    for channel in sources.flat_map(|route| route_index.owned(route.id)) {
        let copy = copy_of(route_index, channel);
        if known.insert(channel_key(copy.credential, copy.source_model.as_deref())) {
            channels.push(copy);
        }
    }
    for (model, credential) in rebuild::offers(core).await? {
        if pattern.matches(&model) && known.insert(channel_key(credential, Some(&model))) {
            channels.push(NewChannel::automatic(credential, &model));
        }
    }
    Ok(channels)
}

fn credential_of(channel: &ChannelRow) -> Credential {
    let ChannelRow { account_id, token_id, oauth_route_unit_id: unit_id, .. } = *channel;
    Credential { account_id, token_id, unit_id }
}

/// Copies the credential, model and settings of a channel, but not its counters.
fn copy_of(route_index: &RouteIndex, channel: &ChannelRow) -> NewChannel {
    NewChannel {
        credential: credential_of(channel),
        source_model: route_index.source_model(channel).map(str::to_owned),
        priority: channel.priority,
        weight: channel.weight,
        enabled: channel.enabled,
        manual_override: channel.manual_override,
        is_extra: false,
    }
}

/// Refuses sources that a group cannot use: ones that do not exist, are groups themselves, or match more than one
/// model.
pub fn check_sources(route_index: &RouteIndex, draft: &RouteDraft) -> Result<()> {
    for id in draft.sources.iter().flatten() {
        let problem = match route_index.route(*id) {
            None => "does not exist",
            Some(route) if route.is_group() => "is a group",
            Some(route) if !is_exact(route) => "is not the route of exactly one model",
            Some(_) => continue,
        };
        return Err(AdminError::bad_request(format!("Invalid sourceRouteIds: route {id} {problem}.")));
    }
    Ok(())
}

/// Returns the sources that take over the strategy of a group. A source does if it matches exactly one model, no other group
/// uses it, and it has the default strategy or the group's former one.
pub fn followers(route_index: &RouteIndex, draft: &RouteDraft, former: Option<&RouteRow>) -> Vec<RouteId> {
    let others = route_index.routes().filter(|route| former.is_none_or(|former| former.id != route.id));
    let shared: HashSet<RouteId> = others.flat_map(|group| group.source_route_ids.iter().copied()).collect();
    let has_none_of_its_own = |route: &RouteRow| {
        route.routing_strategy == Strategy::default()
            || former.is_some_and(|group| group.routing_strategy == route.routing_strategy)
    };
    let sources = draft.sources.iter().flatten().filter(|id| !shared.contains(*id));
    sources
        .filter_map(|id| route_index.route(*id))
        .filter(|route| is_exact(route))
        .filter(|route| route.routing_strategy != draft.routing_strategy && has_none_of_its_own(route))
        .map(|route| route.id)
        .collect()
}
