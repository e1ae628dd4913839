//! Makes routes follow from what accounts offer: reads the rows, lets [`routing::rebuild`](planning) decide, carries the
//! plan out and publishes.
//!
//! A run looks at what changed ([`Scope`]): at some accounts, their models before and after, and the routes of those;
//! or at everything, at start, after a refresh of all accounts and after a change of a global filter. A run over
//! everything reads and weighs hundreds of thousands of rows, so runs are kept off the threads that serve requests. One
//! run at a time; all who ask during a run wait for the next one together, since the run under way may have read the
//! rows before their changes.

use std::sync::{Arc, Mutex};

use super::models::outcome::RebuildCounts;
use super::pace::run_off_workers;
use super::rebuild_rows::Rows;
use super::rebuild_scope::Scope;
use crate::core::Core;
use crate::fence;
use crate::jobs::Jobs;
use crate::routing::rebuild::{self as planning, Credential, Inventory, plan};
use crate::store::instance_changes::Extent;
use crate::store::{self, routes, versions};
use crate::sync::lock;

/// How often a plan is made again because the rows changed under it.
const ATTEMPTS: usize = 10;

/// A run and its scope. Unless the run succeeds, its scope goes back to the pending one, for the next run.
struct Run<'a> {
    scope: Scope,
    pending: &'a Mutex<Scope>,
}

/// Brings all routes and channels in line with the models that accounts offer, and publishes them.
pub async fn rebuild(jobs: &Arc<Jobs>) -> store::Result<RebuildCounts> {
    rebuild_in(jobs, Scope { everything: true, ..Scope::default() }).await
}

/// Brings the routes and channels of some accounts in line with the models that these offer, and publishes them.
pub async fn rebuild_in(jobs: &Arc<Jobs>, scope: Scope) -> store::Result<RebuildCounts> {
    if scope.is_empty() {
        jobs.core.publish().await?;
        return Ok(RebuildCounts::default());
    }
    let rebuilds = &jobs.model_refresh.rebuilds;
    lock(&rebuilds.pending).add(scope);
    // A run ends although its caller leaves, so it must keep the turn, and belongs to no job's lease: others wait for it.
    let runs = jobs.clone();
    let run = async move {
        let rebuilds = &runs.model_refresh.rebuilds;
        rebuilds.runs.run(|| run_off_workers(run(runs.clone()))).await
    };
    let counts = fence::outside(jobs.core.background.run_to_completion("a rebuild", Box::pin(run))).await;
    counts.unwrap_or_else(|incomplete| Err(store::Error::Database(incomplete.to_string())))
}

async fn run(jobs: Arc<Jobs>) -> store::Result<RebuildCounts> {
    let rebuilds = &jobs.model_refresh.rebuilds;
    let mut run = Run::begin(&rebuilds.pending);
    if run.scope.is_empty() {
        // The run before has covered the scope of this one.
        return Ok(*lock(&rebuilds.last));
    }
    let counts = carry_out(&jobs, &run.scope).await?;
    run.scope = Scope::default();
    *lock(&rebuilds.last) = counts;
    Ok(counts)
}

async fn carry_out(jobs: &Arc<Jobs>, scope: &Scope) -> store::Result<RebuildCounts> {
    let mut attempt = 1;
    if scope.everything {
        // Most runs find nothing to change, and edits of routes need not wait for that.
        let rows = Rows::read(&jobs.core).await?;
        let plan = rows.with_inventory(&jobs.core.settings.load(), plan);
        if plan.changes_nothing() {
            jobs.core.publish().await?;
            return Ok(rows.counts(&plan));
        }
    }
    let _turn = jobs.core.route_edits.lock().await;
    // Everything is read under this lock: an import before it may have added routes together with their models.
    let counts = loop {
        let seen = routing_in_force(&jobs.core).await?;
        let rows = if scope.everything {
            Rows::read(&jobs.core).await?
        } else {
            Rows::of(&jobs.core, scope).await?
        };
        let plan = rows.with_inventory(&jobs.core.settings.load(), plan);
        let counts = rows.counts(&plan);
        if plan.changes_nothing() {
            break counts;
        }
        match routes::apply(&jobs.core.store, &plan, seen).await {
            Ok(()) => break counts,
            Err(store::Error::Dangling(_)) if attempt < ATTEMPTS => attempt += 1,
            // Another instance may have made these routes and channels.
            Err(store::Error::NotFound) if attempt < ATTEMPTS => {
                attempt += 1;
                jobs.core.follow_others(Extent::Recent).await?;
            }
            Err(error) => return Err(error),
        }
    };
    if counts.changed() {
        jobs.note_route_change();
        log::info!(
            "routes rebuilt for {} model(s): {} route(s) and {} channel(s) added, {} and {} removed",
            counts.models,
            counts.created_routes,
            counts.created_channels,
            counts.removed_routes,
            counts.removed_channels
        );
    }
    jobs.core.publish().await?;
    Ok(counts)
}

/// Returns the version up to which this instance knows the routing changes of all instances; `None` where the database
/// is not shared, or nobody has changed routes yet.
async fn routing_in_force(core: &Core) -> store::Result<Option<i64>> {
    let database = core.store.database();
    if !database.is_shared() {
        return Ok(None);
    }
    let in_force = || database.versions().in_force(versions::Scope::Routing);
    if in_force() == 0 {
        core.follow_others(Extent::Recent).await?;
    }
    Ok(Some(in_force()).filter(|version| *version > 0))
}

// === impl Run ===

impl<'a> Run<'a> {
    fn begin(pending: &'a Mutex<Scope>) -> Self {
        Self { scope: std::mem::take(&mut *lock(pending)), pending }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        lock(self.pending).add(std::mem::take(&mut self.scope));
    }
}

/// The numbers of rows that were forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    pub models: u64,
    pub channels: usize,
    pub routes: usize,
}

/// Forgets every discovered model, with the channels and routes that follow from it. Models that were typed by hand
/// stay and are routed again at once.
pub async fn forget_discovered(jobs: &Arc<Jobs>) -> store::Result<Forgotten> {
    let forgotten = run_off_workers(forget(jobs.core.clone())).await?;
    rebuild(jobs).await?;
    Ok(forgotten)
}

async fn forget(core: Arc<Core>) -> store::Result<Forgotten> {
    let _turn = core.route_edits.lock().await;
    let rows = Rows::read(&core).await?;
    let plan = rows.with_inventory(&core.settings.load(), |inventory| {
        plan(&Inventory { account_models: &[], typed_models: &[], token_models: &[], ..*inventory })
    });
    let counts = rows.counts(&plan);
    let models = routes::forget_discovered(&core.store, &plan).await?;
    Ok(Forgotten { models, channels: counts.removed_channels, routes: counts.removed_routes })
}

/// Returns every model that active accounts offer, with each credential that may get a channel for it.
pub async fn offers(core: &Arc<Core>) -> store::Result<Vec<(String, Credential)>> {
    let core = core.clone();
    run_off_workers(async move {
        let rows = Rows::read(&core).await?;
        Ok(rows.with_inventory(&core.settings.load(), |inventory| {
            let offers = planning::offers(inventory).into_iter();
            offers.map(|(model, credential)| (model.to_owned(), credential)).collect()
        }))
    })
    .await
}

#[cfg(test)]
mod tests;
