//! Routes, their group links, and the channels that serve them.

use std::collections::{BTreeSet, HashSet};

use super::sql::{Fields, MAX_PLACEHOLDERS, Row, Statement, Value, placeholders, values};
use super::touches::TouchedKind;
use super::{Result, Store, shared_cooldowns};
use crate::ids::{AccountId, ChannelId, RouteId, TokenId, UnitId};
use crate::money::Usd;
use crate::routing::rebuild::{self, Credential, NewRoute, Plan};
use crate::routing::{ChannelTotals, Strategy};
use crate::time::{Millis, now_ms};

/// The kind of a stored route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteMode {
    /// The route owns channels, for the models that its pattern names.
    Pattern,
    /// The route uses the channels of other routes.
    ExplicitGroup,
}

/// A stored route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteRow {
    pub id: RouteId,
    pub model_pattern: String,
    pub display_name: Option<String>,
    pub display_icon: Option<String>,
    pub route_mode: RouteMode,
    /// JSON text of an object: requested model or pattern to upstream model.
    pub model_mapping: Option<String>,
    pub routing_strategy: Strategy,
    pub enabled: bool,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// Whether an operator created the route.
    pub is_manual: bool,
    /// The source routes of a group, in the group's order.
    pub source_route_ids: Vec<RouteId>,
}

/// A stored channel with its counters.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelRow {
    pub id: ChannelId,
    pub route_id: RouteId,
    pub account_id: AccountId,
    pub token_id: Option<TokenId>,
    pub oauth_route_unit_id: Option<UnitId>,
    pub source_model: Option<String>,
    pub priority: i64,
    pub weight: i64,
    pub enabled: bool,
    pub manual_override: bool,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub stats: ChannelStats,
}

/// The counters and times that change with every request on a channel, as last written; the live values are in
/// memory.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ChannelStats {
    pub success_count: i64,
    pub fail_count: i64,
    pub total_latency_ms: i64,
    /// In USD.
    pub total_cost: Usd,
    pub last_used_at: Option<Millis>,
    pub last_selected_at: Option<Millis>,
    pub last_fail_at: Option<Millis>,
    pub consecutive_fail_count: i64,
    pub cooldown_level: i64,
    pub cooldown_until: Option<Millis>,
    /// The end of a cooldown that the provider asked for, if one is set.
    pub provider_cooldown_until: Option<Millis>,
    /// Input tokens of calls whose upstream reports cache use, and how many of them were read from the cache.
    pub cache_input_tokens: i64,
    pub cache_read_tokens: i64,
}

/// The priority of a channel for which none was set.
pub const DEFAULT_PRIORITY: i64 = 0;
/// The weight of a channel for which none was set.
pub const DEFAULT_WEIGHT: i64 = 10;

/// A channel to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChannel {
    pub credential: Credential,
    pub source_model: Option<String>,
    pub priority: i64,
    pub weight: i64,
    pub enabled: bool,
    pub manual_override: bool,
    /// Whether an operator adds it where its credential has a channel for the route's model already.
    pub is_extra: bool,
}

/// The number of statements beyond which a rebuild commits in several transactions.
const STATEMENTS_AT_ONCE: usize = 2000;
/// The number of routes or channels beyond which a rebuild commits its removals in several transactions:
/// deleting a route also deletes a channel of each account that had its model, and every other change waits for
/// that.
const REMOVED_AT_ONCE: usize = 100;

impl RouteMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pattern => "pattern",
            Self::ExplicitGroup => "explicit_group",
        }
    }

    /// Parses a mode; any other word means a pattern.
    pub fn parse(text: &str) -> Self {
        if text.trim() == Self::ExplicitGroup.as_str() { Self::ExplicitGroup } else { Self::Pattern }
    }
}

impl RouteRow {
    /// Whether the route uses the channels of other routes instead of its own.
    pub fn is_group(&self) -> bool {
        self.route_mode == RouteMode::ExplicitGroup
    }
}

impl NewChannel {
    /// Builds a channel that rebuilds may add and remove.
    pub fn automatic(credential: Credential, model: &str) -> Self {
        Self {
            credential,
            source_model: Some(model.to_owned()),
            priority: DEFAULT_PRIORITY,
            weight: DEFAULT_WEIGHT,
            enabled: true,
            manual_override: false,
            is_extra: false,
        }
    }
}

