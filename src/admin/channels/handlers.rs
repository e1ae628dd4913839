//! `/api/routes/{id}/channels` and `/api/channels`: manual changes of a route's channels.
//!
//! A channel that an operator adds or edits belongs to the operator from then on: no rebuild removes it.

use std::collections::HashSet;
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::input::{ChannelEditor, ChannelInput, ChannelRefusal, objects, priorities};
use super::schema;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid};
use crate::admin::require_id;
use crate::admin::routes::view::{ListedChannel, RouteIndex};
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::ids::{AccountId, ChannelId, RouteId};
use crate::jobs::prices;
use crate::store::route_edits::{self, ChannelPatch};
use crate::store::routes::RouteRow;

/// `GET /api/routes/{id}/channels`: lists the channels of a route, or of a group's source routes.
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let route_index = RouteIndex::of(&admin.core.store, &[id], &[]).await?;
    let route = find(&route_index, id)?;
    let listed: Vec<_> =
        route_index.channels(route).map(|channel| route_index.listed(&admin.core, channel)).collect();
    Ok(http::json(StatusCode::OK, &listed))
}

/// `POST /api/routes/{id}/channels`
pub async fn add(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let fields = Fields::of(&schema::ADD, request.json_object().await?);
    let account_id = fields.required_id("accountId")?;
    let input = ChannelInput::read(&fields)?;
    let _turn = admin.core.route_edits.lock().await;
    let route_index = RouteIndex::of(&admin.core.store, &[id], &[account_id]).await?;
    let route = owner(&route_index, id)?;
    let mut editor = ChannelEditor::of(&admin.core.store, &route_index, route, &[account_id]).await?;
    let channel = editor.admit(account_id, input).map_err(refused)?;
    let ids = route_edits::add_channels(&admin.core.store, id, &[channel]).await?;
    admin.core.publish().await?;
    prices::refresh_unread(&admin.jobs, account_id);
    let route_index = RouteIndex::of_channels(&admin.core.store, &ids).await?;
    Ok(http::json(StatusCode::OK, &listed(&admin.core, &route_index, &ids)?.first()))
}

/// `POST /api/routes/{id}/channels/batch`: adds the channels that can be added, in one transaction.
pub async fn add_batch(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let fields = Fields::of(&schema::ADD_BATCH, request.json_object().await?);
    let items = objects(&fields, "channels", &schema::ADD)
        .ok_or_else(|| Invalid::field("channels", "non-empty array of objects"))?;
    let read = |item: Fields| Ok((item.required_id("accountId")?, ChannelInput::read(&item)?));
    let mut inputs = Vec::new();
    for item in items {
        inputs.push(read(item).map_err(|invalid: Invalid| invalid.within("channels"))?);
    }
    let _turn = admin.core.route_edits.lock().await;
    let accounts: Vec<AccountId> = inputs.iter().map(|(account_id, _)| *account_id).collect();
    let route_index = RouteIndex::of(&admin.core.store, &[id], &accounts).await?;
    let route = owner(&route_index, id)?;
    let mut editor = ChannelEditor::of(&admin.core.store, &route_index, route, &accounts).await?;
    let (mut channels, mut skipped, mut errors) = (Vec::new(), 0, Vec::new());
    for (index, (account_id, input)) in inputs.into_iter().enumerate() {
        match editor.admit(account_id, input) {
            Ok(channel) => channels.push(channel),
            Err(ChannelRefusal::Duplicate) => skipped += 1,
            Err(refusal) => errors.push(format!("channels[{index}]: {}", refusal.into_message())),
        }
    }
    if !channels.is_empty() {
        route_edits::add_channels(&admin.core.store, id, &channels).await?;
        admin.core.publish().await?;
        for channel in &channels {
            prices::refresh_unread(&admin.jobs, channel.credential.account_id);
        }
    }
    let answer = json!({ "success": true, "created": channels.len(), "skipped": skipped, "errors": errors });
    Ok(http::json(StatusCode::OK, &answer))
}

/// `PUT /api/channels/batch`: changes the priorities of all the given channels, or of none.
pub async fn update_batch(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let updates = priorities(&Fields::of(&schema::PRIORITIES, request.json_object().await?))?;
    let _turn = admin.core.route_edits.lock().await;
    let mut seen = HashSet::new();
    let ids: Vec<ChannelId> = updates.iter().map(|(id, _)| *id).filter(|id| seen.insert(*id)).collect();
    let route_index = RouteIndex::of_channels(&admin.core.store, &ids).await?;
    if let Some((id, _)) = updates.iter().find(|(id, _)| route_index.channel(*id).is_none()) {
        return Err(AdminError::not_found(&format!("Channel {id}")));
    }
    let patch = |priority| ChannelPatch { priority: Some(priority), ..ChannelPatch::default() };
    let patches = updates.into_iter().map(|(id, priority)| (id, patch(priority))).collect();
    route_edits::update_channels(&admin.core.store, patches).await?;
    admin.core.publish().await?;
    let route_index = RouteIndex::of_channels(&admin.core.store, &ids).await?;
    let answer = json!({ "success": true, "channels": listed(&admin.core, &route_index, &ids)? });
    Ok(http::json(StatusCode::OK, &answer))
}

/// `PUT /api/channels/{id}`: fields that are not sent stay.
pub async fn update(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let input = ChannelInput::read(&Fields::of(&schema::UPDATE, request.json_object().await?))?;
    let _turn = admin.core.route_edits.lock().await;
    let route_index = RouteIndex::of_channels(&admin.core.store, &[id]).await?;
    let channel = route_index.channel(id).ok_or_else(|| AdminError::not_found("Channel"))?;
    let route = find(&route_index, channel.route_id)?;
    let mut editor = ChannelEditor::of(&admin.core.store, &route_index, route, &[channel.account_id]).await?;
    let patch = editor.change(channel, input).map_err(refused)?;
    route_edits::update_channels(&admin.core.store, vec![(id, patch)]).await?;
    admin.core.publish().await?;
    let route_index = RouteIndex::of_channels(&admin.core.store, &[id]).await?;
    let channel = route_index.channel(id).ok_or_else(|| AdminError::not_found("Channel"))?;
    Ok(http::json(StatusCode::OK, &route_index.as_stored(&admin.core, channel)))
}

/// `DELETE /api/channels/{id}`: deletes a channel; also succeeds if there is none.
pub async fn delete(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let _turn = admin.core.route_edits.lock().await;
    route_edits::delete_channel(&admin.core.store, id).await?;
    admin.core.publish().await?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true })))
}

fn find(route_index: &RouteIndex, id: RouteId) -> Result<&RouteRow> {
    route_index.route(id).ok_or_else(|| AdminError::not_found("Route"))
}

/// Returns the route; fails if it is a group, which has no channels of its own.
fn owner(route_index: &RouteIndex, id: RouteId) -> Result<&RouteRow> {
    let route = find(route_index, id)?;
    if route.is_group() {
        return Err(AdminError::bad_request(
            "A group of routes has no channels of its own: add the channel to one of its source routes",
        ));
    }
    Ok(route)
}

fn listed<'a>(core: &Core, route_index: &'a RouteIndex, ids: &[ChannelId]) -> Result<Vec<ListedChannel<'a>>> {
    let channel = |id: &ChannelId| route_index.channel(*id).ok_or_else(|| AdminError::not_found("Channel"));
    ids.iter().map(|id| Ok(route_index.listed(core, channel(id)?))).collect()
}

fn refused(refusal: ChannelRefusal) -> AdminError {
    AdminError::bad_request(refusal.into_message())
}
