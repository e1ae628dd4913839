//! The SQL by which an instance merges a cooldown of a channel or endpoint into a row that others write too.

use crate::routing::{ChannelDelta, EndpointState};
use crate::store::sql::{SqlDialect, Value};
use crate::time::Millis;

/// Returns the assignments other than the counters, and their arguments, for a row that others write too. A
/// database may assign from left to right, so the columns that decide are assigned last.
pub(super) fn assignments(dialect: SqlDialect, delta: &ChannelDelta) -> (String, Vec<Value>) {
    let mut set = format!("{}, {}", greatest("last_used_at"), greatest("last_selected_at"));
    let mut args = vec![of(delta.last_used), of(delta.last_selected)];
    if !delta.is_cooldown_changed {
        return (set, args);
    }
    let (cooled, cleared) = (Value::Int(delta.cooled_at), Value::Int(delta.cleared_at));
    let over = [cooled.clone(), cleared.clone()];
    let (cooldown, until) = merged_cooldown(delta.cooled_at, delta.cleared_at, delta.cooldown_until);
    set += &format!(", {cooldown}");
    args.extend(until);
    let newest = |column: &str| {
        format!(
            "CASE WHEN {IS_OVER} THEN 0 WHEN ? >= COALESCE(rested_at, 0) THEN ? ELSE COALESCE({column}, 0) END"
        )
    };
    set += &format!(
        ", provider_cooldown_until = NULLIF({}, 0), consecutive_fail_count = {}",
        newest("provider_cooldown_until"),
        newest("consecutive_fail_count")
    );
    args.extend(over.clone());
    args.extend([cooled.clone(), of(delta.provider_cooldown_until)]);
    args.extend(over.clone());
    args.extend([cooled.clone(), i64::try_from(delta.consecutive_fail).unwrap_or(i64::MAX).into()]);
    set += &format!(
        ", last_fail_at = NULLIF(CASE WHEN {IS_OVER} THEN 0 ELSE GREATEST(COALESCE(last_fail_at, 0), ?) END, 0)"
    );
    args.extend(over);
    args.push(of(delta.last_fail));
    set += &format!(", {}, {}", greatest("rested_at"), greatest("cleared_at"));
    args.extend([cooled, cleared]);
    if let Some(now) = dialect.now() {
        set += &format!(", rest_changed_at = {now}");
    }
    (set, args)
}

/// Returns the assignments for the row of an endpoint, and their arguments.
pub(super) fn of_endpoint(dialect: SqlDialect, state: EndpointState) -> (String, Vec<Value>) {
    let mut set = greatest("last_selected_at");
    let mut args = vec![of(state.last_selected)];
    if !state.is_cooldown_changed {
        return (set, args);
    }
    let (cooldown, until) = merged_cooldown(state.cooled_at, state.cleared_at, state.cooldown_until);
    set += &format!(
        ", {cooldown}, last_failure_reason = CASE WHEN ? >= COALESCE(last_failed_at, 0) THEN ? \
         ELSE last_failure_reason END, {}, {}, {}",
        greatest("last_failed_at"),
        greatest("rested_at"),
        greatest("cleared_at")
    );
    args.extend(until);
    args.extend([of(state.last_failed), state.last_failure_reason.into(), of(state.last_failed)]);
    args.extend([Value::Int(state.cooled_at), Value::Int(state.cleared_at)]);
    if let Some(now) = dialect.now() {
        set += &format!(", rest_changed_at = {now}");
    }
    (set, args)
}

const CLEARED_AT: &str = "GREATEST(COALESCE(cleared_at, 0), ?)";
const IS_OVER: &str = "GREATEST(COALESCE(rested_at, 0), ?) <= GREATEST(COALESCE(cleared_at, 0), ?)";

/// Returns the assignment that merges two cooldowns: the later end, or none when both are over.
fn merged_cooldown(cooled: Millis, cleared: Millis, until: Option<Millis>) -> (String, Vec<Value>) {
    let sql = format!(
        "cooldown_until = NULLIF(CASE WHEN {IS_OVER} THEN 0 WHEN ? <= {CLEARED_AT} THEN COALESCE(cooldown_until, 0) \
         WHEN COALESCE(rested_at, 0) <= {CLEARED_AT} THEN ? ELSE GREATEST(COALESCE(cooldown_until, 0), ?) END, 0)"
    );
    let (cooled, cleared) = (Value::Int(cooled), Value::Int(cleared));
    let args = vec![cooled.clone(), cleared.clone(), cooled, cleared.clone(), cleared, of(until), of(until)];
    (sql, args)
}

fn greatest(column: &str) -> String {
    format!("{column} = NULLIF(GREATEST(COALESCE({column}, 0), ?), 0)")
}

fn of(moment: Option<Millis>) -> Value {
    Value::Int(moment.unwrap_or(0))
}
