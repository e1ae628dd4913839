//! The rate limits of every request (service.md Limits 1 and 2, routing.md 15.2).
//!
//! | bucket | identity | counted |
//! |---|---|---|
//! | global | the socket's peer, never what a header says | before authentication, every path but the health check |
//! | authenticated | `admin`, `global` (the proxy token), `managed:<id>` | after authentication, so that a failed one touches the global bucket only |
//! | sockets, frames | the same, in buckets of their own with the same maximum | a WebSocket when it is opened, and each frame that asks for something |
//!
//! Identities are spread over shards, each behind a lock of its own that is held for one look-up; the
//! hasher is keyed per process, so nobody can aim addresses at one shard. Counters are per process, by
//! contract. What a refusal looks like on the wire is the business of the faces.

use std::array;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::window::{RetryAfterSeconds, Windows};
use crate::time::Millis;

const SHARDS: usize = 64;
/// Over all shards: the bound of 15.1.
const MAX_IDENTITIES: usize = 100_000;

/// How many requests in which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    pub request_max: u32,
    pub authenticated_max: u32,
    /// Shared by both limits.
    pub window: Duration,
}

/// Who was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// Every call of the admin interface.
    Admin,
    /// Every call with the proxy token.
    Global,
    /// A downstream key, by its id.
    Managed(i64),
}

/// The counters of all limits.
#[derive(Debug)]
pub struct RateLimiter {
    limits: RateLimits,
    addresses: Sharded<IpAddr>,
    identities: Sharded<Identity>,
    sockets: Sharded<Identity>,
    frames: Sharded<Identity>,
}

#[derive(Debug)]
struct Sharded<K> {
    keys: RandomState,
    shards: [Mutex<Windows<K>>; SHARDS],
}

// === impl RateLimiter ===

impl RateLimiter {
    pub fn new(limits: RateLimits) -> Self {
        Self {
            limits,
            addresses: Sharded::new(limits.window),
            identities: Sharded::new(limits.window),
            sockets: Sharded::new(limits.window),
            frames: Sharded::new(limits.window),
        }
    }

    /// Counts from zero again, whoever it is.
    pub fn clear(&self) {
        self.addresses.clear();
        for of_identities in [&self.identities, &self.sockets, &self.frames] {
            of_identities.clear();
        }
    }

    /// Counts a request of a socket's peer, or says when to come again.
    pub fn admit_peer(&self, peer: IpAddr, now: Millis) -> Result<(), RetryAfterSeconds> {
        self.addresses.count(self.limits.request_max, peer.to_canonical(), now)
    }

    /// Counts a request of somebody who was let in, or says when to come again.
    pub fn admit_identity(&self, identity: Identity, now: Millis) -> Result<(), RetryAfterSeconds> {
        self.identities.count(self.limits.authenticated_max, identity, now)
    }

    /// Counts a WebSocket that somebody who was let in opens, or says when to come again.
    pub fn admit_socket(&self, identity: Identity, now: Millis) -> Result<(), RetryAfterSeconds> {
        self.sockets.count(self.limits.authenticated_max, identity, now)
    }

    /// Counts a frame on such a socket, or says when to come again.
    pub fn admit_frame(&self, identity: Identity, now: Millis) -> Result<(), RetryAfterSeconds> {
        self.frames.count(self.limits.authenticated_max, identity, now)
    }
}

// === impl Identity ===

impl Identity {
    /// The identity of a proxy call: of its managed key, or of all who have the proxy token.
    pub fn of_key(key_id: Option<i64>) -> Self {
        key_id.map_or(Self::Global, Self::Managed)
    }
}

// === impl Sharded ===

impl<K: Copy + Eq + Hash> Sharded<K> {
    fn new(window: Duration) -> Self {
        let length = Millis::try_from(window.as_millis()).unwrap_or(Millis::MAX / 2);
        Self {
            keys: RandomState::new(),
            shards: array::from_fn(|_| Mutex::new(Windows::new(length, MAX_IDENTITIES / SHARDS))),
        }
    }

