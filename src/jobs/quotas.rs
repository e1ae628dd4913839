//! Gives back requests that were reserved for downstream keys and not made: after a minute of silence, so that other
//! instances may use them, and when the service stops.

use std::time::Duration;

use crate::core::Core;
use crate::keys::Key;
use crate::store::{self, quota};
use crate::time::{MINUTE, Millis};

/// The interval at which unused reservations are looked for.
pub const INTERVAL: Duration = Duration::from_secs(20);
const SILENCE_MS: Millis = MINUTE;

/// Gives back the unused reservations of silent keys.
pub async fn give_back_silent(core: &Core, now: Millis) -> store::Result<()> {
    give_back(core, |key| is_silent(key.live.last_used(), now)).await
}

/// Gives back the unused reservations of all keys.
pub async fn give_back_all(core: &Core) -> store::Result<()> {
    give_back(core, |_| true).await
}

async fn give_back(core: &Core, chosen: impl Fn(&Key) -> bool) -> store::Result<()> {
    let keys = core.keys.load_full();
    for key in keys.iter().filter(|key| chosen(key) && key.live.holds_reserved()) {
        let _turn = key.live.turn.lock().await;
        quota::give_back(&core.store, &key.live).await?;
    }
    Ok(())
}

fn is_silent(last_used: Option<Millis>, now: Millis) -> bool {
    last_used.is_none_or(|at| now - at >= SILENCE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_silent_after_a_minute() {
        for (last_used, silent) in [(None, true), (Some(40_000), true), (Some(40_001), false)] {
            assert_eq!(is_silent(last_used, 100_000), silent, "{last_used:?}");
        }
    }
}
