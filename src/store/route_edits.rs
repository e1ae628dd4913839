//! Changes that an operator makes to routes and channels. Each change is one transaction; rebuilds use
//! [`routes::apply`](super::routes::apply).

use super::routes::{NewChannel, RouteMode, insert_channel};
use super::sql::{Changes, MAX_PLACEHOLDERS, Statement, Value, placeholders, values};
use super::touches::TouchedKind;
use super::{Result, Store};
use crate::ids::{ChannelId, RouteId, TokenId};
use crate::routing::Strategy;
use crate::time::now_ms;

/// A whole route to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteDraft {
    pub model_pattern: String,
    pub display_name: Option<String>,
    pub display_icon: Option<String>,
    /// The routes whose channels it uses; `None` for a route with channels of its own.
    pub sources: Option<Vec<RouteId>>,
    /// JSON text of an object of strings.
    pub model_mapping: Option<String>,
    pub routing_strategy: Strategy,
    pub enabled: bool,
}

/// Other rows that change along with a route.
#[derive(Debug, Default)]
pub struct Dependents {
    /// New channels that replace the automatic ones; `None` leaves the channels alone.
    pub refill: Option<Vec<NewChannel>>,
    /// The routes that take over the route's strategy.
    pub followers: Vec<RouteId>,
}

/// Columns of a channel that an operator may set; `None` leaves one alone.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ChannelPatch {
    pub token_id: Option<Option<TokenId>>,
    pub source_model: Option<Option<String>>,
    pub priority: Option<i64>,
    pub weight: Option<i64>,
    pub enabled: Option<bool>,
}

/// Adds a route and returns its id.
pub async fn create(store: &Store, draft: &RouteDraft, dependents: Dependents) -> Result<RouteId> {
    let now = now_ms();
    let born = [
        ("route_mode", draft.mode().as_str().into()),
        ("created_at", now.into()),
        ("updated_at", now.into()),
        ("is_manual", true.into()),
    ];
    let insert = Statement::insert("token_routes", draft.columns().into_iter().chain(born));
    let mut batch = vec![insert.inserting(TouchedKind::Route)];
    update_dependents(&mut batch, &Value::IdOf(0), draft, dependents);
    Ok(store.batch(batch).await?[0].id())
}

/// Rewrites a route. Fails with [`super::Error::NotFound`] when there is none with this id.
pub async fn update(store: &Store, id: RouteId, draft: &RouteDraft, dependents: Dependents) -> Result<()> {
    let mut changes = Changes::default();
    changes.set_all(draft.columns());
    changes.set("updated_at", now_ms());
    let mut batch = vec![changes.update("token_routes", id).touching(TouchedKind::Route, [id.into()])];
    update_dependents(&mut batch, &id.into(), draft, dependents);
    store.batch(batch).await.map(drop)
}

/// Deletes routes with their channels; returns the number of routes deleted.
pub async fn delete(store: &Store, ids: &[RouteId]) -> Result<u64> {
    let batch = ids.chunks(MAX_PLACEHOLDERS).map(|ids| {
        let sql = format!("DELETE FROM token_routes WHERE id IN ({})", placeholders(ids.len()));
        Statement::new(sql, values(ids).collect()).touching(TouchedKind::Route, values(ids))
    });
    changed(store, batch.collect()).await
}

/// Switches routes on or off; returns the number that changed.
pub async fn set_enabled(store: &Store, ids: &[RouteId], enabled: bool) -> Result<u64> {
    let now = now_ms();
    let batch = ids.chunks(MAX_PLACEHOLDERS).map(|ids| {
        let sql = format!(
            "UPDATE token_routes SET enabled = ?, updated_at = ? WHERE enabled <> ? AND id IN ({})",
            placeholders(ids.len())
        );
        let first = [enabled.into(), now.into(), enabled.into()];
        Statement::new(sql, first.into_iter().chain(values(ids)).collect())
            .touching(TouchedKind::Route, values(ids))
    });
    changed(store, batch.collect()).await
}

