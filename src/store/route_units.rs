//! Route units: several connected accounts of one site that serve as one channel per route.

use std::collections::HashMap;

use super::routes::ChannelStats;
use super::sql::{Changes, Fields, MAX_PLACEHOLDERS, Statement, Value, placeholders, values};
use super::touches::TouchedKind;
use super::{Result, Store, shared_cooldowns};
use crate::ids::{AccountId, ChannelId, MemberId, SiteId, UnitId};
use crate::routing::UnitStrategy;
use crate::time::{Millis, now_ms};

/// A stored unit.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitRow {
    pub id: UnitId,
    pub site_id: SiteId,
    pub provider: String,
    pub name: String,
    pub strategy: UnitStrategy,
    pub enabled: bool,
    /// In the unit's order.
    pub members: Vec<MemberRow>,
}

/// An account in a unit. Its counters are like those of a channel, over all routes of the unit.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberRow {
    pub id: MemberId,
    pub account_id: AccountId,
    pub sort_order: i64,
    pub stats: ChannelStats,
}

/// A unit to be stored.
#[derive(Debug, Clone)]
pub struct NewUnit {
    pub site_id: SiteId,
    pub provider: String,
    pub name: String,
    pub strategy: UnitStrategy,
    /// In the unit's order.
    pub account_ids: Vec<AccountId>,
}

const MEMBER_COLUMNS: &str = "id, unit_id, account_id, sort_order, success_count, fail_count, \
     total_latency_ms, total_cost, last_used_at, last_selected_at, last_fail_at, consecutive_fail_count, \
     cooldown_level, cooldown_until, provider_cooldown_until, cache_input_tokens, cache_read_tokens";

/// Returns all units with their members, ordered by id.
pub async fn list(store: &Store) -> Result<Vec<UnitRow>> {
    let members = format!("SELECT {MEMBER_COLUMNS} FROM oauth_route_unit_members ORDER BY sort_order, id");
    let units = "SELECT id, site_id, provider, name, strategy, enabled FROM oauth_route_units ORDER BY id";
    let members = store.rows(members, Vec::new(), read_member).await?;
    Ok(with_members(store.rows(units, Vec::new(), read).await?, members))
}

/// Returns the unit with its members.
pub async fn get(store: &Store, id: UnitId) -> Result<Option<UnitRow>> {
    let members = format!(
        "SELECT {MEMBER_COLUMNS} FROM oauth_route_unit_members WHERE unit_id = ? ORDER BY sort_order, id"
    );
    let unit = "SELECT id, site_id, provider, name, strategy, enabled FROM oauth_route_units WHERE id = ?";
    let members = store.rows(members, vec![id.into()], read_member).await?;
    Ok(with_members(store.rows(unit, vec![id.into()], read).await?, members).pop())
}

/// Returns the units of these accounts, by account.
pub async fn of_accounts(store: &Store, ids: &[AccountId]) -> Result<HashMap<AccountId, UnitId>> {
    let sql = |marks: &str| {
        format!("SELECT account_id, unit_id FROM oauth_route_unit_members WHERE account_id IN ({marks})")
    };
    store.rows_of(ids, sql, |row| Ok((row.id()?, row.id()?))).await
}

/// Stores a unit with its members and returns its id; the automatic channels of the first account then stand
/// for the unit and keep their counters. Fails with [`super::Error::Conflict`] when one of the accounts is
/// already in a unit, and with [`super::Error::Dangling`] when one no longer exists.
pub async fn insert(store: &Store, unit: &NewUnit) -> Result<UnitId> {
    let now = now_ms();
    let insert = Statement::insert(
        "oauth_route_units",
        [
            ("site_id", unit.site_id.into()),
            ("provider", unit.provider.as_str().into()),
            ("name", unit.name.as_str().into()),
            ("strategy", unit.strategy.as_str().into()),
            ("enabled", true.into()),
            ("created_at", now.into()),
            ("updated_at", now.into()),
        ],
    );
    let mut batch = vec![insert];
    for (place, account) in unit.account_ids.iter().enumerate() {
        let place = i64::try_from(place).unwrap_or(i64::MAX);
        batch.push(insert_member(Value::IdOf(0), *account, place, now));
    }
    batch.extend(unit.account_ids.first().map(|first| {
        Statement::new(
            "UPDATE route_channels SET oauth_route_unit_id = ? \
             WHERE account_id = ? AND token_id IS NULL AND manual_override = ?",
            vec![Value::IdOf(0), (*first).into(), false.into()],
        )
    }));
    Ok(store.batch(batch).await?[0].id())
}

