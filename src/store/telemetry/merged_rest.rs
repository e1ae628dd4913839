//! What an instance writes of a channel's rest into a row that others write too.

use crate::routing::ChannelDelta;
use crate::store::sql::{SqlDialect, Value};
use crate::time::Millis;

/// What is assigned beside the counters, and its arguments, where others write the row too. A database may assign from
/// left to right: what decides is assigned last.
pub(super) fn assignments(dialect: SqlDialect, delta: &ChannelDelta) -> (String, Vec<Value>) {
    let of = |moment: Option<Millis>| Value::Int(moment.unwrap_or(0));
    let greatest = |column: &str| format!("{column} = NULLIF(GREATEST(COALESCE({column}, 0), ?), 0)");
    let mut set = format!("{}, {}", greatest("last_used_at"), greatest("last_selected_at"));
    let mut args = vec![of(delta.last_used), of(delta.last_selected)];
    if !delta.is_rest_changed {
        return (set, args);
    }
    let (rested, cleared) = (Value::Int(delta.rested_at), Value::Int(delta.cleared_at));
    let cleared_at = "GREATEST(COALESCE(cleared_at, 0), ?)";
    let is_over = format!("GREATEST(COALESCE(rested_at, 0), ?) <= {cleared_at}");
    let over = [rested.clone(), cleared.clone()];
    set += &format!(
        ", cooldown_until = NULLIF(CASE WHEN {is_over} THEN 0 WHEN ? <= {cleared_at} THEN COALESCE(cooldown_until, 0) \
         WHEN COALESCE(rested_at, 0) <= {cleared_at} THEN ? ELSE GREATEST(COALESCE(cooldown_until, 0), ?) END, 0)"
    );
    args.extend(over.clone());
    args.extend(over.clone());
    args.extend([cleared.clone(), of(delta.cooldown_until), of(delta.cooldown_until)]);
    let newest = |column: &str| {
        format!(
            "CASE WHEN {is_over} THEN 0 WHEN ? >= COALESCE(rested_at, 0) THEN ? ELSE COALESCE({column}, 0) END"
        )
    };
    set += &format!(
        ", provider_cooldown_until = NULLIF({}, 0), consecutive_fail_count = {}",
        newest("provider_cooldown_until"),
        newest("consecutive_fail_count")
    );
    args.extend(over.clone());
    args.extend([rested.clone(), of(delta.provider_cooldown_until)]);
    args.extend(over.clone());
    args.extend([rested.clone(), i64::try_from(delta.consecutive_fail).unwrap_or(i64::MAX).into()]);
    set += &format!(
        ", last_fail_at = NULLIF(CASE WHEN {is_over} THEN 0 ELSE GREATEST(COALESCE(last_fail_at, 0), ?) END, 0)"
    );
    args.extend(over);
    args.push(of(delta.last_fail));
    set += &format!(", {}, {}", greatest("rested_at"), greatest("cleared_at"));
    args.extend([rested, cleared]);
    if let Some(now) = dialect.now() {
        set += &format!(", rest_changed_at = {now}");
    }
    (set, args)
}