/// Adds channels to a route and returns their ids, in order.
pub async fn add_channels(
    store: &Store,
    route_id: RouteId,
    channels: &[NewChannel],
) -> Result<Vec<ChannelId>> {
    let now = now_ms();
    let mut batch = Vec::new();
    let at: Vec<usize> =
        channels.iter().map(|channel| insert_channel(&mut batch, route_id.into(), channel, now)).collect();
    let outcomes = store.batch(batch).await?;
    Ok(at.into_iter().map(|index| outcomes[index].id()).collect())
}

/// Changes channels and marks them as set by an operator. Fails with [`super::Error::NotFound`] when one of
/// them no longer exists: then none is changed.
pub async fn update_channels(store: &Store, patches: Vec<(ChannelId, ChannelPatch)>) -> Result<()> {
    let now = now_ms();
    let batch = patches.into_iter().map(|(id, patch)| {
        let mut changes = Changes::default();
        changes.set_some("token_id", patch.token_id);
        changes.set_some("source_model", patch.source_model);
        changes.set_some("priority", patch.priority);
        changes.set_some("weight", patch.weight);
        changes.set_some("enabled", patch.enabled);
        changes.set("manual_override", true);
        changes.set("updated_at", now);
        changes.update("route_channels", id).touching(TouchedKind::Channel, [id.into()])
    });
    store.batch(batch.collect()).await.map(drop)
}

/// Deletes a channel; an unknown id is no error.
pub async fn delete_channel(store: &Store, id: ChannelId) -> Result<()> {
    let statement = Statement::new("DELETE FROM route_channels WHERE id = ?", vec![id.into()]);
    store.batch(vec![statement.touching(TouchedKind::Channel, [id.into()])]).await.map(drop)
}

/// Adds the statements for the rows that change with a route, after the route's own statement.
fn update_dependents(batch: &mut Vec<Statement>, route: &Value, draft: &RouteDraft, dependents: Dependents) {
    let now = now_ms();
    if let Some(sources) = &draft.sources {
        let clear = "DELETE FROM route_group_sources WHERE group_route_id = ?";
        batch.push(Statement::new(clear, vec![route.clone()]).touching(TouchedKind::Route, [route.clone()]));
        batch.extend((0i64..).zip(sources).map(|(position, source)| {
            let link = "INSERT INTO route_group_sources (group_route_id, source_route_id, position) \
                        VALUES (?, ?, ?)";
            let args = vec![route.clone(), (*source).into(), position.into()];
            Statement::new(link, args).touching(TouchedKind::Route, [route.clone()])
        }));
    }
    if let Some(channels) = &dependents.refill {
        let clear = "DELETE FROM route_channels WHERE route_id = ? AND manual_override = ?";
        let clear = Statement::new(clear, vec![route.clone(), false.into()]);
        batch.push(clear.touching(TouchedKind::ChannelsOfRoute, [route.clone()]));
        for channel in channels {
            insert_channel(batch, route.clone(), channel, now);
        }
    }
    batch.extend(dependents.followers.iter().map(|id| {
        let follow = "UPDATE token_routes SET routing_strategy = ?, updated_at = ? WHERE id = ?";
        let args = vec![draft.routing_strategy.as_str().into(), now.into(), (*id).into()];
        Statement::new(follow, args).touching(TouchedKind::Route, [(*id).into()])
    }));
}

async fn changed(store: &Store, batch: Vec<Statement>) -> Result<u64> {
    Ok(store.batch(batch).await?.iter().map(|outcome| outcome.rows).sum())
}

// === impl RouteDraft ===

impl RouteDraft {
    /// Returns the columns that an update may change.
    fn columns(&self) -> [(&'static str, Value); 6] {
        [
            ("model_pattern", self.model_pattern.as_str().into()),
            ("display_name", self.display_name.clone().into()),
            ("display_icon", self.display_icon.clone().into()),
            ("model_mapping", self.model_mapping.clone().into()),
            ("routing_strategy", self.routing_strategy.as_str().into()),
            ("enabled", self.enabled.into()),
        ]
    }

    fn mode(&self) -> RouteMode {
        if self.sources.is_some() { RouteMode::ExplicitGroup } else { RouteMode::Pattern }
    }
}