    fn clear(&self) {
        for shard in &self.shards {
            shard.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    fn count(&self, max: u32, identity: K, now: Millis) -> Result<(), RetryAfterSeconds> {
        let shard = &self.shards[self.keys.hash_one(identity) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner).count(max, identity, now)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn limiter(request_max: u32, authenticated_max: u32, window_ms: u64) -> RateLimiter {
        RateLimiter::new(RateLimits {
            request_max,
            authenticated_max,
            window: Duration::from_millis(window_ms),
        })
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(number))
    }

    #[test]
    fn everybody_begins_anew_after_a_clear() {
        let limiter = limiter(1, 1, 60_000);
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let admitted = || {
            let requests = [limiter.admit_peer(peer, 0), limiter.admit_identity(Identity::Global, 0)];
            let of_sockets =
                [limiter.admit_socket(Identity::Global, 0), limiter.admit_frame(Identity::Global, 0)];
            requests.iter().chain(&of_sockets).filter(|admitted| admitted.is_ok()).count()
        };
        assert_eq!((admitted(), admitted()), (4, 0));
        limiter.clear();
        assert_eq!(admitted(), 4);
    }

    #[test]
    fn a_window_is_anchored_at_its_first_request_and_refilled_in_one_step() {
        let limiter = limiter(1, 2, 60_000);
        for now in [5_000, 5_500] {
            assert_eq!(limiter.admit_identity(Identity::Admin, now), Ok(()));
        }
        for (now, wait) in [(5_500, 60), (28_000, 37), (64_001, 1), (64_999, 1)] {
            assert_eq!(
                limiter.admit_identity(Identity::Admin, now),
                Err(RetryAfterSeconds(wait)),
                "at {now}"
            );
        }
        // A bucket refilled little by little would have admitted one in between.
        for now in [65_000, 65_000] {
            assert_eq!(limiter.admit_identity(Identity::Admin, now), Ok(()));
        }
        assert_eq!(limiter.admit_identity(Identity::Admin, 65_000), Err(RetryAfterSeconds(60)));
    }

    #[test]
    fn identities_do_not_share_their_windows() {
        let limiter = limiter(1, 1, 60_000);
        let all = [Identity::Admin, Identity::of_key(None), Identity::of_key(Some(1)), Identity::Managed(2)];
        for identity in all {
            assert!(limiter.admit_identity(identity, 0).is_ok(), "{identity:?}");
            assert!(limiter.admit_identity(identity, 1).is_err(), "{identity:?}");
        }
        assert!(limiter.admit_peer(address(1), 2).is_ok());
        assert!(limiter.admit_peer(address(2), 2).is_ok());
        let mapped = IpAddr::V6(Ipv4Addr::from_bits(1).to_ipv6_mapped());
        assert!(limiter.admit_peer(mapped, 2).is_err(), "an IPv4 address is the same in its IPv6 form");
    }

    #[test]
    fn sockets_and_their_frames_are_counted_apart_from_requests() {
        let limiter = limiter(1, 1, 60_000);
        let one = Identity::Managed(1);
        for admit in [RateLimiter::admit_identity, RateLimiter::admit_socket, RateLimiter::admit_frame] {
            assert!(admit(&limiter, one, 0).is_ok());
            assert_eq!(admit(&limiter, one, 23_000), Err(RetryAfterSeconds(37)));
            assert!(admit(&limiter, Identity::Global, 23_000).is_ok());
        }
    }

    #[test]
    fn parallel_requests_get_exactly_the_maximum() {
        let limiter = limiter(1_000, 1, 60_000);
        let admitted = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for now in 0..1_000 {
                        if limiter.admit_peer(address(7), now).is_ok() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 1_000);
    }

    #[test]
    fn memory_is_bounded_however_many_addresses_come() {
        let limiter = limiter(1, 1, 600_000);
        for number in 0..250_000 {
            assert!(limiter.admit_peer(address(number), i64::from(number)).is_ok());
        }
        let count =
            || limiter.addresses.shards.iter().map(|shard| shard.lock().unwrap().len()).sum::<usize>();
        assert!((90_000..=MAX_IDENTITIES).contains(&count()), "{}", count());
        for number in 0..10_000 {
            assert!(limiter.admit_peer(address(number), 900_000).is_ok());
        }
        assert_eq!(count(), 10_000, "expired windows are dropped");
    }
}
