//! What an attempt does to the cooldown of its channel: a failure begins one, an answer ends it.

use std::sync::Arc;

use super::Attempt;
use crate::proxy::failure::Failure;
use crate::routing::failure::CooldownTimes;
use crate::routing::{Channel, ChannelLive, FailureWeight, failure};
use crate::sync::NewlyDirty;
use crate::time::{Millis, now_ms};

impl Attempt {
    /// Ends the cooldown of a channel that this request tries, now that the answer has begun: nobody else need wait for the end
    /// of a long one. If it breaks off, the channel cools anew.
    pub(in crate::proxy) fn win_trial(&mut self) {
        let Some(row) = self.row.as_ref().filter(|_| self.held.slots.trial.is_some()) else { return };
        let (began, now) = (row.created_at, now_ms());
        let was_limited = self.channel.live.is_limited();
        for live in std::iter::once(&self.channel.live).chain(self.channel.whole()) {
            self.save(live, live.end_cooldown(began, now));
        }
        if was_limited && !self.channel.live.has_cooled_since(began, now) {
            self.end_limits(began, now);
        }
        // Only now: until then only one request at a time may try it.
        self.held.slots.trial = None;
    }

    /// Cools the channel down for a while; when a quota is used up, also the channels that share its credential. Lowers the
    /// health of the site and the model.
    pub(super) fn cool(&self, failure: &Failure) {
        let now = now_ms();
        let weight = FailureWeight::of(failure.status, failure.words());
        self.channel.account.site.health.fail(&self.model, weight, now);
        self.proxy.jobs.health_saver.nudge();
        let CooldownTimes { cooldown_until, limited_until } =
            failure::cooldown_times(now, self.settings.cooldown, failure.recovers_at);
        let live = &self.channel.live;
        self.save(live, live.record_failure(now, cooldown_until));
        if let Some(whole) = self.channel.whole() {
            self.save(whole, whole.record_failed_member());
        }
        log::info!(
            "channel cooling: {} ({}) until {}: {}{}",
            self.channel.id,
            self.channel.account.site.name,
            crate::time::iso(cooldown_until),
            failure.keyword(),
            failure.text
        );
        if failure.is_usage_limit() {
            // Without a hint the cooldown's end is kept, to record that the provider reported a limit.
            let limit = limited_until.unwrap_or(cooldown_until);
            for sibling in self.proxy.core.snapshot.load().sharing_credential(&self.channel) {
                self.save(&sibling.live, sibling.live.record_cooldown(now, cooldown_until));
                self.save(&sibling.live, sibling.live.record_limit(limit));
            }
        } else if let Some(limit) = limited_until {
            self.save(live, live.record_limit(limit));
        }
    }

    /// Whether the channel has another credential by now than this attempt used.
    pub(super) fn has_former_credential(&self) -> bool {
        let snapshot = self.proxy.core.snapshot.load();
        let secret =
            |channel: &Channel| channel.credential.as_ref().map(|held| held.secret().expose().to_owned());
        snapshot.current(&self.channel).is_some_and(|now| secret(now) != secret(&self.channel))
    }

    /// Ends the recorded limit of the credential: the provider has served a request again that began after it.
    pub(super) fn end_limits(&self, began: Millis, now: Millis) {
        for sibling in self.proxy.core.snapshot.load().sharing_credential(&self.channel) {
            self.save(&sibling.live, sibling.live.end_limit(began, now));
        }
    }

    /// Hands a changed channel to the writer.
    pub(super) fn save(&self, live: &Arc<ChannelLive>, dirty: NewlyDirty) {
        self.proxy.core.store.telemetry().dirty_channel(live, dirty);
    }
}