/// Changes a unit; fails with [`super::Error::NotFound`] when it no longer exists.
pub async fn update(
    store: &Store,
    id: UnitId,
    name: Option<&str>,
    strategy: Option<UnitStrategy>,
) -> Result<()> {
    let mut changes = Changes::default();
    changes.set("updated_at", now_ms());
    changes.set_some("name", name);
    changes.set_some("strategy", strategy.map(UnitStrategy::as_str));
    store.batch(vec![changes.update("oauth_route_units", id)]).await.map(drop)
}

/// Deletes a unit with its members; its channels stay with the account they are stored with. An unknown id is
/// no error.
pub async fn delete(store: &Store, id: UnitId) -> Result<()> {
    let delete = Statement::new("DELETE FROM oauth_route_units WHERE id = ?", vec![id.into()]);
    store.batch(vec![delete]).await.map(drop)
}

/// Builds the statement that deletes the units without members, which have no channels either.
pub(super) fn delete_empty() -> Statement {
    let sql = "DELETE FROM oauth_route_units WHERE NOT EXISTS \
               (SELECT 1 FROM oauth_route_unit_members m WHERE m.unit_id = oauth_route_units.id)";
    Statement::new(sql, Vec::new()).touching_nothing()
}

/// Stores a deleted unit again, with the counters of its members and the channels that stood for it.
pub async fn restore(store: &Store, unit: &UnitRow, channels: &[ChannelId]) -> Result<()> {
    let now = now_ms();
    let mut batch = vec![Statement::insert(
        "oauth_route_units",
        [
            ("id", unit.id.into()),
            ("site_id", unit.site_id.into()),
            ("provider", unit.provider.as_str().into()),
            ("name", unit.name.as_str().into()),
            ("strategy", unit.strategy.as_str().into()),
            ("enabled", unit.enabled.into()),
            ("created_at", now.into()),
            ("updated_at", now.into()),
        ],
    )];
    for member in &unit.members {
        let stats = &member.stats;
        batch.push(Statement::insert(
            "oauth_route_unit_members",
            [
                ("id", member.id.into()),
                ("unit_id", unit.id.into()),
                ("account_id", member.account_id.into()),
                ("sort_order", member.sort_order.into()),
                ("success_count", stats.success_count.into()),
                ("fail_count", stats.fail_count.into()),
                ("total_latency_ms", stats.total_latency_ms.into()),
                ("total_cost", stats.total_cost.into()),
                ("last_used_at", stats.last_used_at.into()),
                ("last_selected_at", stats.last_selected_at.into()),
                ("last_fail_at", stats.last_fail_at.into()),
                ("consecutive_fail_count", stats.consecutive_fail_count.into()),
                ("cooldown_level", stats.cooldown_level.into()),
                ("cooldown_until", stats.cooldown_until.into()),
                ("provider_cooldown_until", stats.provider_cooldown_until.into()),
                ("cache_input_tokens", stats.cache_input_tokens.into()),
                ("cache_read_tokens", stats.cache_read_tokens.into()),
                ("created_at", now.into()),
                ("updated_at", now.into()),
            ],
        ));
    }
    for ids in channels.chunks(MAX_PLACEHOLDERS - 1) {
        let sql = format!(
            "UPDATE route_channels SET oauth_route_unit_id = ? WHERE id IN ({})",
            placeholders(ids.len())
        );
        let args = std::iter::once(unit.id.into()).chain(values(ids));
        batch.push(Statement::new(sql, args.collect()));
    }
    store.batch(batch).await.map(drop)
}

