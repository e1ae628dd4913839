//! Clears the cooldowns of an account that has got a new credential.

use crate::core::Core;
use crate::ids::{AccountId, ChannelId};
use crate::routing::UnitRole;
use crate::store::{self, route_units, routes};

/// Ends the cooldowns and limits of an account's own channels, and of the account within its route unit: the former
/// credential caused them. Call it when an operator has given another credential, or a login has proved one.
pub async fn clear_cooldowns(core: &Core, id: AccountId) {
    if let Err(error) = try_clear_cooldowns(core, id).await {
        log::warn!(
            "the cooldowns of account {id} could not be cleared after its credential was changed: {error}"
        );
    }
}

async fn try_clear_cooldowns(core: &Core, id: AccountId) -> store::Result<()> {
    // Failures that are still on their way to the store must not arrive there after this.
    core.store.flush().await;
    let snapshot = core.snapshot.load_full();
    let is_own = |unit: &UnitRole| matches!(unit, UnitRole::Nothing);
    let own = snapshot.channels().filter(|channel| channel.account.id == id && is_own(&channel.unit));
    let (ids, own): (Vec<ChannelId>, Vec<_>) = own.map(|channel| (channel.id, channel)).unzip();
    routes::clear_failures(&core.store, &ids).await?;
    own.into_iter().for_each(|channel| channel.live.clear_cooldown());
    let Some(unit) = route_units::of_accounts(&core.store, &[id]).await?.get(&id).copied() else {
        return Ok(());
    };
    let members = route_units::get(&core.store, unit).await?.into_iter().flat_map(|unit| unit.members);
    let members: Vec<_> = members.filter(|member| member.account_id == id).collect();
    let ids: Vec<_> = members.iter().map(|member| member.id).collect();
    route_units::clear_failures(&core.store, &ids).await?;
    for member in &members {
        core.live.member(member.id, || member.stats.totals()).clear_cooldown();
    }
    Ok(())
}