impl ChannelStats {
    /// Reads the counters from the next fields of a row.
    pub(super) fn read(row: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            success_count: row.int()?,
            fail_count: row.int()?,
            total_latency_ms: row.int()?,
            total_cost: row.usd()?,
            last_used_at: row.opt_int()?,
            last_selected_at: row.opt_int()?,
            last_fail_at: row.opt_int()?,
            consecutive_fail_count: row.int()?,
            cooldown_level: row.int()?,
            cooldown_until: row.opt_int()?,
            provider_cooldown_until: row.opt_int()?,
            cache_input_tokens: row.int()?,
            cache_read_tokens: row.int()?,
        })
    }

    /// Converts the counters to the form that is kept in memory.
    pub fn totals(&self) -> ChannelTotals {
        let count = |value: i64| u64::try_from(value).unwrap_or(0);
        ChannelTotals {
            success: count(self.success_count),
            fail: count(self.fail_count),
            latency_ms: count(self.total_latency_ms),
            cost_nano: self.total_cost.nano().max(0).unsigned_abs(),
            consecutive_fail: count(self.consecutive_fail_count),
            last_used: self.last_used_at,
            last_selected: self.last_selected_at,
            last_fail: self.last_fail_at,
            cooldown_until: self.cooldown_until,
            provider_cooldown_until: self.provider_cooldown_until,
            cache_input: count(self.cache_input_tokens),
            cache_read: count(self.cache_read_tokens),
        }
    }
}

const COLUMNS: &str = "id, model_pattern, display_name, display_icon, route_mode, model_mapping, \
     routing_strategy, enabled, created_at, updated_at, is_manual";

const CHANNEL_COLUMNS: &str = "c.id, c.route_id, c.account_id, c.token_id, c.oauth_route_unit_id, \
     c.source_model, c.priority, c.weight, c.enabled, c.manual_override, c.created_at, c.updated_at, \
     COALESCE(s.success_count, 0), COALESCE(s.fail_count, 0), COALESCE(s.total_latency_ms, 0), \
     COALESCE(s.total_cost, 0), s.last_used_at, s.last_selected_at, s.last_fail_at, \
     COALESCE(s.consecutive_fail_count, 0), COALESCE(s.cooldown_level, 0), s.cooldown_until, \
     s.provider_cooldown_until, COALESCE(s.cache_input_tokens, 0), COALESCE(s.cache_read_tokens, 0)";

const PLANNED_COLUMNS: &str =
    "id, route_id, account_id, token_id, oauth_route_unit_id, source_model, manual_override, is_extra";

/// Returns all routes, ordered by id.
pub async fn list(store: &Store) -> Result<Vec<RouteRow>> {
    let sql = format!("SELECT {COLUMNS} FROM token_routes ORDER BY id");
    let mut routes: Vec<RouteRow> = store.rows(sql, Vec::new(), read).await?;
    let sql = "SELECT group_route_id, source_route_id FROM route_group_sources \
               ORDER BY group_route_id, position, source_route_id";
    add_sources(&mut routes, &store.query(sql, Vec::new()).await?)?;
    Ok(routes)
}

/// Returns those routes with these ids that exist, ordered by id.
pub async fn some(store: &Store, ids: &[RouteId]) -> Result<Vec<RouteRow>> {
    let mut routes = Vec::with_capacity(ids.len());
    for ids in ids.chunks(MAX_PLACEHOLDERS) {
        let (marks, args) = (placeholders(ids.len()), || values(ids).collect());
        let sql = format!("SELECT {COLUMNS} FROM token_routes WHERE id IN ({marks}) ORDER BY id");
        let mut found: Vec<RouteRow> = store.rows(sql, args(), read).await?;
        if found.iter().any(RouteRow::is_group) {
            let sql = format!(
                "SELECT group_route_id, source_route_id FROM route_group_sources \
                 WHERE group_route_id IN ({marks}) ORDER BY group_route_id, position, source_route_id"
            );
            add_sources(&mut found, &store.query(sql, args()).await?)?;
        }
        routes.append(&mut found);
    }
    Ok(routes)
}

