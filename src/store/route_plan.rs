//! Carrying out what a rebuild of the routes decided, in one transaction (routing.md 2.3).
//!
//! The plan was made from rows read a moment ago. What an operator did since wins: a channel that
//! became manual is not deleted, nor the route that has one; a plan that refers to an account or
//! route that is gone fails as a whole with [`Error::Dangling`](super::Error::Dangling) and is to be
//! made anew.

use super::sql::{Statement, Value};
use super::{Result, Store};
use crate::routing::rebuild::{Credential, Plan};
use crate::time::{Millis, now_ms};

/// Carries out the plan.
pub async fn carry_out(store: &Store, plan: &Plan) -> Result<()> {
    let now = now_ms();
    let mut batch = Vec::new();
    for route in &plan.create_routes {
        let inserted = Value::IdOf(batch.len());
        batch.push(insert_route(&route.model, now));
        let channels = route.channels.iter();
        batch.extend(channels.map(|credential| insert_channel(inserted.clone(), *credential, &route.model, now)));
    }
    for channel in &plan.create_channels {
        let route = channel.route_id.into();
        batch.push(insert_channel(route, channel.credential, &channel.source_model, now));
    }
    batch.extend(plan.rebind_channels.iter().map(|rebinding| {
        Statement::new(
            "UPDATE route_channels SET token_id = ?, updated_at = ? WHERE id = ?",
            vec![rebinding.token_id.into(), now.into(), rebinding.channel_id.into()],
        )
    }));
    batch.extend(plan.delete_channels.iter().map(|id| {
        let sql = "DELETE FROM route_channels WHERE id = ? AND manual_override = ?";
        Statement::new(sql, vec![(*id).into(), false.into()])
    }));
    batch.extend(plan.delete_routes.iter().map(|id| {
        let sql = "DELETE FROM token_routes WHERE id = ? AND NOT EXISTS (SELECT 1 FROM route_channels c \
                   WHERE c.route_id = token_routes.id AND c.manual_override = ?)";
        Statement::new(sql, vec![(*id).into(), true.into()])
    }));
    store.batch(batch).await.map(drop)
}

fn insert_route(model: &str, now: Millis) -> Statement {
    Statement::new(
        "INSERT INTO token_routes (model_pattern, route_mode, routing_strategy, enabled, created_at, updated_at) \
         VALUES (?, ?, ?, ?, ?, ?)",
        vec![model.into(), "pattern".into(), "weighted".into(), true.into(), now.into(), now.into()],
    )
}

fn insert_channel(route: Value, credential: Credential, source_model: &str, now: Millis) -> Statement {
    Statement::new(
        "INSERT INTO route_channels (route_id, account_id, token_id, source_model, priority, weight, enabled, \
         manual_override, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        vec![
            route,
            credential.account_id.into(),
            credential.token_id.into(),
            source_model.into(),
            0i64.into(),
            10i64.into(),
            true.into(),
            false.into(),
            now.into(),
            now.into(),
        ],
    )
}