/// Returns the channels that stand for a unit.
pub async fn channels_of(store: &Store, id: UnitId) -> Result<Vec<ChannelId>> {
    let sql = "SELECT id FROM route_channels WHERE oauth_route_unit_id = ? ORDER BY id";
    store.rows(sql, vec![id.into()], |row| row.id()).await
}

/// Returns the channels that stand for units and are stored with this account.
pub(super) async fn channels_under(store: &Store, id: AccountId) -> Result<Vec<ChannelId>> {
    let sql =
        "SELECT id FROM route_channels WHERE account_id = ? AND oauth_route_unit_id IS NOT NULL ORDER BY id";
    store.rows(sql, vec![id.into()], |row| row.id()).await
}

/// Builds the statement that moves an account's channels of units to the next member, where there is one.
pub(super) fn hand_on(id: AccountId, channels: &[ChannelId]) -> Statement {
    let of_unit = "oauth_route_unit_members m WHERE m.unit_id = route_channels.oauth_route_unit_id AND m.account_id <> ?";
    let sql = format!(
        "UPDATE route_channels SET account_id = (SELECT m.account_id FROM {of_unit} ORDER BY m.sort_order, m.id LIMIT 1) \
         WHERE account_id = ? AND oauth_route_unit_id IS NOT NULL AND EXISTS (SELECT 1 FROM {of_unit})"
    );
    let touched: Vec<Value> = channels.iter().map(|channel| (*channel).into()).collect();
    Statement::new(sql, vec![id.into(), id.into(), id.into()]).touching(TouchedKind::Channel, touched)
}

/// Clears the failures of these members, their cooldown and its level.
pub async fn clear_failures(store: &Store, members: &[MemberId]) -> Result<()> {
    let clear = members.chunks(MAX_PLACEHOLDERS).map(|members| {
        let ids = members.iter().map(|id| (*id).into()).collect();
        shared_cooldowns::clear(store, "oauth_route_unit_members", "id", ids, now_ms())
    });
    store.batch(clear.collect()).await.map(drop)
}

fn insert_member(unit: Value, account: AccountId, place: i64, now: Millis) -> Statement {
    Statement::new(
        "INSERT INTO oauth_route_unit_members (unit_id, account_id, sort_order, created_at, updated_at) \
         VALUES (?, ?, ?, ?, ?)",
        vec![unit, account.into(), place.into(), now.into(), now.into()],
    )
}

fn with_members(mut units: Vec<UnitRow>, members: Vec<(UnitId, MemberRow)>) -> Vec<UnitRow> {
    let mut of_units: HashMap<UnitId, Vec<MemberRow>> = HashMap::new();
    for (unit, member) in members {
        of_units.entry(unit).or_default().push(member);
    }
    for unit in &mut units {
        unit.members = of_units.remove(&unit.id).unwrap_or_default();
    }
    units
}

fn read(row: &mut Fields<'_>) -> Result<UnitRow> {
    Ok(UnitRow {
        id: row.id()?,
        site_id: row.id()?,
        provider: row.text()?,
        name: row.text()?,
        strategy: UnitStrategy::parse(row.str()?).unwrap_or_default(),
        enabled: row.bool()?,
        members: Vec::new(),
    })
}

/// Reads a member and the id of its unit.
fn read_member(row: &mut Fields<'_>) -> Result<(UnitId, MemberRow)> {
    let (id, unit) = (row.id()?, row.id()?);
    let (account_id, sort_order, stats) = (row.id()?, row.int()?, ChannelStats::read(row)?);
    Ok((unit, MemberRow { id, account_id, sort_order, stats }))
}