/// Returns at most `count` routes with an id above `after`, ordered by id.
pub async fn some_after(store: &Store, after: RouteId, count: u32) -> Result<Vec<RouteRow>> {
    let sql = format!("SELECT {COLUMNS} FROM token_routes WHERE id > ? ORDER BY id LIMIT {count}");
    let mut routes: Vec<RouteRow> = store.rows(sql, vec![after.into()], read).await?;
    if let (true, Some(last)) = (routes.iter().any(RouteRow::is_group), routes.last()) {
        let sql = "SELECT group_route_id, source_route_id FROM route_group_sources \
                   WHERE group_route_id > ? AND group_route_id <= ? \
                   ORDER BY group_route_id, position, source_route_id";
        let links = store.query(sql, vec![after.into(), last.id.into()]).await?;
        add_sources(&mut routes, &links)?;
    }
    Ok(routes)
}

fn add_sources(routes: &mut [RouteRow], links: &[Row]) -> Result<()> {
    for row in links {
        let mut row = row.fields();
        let (group, source) = (row.id()?, row.id()?);
        if let Ok(at) = routes.binary_search_by_key(&group, |route| route.id) {
            routes[at].source_route_ids.push(source);
        }
    }
    Ok(())
}

/// The number of channels that a full listing reads at once: rows take several times the memory of what they
/// are read into.
pub const PAGE: u32 = 1000;

/// Returns all channels with their counters, ordered by id.
pub async fn list_channels(store: &Store) -> Result<Vec<ChannelRow>> {
    let mut channels = Vec::new();
    loop {
        let after = channels.last().map_or(ChannelId::ZERO, |last: &ChannelRow| last.id);
        let mut page = channels_after(store, after, PAGE).await?;
        let is_last = page.len() < PAGE as usize;
        channels.append(&mut page);
        if is_last {
            return Ok(channels);
        }
    }
}

/// Returns at most `count` channels with an id above `after`, with their counters, ordered by id.
pub async fn channels_after(store: &Store, after: ChannelId, count: u32) -> Result<Vec<ChannelRow>> {
    let sql = format!(
        "SELECT {CHANNEL_COLUMNS} FROM route_channels c LEFT JOIN channel_stats s ON s.channel_id = c.id \
         WHERE c.id > ? ORDER BY c.id LIMIT {count}"
    );
    store.rows(sql, vec![after.into()], read_channel).await
}

/// Returns the accounts that have channels.
pub async fn accounts_with_channels(store: &Store) -> Result<HashSet<AccountId>> {
    store.rows("SELECT DISTINCT account_id FROM route_channels", Vec::new(), |row| row.id()).await
}

/// Returns the part of a channel that a rebuild needs, for at most `count` channels with an id above `after`.
pub async fn planned_after(store: &Store, after: ChannelId, count: u32) -> Result<Vec<rebuild::ChannelRow>> {
    let sql = format!("SELECT {PLANNED_COLUMNS} FROM route_channels WHERE id > ? ORDER BY id LIMIT {count}");
    store.rows(sql, vec![after.into()], read_planned).await
}

/// Returns the part of a channel that a rebuild needs, for all channels of these accounts.
pub async fn planned_of_accounts(store: &Store, ids: &[AccountId]) -> Result<Vec<rebuild::ChannelRow>> {
    let sql = |marks: &str| {
        format!("SELECT {PLANNED_COLUMNS} FROM route_channels WHERE account_id IN ({marks}) ORDER BY id")
    };
    store.rows_of(ids, sql, read_planned).await
}

/// Returns the routes in which these accounts have channels.
pub async fn of_accounts(store: &Store, ids: &[AccountId]) -> Result<BTreeSet<RouteId>> {
    let sql =
        |marks: &str| format!("SELECT DISTINCT route_id FROM route_channels WHERE account_id IN ({marks})");
    store.rows_of(ids, sql, |row| row.id()).await
}

/// The ids by which channels are selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelsOf<'a> {
    Themselves(&'a [ChannelId]),
    Routes(&'a [RouteId]),
    Accounts(&'a [AccountId]),
    /// Channels that stand for these route units.
    Units(&'a [UnitId]),
}

/// Returns the selected channels with their counters.
pub async fn some_channels(store: &Store, of: ChannelsOf<'_>) -> Result<Vec<ChannelRow>> {
    match of {
        ChannelsOf::Themselves(ids) => channels_by(store, "id", ids).await,
        ChannelsOf::Routes(ids) => channels_by(store, "route_id", ids).await,
        ChannelsOf::Accounts(ids) => channels_by(store, "account_id", ids).await,
        ChannelsOf::Units(ids) => channels_by(store, "oauth_route_unit_id", ids).await,
    }
}

async fn channels_by(
    store: &Store,
    column: &str,
    ids: &[impl Copy + Into<Value>],
) -> Result<Vec<ChannelRow>> {
    let sql = |marks: &str| {
        format!(
            "SELECT {CHANNEL_COLUMNS} FROM route_channels c LEFT JOIN channel_stats s ON s.channel_id = c.id \
             WHERE c.{column} IN ({marks}) ORDER BY c.id"
        )
    };
    store.rows_of(ids, sql, read_channel).await
}

/// Clears the failures of these channels, their cooldown and its level.
pub async fn clear_failures(store: &Store, channels: &[ChannelId]) -> Result<()> {
    let clear = channels.chunks(MAX_PLACEHOLDERS).map(|ids| {
        shared_cooldowns::clear(store, "channel_stats", "channel_id", values(ids).collect(), now_ms())
    });
    store.batch(clear.collect()).await.map(drop)
}

/// Carries out a rebuild: a small one in one transaction, a large one in several, so that other changes have
/// their turn in between. Fails with [`super::Error::Dangling`] when an account, token or route of the plan no
/// longer exists, and with [`super::Error::NotFound`] when another instance has changed routing data since the
/// version `seen`: plan again from the current rows.
pub async fn apply(store: &Store, plan: &Plan, seen: Option<i64>) -> Result<()> {
    let now = now_ms();
    // Another instance that changes the version waits for this transaction.
    let is_unchanged = seen.map(|version| {
        let sql = "UPDATE cache_versions SET version = version WHERE scope = 'routing' AND version = ?";
        Statement::new(sql, vec![version.into()]).must_change().touching_nothing()
    });
    let mut batch: Vec<Statement> = is_unchanged.into_iter().collect();
    for channel in &plan.create_channels {
        let added = NewChannel::automatic(channel.credential, &channel.source_model);
        insert_channel(&mut batch, channel.route_id.into(), &added, now);
        if batch.len() >= STATEMENTS_AT_ONCE {
            store.batch(std::mem::take(&mut batch)).await?;
        }
    }
    for route in &plan.create_routes {
        insert_route(&mut batch, route, now);
        if batch.len() >= STATEMENTS_AT_ONCE {
            store.batch(std::mem::take(&mut batch)).await?;
        }
    }
    // Removals come after the additions that replace them, so that no model is without a channel in between.
    let mut removed = 0;
    for (rows, removal) in removals(plan) {
        if removed + rows > REMOVED_AT_ONCE {
            store.batch(std::mem::take(&mut batch)).await?;
            removed = 0;
        }
        removed += rows;
        batch.push(removal);
    }
    if batch.is_empty() {
        return Ok(());
    }
    store.batch(batch).await.map(drop)
}

/// Carries out the removals of a plan and deletes all discovered models, in one transaction; returns the number
/// of models deleted.
pub async fn forget_discovered(store: &Store, plan: &Plan) -> Result<u64> {
    let mut batch = vec![
        Statement::new("DELETE FROM model_availability WHERE is_manual = ?", vec![false.into()]),
        Statement::new("DELETE FROM token_model_availability", Vec::new()),
    ];
    batch.extend(removals(plan).into_iter().map(|(_, removal)| removal));
    let outcomes = store.batch(batch).await?;
    Ok(outcomes.iter().take(2).map(|outcome| outcome.rows).sum())
}

/// Builds the removals of a plan and the changes of a channel's token, each with the number of rows it names.
fn removals(plan: &Plan) -> Vec<(usize, Statement)> {
    let now = now_ms();
    fn statement(sql: &str, manual: bool, ids: &[impl Copy + Into<Value>]) -> Statement {
        let args = std::iter::once(manual.into()).chain(values(ids));
        Statement::new(format!("{sql} AND id IN ({})", placeholders(ids.len())), args.collect())
    }
    let mut removals = Vec::new();
    // A channel that an operator changed since the plan was made is left alone.
    removals.extend(plan.delete_channels.chunks(REMOVED_AT_ONCE).map(|ids| {
        let sql = "DELETE FROM route_channels WHERE manual_override = ?";
        (ids.len(), statement(sql, false, ids).touching(TouchedKind::Channel, values(ids)))
    }));
    removals.extend(plan.delete_routes.chunks(REMOVED_AT_ONCE).map(|ids| {
        let sql = "DELETE FROM token_routes WHERE NOT EXISTS (SELECT 1 FROM route_channels c \
                   WHERE c.route_id = token_routes.id AND c.manual_override = ?)";
        (ids.len(), statement(sql, true, ids).touching(TouchedKind::Route, values(ids)))
    }));
    removals.extend(plan.rebind_channels.iter().map(|rebinding| {
        let rebind = Statement::new(
            "UPDATE route_channels SET token_id = ?, updated_at = ? WHERE id = ? AND token_id IS NULL",
            vec![rebinding.token_id.into(), now.into(), rebinding.channel_id.into()],
        );
        (1, rebind.touching(TouchedKind::Channel, [rebinding.channel_id.into()]))
    }));
    removals
}

fn insert_route(batch: &mut Vec<Statement>, route: &NewRoute, now: Millis) {
    let id = Value::IdOf(batch.len());
    let insert = Statement::new(
        "INSERT INTO token_routes (model_pattern, enabled, created_at, updated_at) VALUES (?, ?, ?, ?)",
        vec![route.model.as_str().into(), true.into(), now.into(), now.into()],
    );
    batch.push(insert.inserting(TouchedKind::Route));
    for credential in &route.channels {
        let added = NewChannel::automatic(*credential, &route.model);
        insert_channel(batch, id.clone(), &added, now);
    }
}

/// Adds a channel and its row of counters, because telemetry only updates rows that exist. Returns the index of
/// the channel's statement in the batch.
pub(super) fn insert_channel(
    batch: &mut Vec<Statement>,
    route: Value,
    channel: &NewChannel,
    now: Millis,
) -> usize {
    let at = batch.len();
    let insert = Statement::insert(
        "route_channels",
        [
            ("route_id", route),
            ("account_id", channel.credential.account_id.into()),
            ("token_id", channel.credential.token_id.into()),
            ("oauth_route_unit_id", channel.credential.unit_id.into()),
            ("source_model", channel.source_model.clone().into()),
            ("priority", channel.priority.into()),
            ("weight", channel.weight.into()),
            ("enabled", channel.enabled.into()),
            ("manual_override", channel.manual_override.into()),
            ("is_extra", channel.is_extra.into()),
            ("created_at", now.into()),
            ("updated_at", now.into()),
        ],
    );
    batch.push(insert.inserting(TouchedKind::Channel));
    batch.push(Statement::insert("channel_stats", [("channel_id", Value::IdOf(at))]));
    at
}

fn read(row: &mut Fields<'_>) -> Result<RouteRow> {
    Ok(RouteRow {
        id: row.id()?,
        model_pattern: row.text()?,
        display_name: row.opt_text()?,
        display_icon: row.opt_text()?,
        route_mode: RouteMode::parse(row.str()?),
        model_mapping: row.opt_text()?,
        routing_strategy: Strategy::parse(row.opt_str()?.unwrap_or_default()),
        enabled: row.bool()?,
        created_at: row.int()?,
        updated_at: row.int()?,
        is_manual: row.bool()?,
        source_route_ids: Vec::new(),
    })
}

fn read_planned(row: &mut Fields<'_>) -> Result<rebuild::ChannelRow> {
    Ok(rebuild::ChannelRow {
        id: row.id()?,
        route_id: row.id()?,
        account_id: row.id()?,
        token_id: row.opt_id()?,
        unit_id: row.opt_id()?,
        source_model: row.opt_str()?.map(Into::into),
        manual: row.bool()?,
        is_extra: row.bool()?,
    })
}

fn read_channel(row: &mut Fields<'_>) -> Result<ChannelRow> {
    Ok(ChannelRow {
        id: row.id()?,
        route_id: row.id()?,
        account_id: row.id()?,
        token_id: row.opt_id()?,
        oauth_route_unit_id: row.opt_id()?,
        source_model: row.opt_text()?,
        priority: row.int()?,
        weight: row.int()?,
        enabled: row.bool()?,
        manual_override: row.bool()?,
        created_at: row.int()?,
        updated_at: row.int()?,
        stats: ChannelStats::read(row)?,
    })
}
