//! The rate limits of every request.
//!
//! | bucket | identity | counted |
//! |---|---|---|
//! | global | the socket's peer, never what a header says | before authentication, every path but the health check |
//! | authenticated | `admin`, `global` (proxy token), `managed:<id>` | after authentication; failed ones count as global only |
//! | sockets, frames | the same, in own buckets with the same maximum | WebSockets opened, frames that ask for something |
//!
//! Each is counted in a [`RateWindow`], one atomic word that its owner keeps: a connection keeps that of its peer, a
//! downstream key its own. A lock is taken once per connection, to find its peer's window among the shards; the hasher is
//! keyed per process, so nobody can aim addresses at one shard. Counters are per process. How a refusal looks on the wire
//! is decided by the interfaces.

use std::array;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::window::{RateWindow, RetryAfterSeconds, Windows};
use crate::sync::lock;
use crate::time::Millis;

const SHARDS: usize = 64;
/// The maximum number of addresses, over all shards.
const MAX_ADDRESSES: usize = 100_000;

/// The maximum numbers of requests, and the window in which they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    pub request_max: u32,
    pub authenticated_max: u32,
    /// The window, shared by both limits.
    pub window: Duration,
}

/// The windows of one authenticated identity: the operator, all callers with the proxy token, or a downstream key.
#[derive(Debug, Default)]
pub struct IdentityWindows {
    requests: RateWindow,
    sockets: RateWindow,
    frames: RateWindow,
}

/// The limits, and the counters of identities that are known from the start or by their address.
#[derive(Debug)]
pub struct RateLimiter {
    limits: RateLimits,
    window: Millis,
    keys: RandomState,
    peers: [Mutex<Windows<IpAddr>>; SHARDS],
    /// Counts every call of the admin interface.
    pub admin: IdentityWindows,
    /// Counts every call with the proxy token.
    pub global: Arc<IdentityWindows>,
}

// === impl RateLimiter ===

impl RateLimiter {
    pub fn new(limits: RateLimits) -> Self {
        let window = Millis::try_from(limits.window.as_millis()).unwrap_or(Millis::MAX / 2);
        Self {
            limits,
            window,
            keys: RandomState::new(),
            peers: array::from_fn(|_| Mutex::new(Windows::new(window, MAX_ADDRESSES / SHARDS))),
            admin: IdentityWindows::default(),
            global: Arc::default(),
        }
    }

    /// Resets all counters except those of downstream keys.
    pub fn clear(&self) {
        for shard in &self.peers {
            lock(shard).clear();
        }
        for identity in [&self.admin, &self.global] {
            identity.clear();
        }
    }

    /// Returns the window of a socket's peer, which is kept as long as the socket is.
    pub fn of_peer(&self, peer: IpAddr, now: Millis) -> Arc<RateWindow> {
        let peer = peer.to_canonical();
        let shard = &self.peers[self.keys.hash_one(peer) as usize % SHARDS];
        lock(shard).of(peer, now)
    }

    /// Counts a request of a socket's peer, or returns how long to wait.
    pub fn admit_peer(&self, peer: &RateWindow, now: Millis) -> Result<(), RetryAfterSeconds> {
        peer.count(self.limits.request_max, self.window, now)
    }

    /// Counts a request of an authenticated caller, or returns how long to wait.
    pub fn admit_request(&self, identity: &IdentityWindows, now: Millis) -> Result<(), RetryAfterSeconds> {
        identity.requests.count(self.limits.authenticated_max, self.window, now)
    }

    /// Counts a WebSocket that an authenticated caller opens, or returns how long to wait.
    pub fn admit_socket(&self, identity: &IdentityWindows, now: Millis) -> Result<(), RetryAfterSeconds> {
        identity.sockets.count(self.limits.authenticated_max, self.window, now)
    }

    /// Counts a frame on such a socket, or returns how long to wait.
    pub fn admit_frame(&self, identity: &IdentityWindows, now: Millis) -> Result<(), RetryAfterSeconds> {
        identity.frames.count(self.limits.authenticated_max, self.window, now)
    }
}

// === impl IdentityWindows ===

impl IdentityWindows {
    fn clear(&self) {
        [&self.requests, &self.sockets, &self.frames].into_iter().for_each(RateWindow::clear);
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
        let peer = limiter.of_peer(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let admitted = || {
            let of_all = [
                limiter.admit_peer(&peer, 0),
                limiter.admit_request(&limiter.admin, 0),
                limiter.admit_request(&limiter.global, 0),
                limiter.admit_socket(&limiter.global, 0),
                limiter.admit_frame(&limiter.global, 0),
            ];
            of_all.iter().filter(|admitted| admitted.is_ok()).count()
        };
        assert_eq!((admitted(), admitted()), (5, 0));
        limiter.clear();
        assert_eq!(admitted(), 5);
    }

    #[test]
    fn a_window_is_anchored_at_its_first_request_and_refilled_in_one_step() {
        let limiter = limiter(1, 2, 60_000);
        for now in [5_000, 5_500] {
            assert_eq!(limiter.admit_request(&limiter.admin, now), Ok(()));
        }
        for (now, wait) in [(5_500, 60), (28_000, 37), (64_001, 1), (64_999, 1)] {
            let refused = limiter.admit_request(&limiter.admin, now);
            assert_eq!(refused, Err(RetryAfterSeconds(wait)), "at {now}");
        }
        // A bucket refilled little by little would have admitted one in between.
        for now in [65_000, 65_000] {
            assert_eq!(limiter.admit_request(&limiter.admin, now), Ok(()));
        }
        assert_eq!(limiter.admit_request(&limiter.admin, 65_000), Err(RetryAfterSeconds(60)));
    }

    #[test]
    fn identities_do_not_share_their_windows() {
        let limiter = limiter(1, 1, 60_000);
        let keys = [IdentityWindows::default(), IdentityWindows::default()];
        for identity in [&limiter.admin, &*limiter.global, &keys[0], &keys[1]] {
            assert!(limiter.admit_request(identity, 0).is_ok());
            assert!(limiter.admit_request(identity, 1).is_err());
        }
        let admit = |peer: IpAddr| limiter.admit_peer(&limiter.of_peer(peer, 2), 2);
        assert!(admit(address(1)).is_ok());
        assert!(admit(address(2)).is_ok());
        let mapped = IpAddr::V6(Ipv4Addr::from_bits(1).to_ipv6_mapped());
        assert!(admit(mapped).is_err(), "an IPv4 address is the same in its IPv6 form");
    }

    #[test]
    fn sockets_and_their_frames_are_counted_apart_from_requests() {
        let limiter = limiter(1, 1, 60_000);
        let one = IdentityWindows::default();
        for admit in [RateLimiter::admit_request, RateLimiter::admit_socket, RateLimiter::admit_frame] {
            assert!(admit(&limiter, &one, 0).is_ok());
            assert_eq!(admit(&limiter, &one, 23_000), Err(RetryAfterSeconds(37)));
            assert!(admit(&limiter, &limiter.global, 23_000).is_ok());
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
                        if limiter.admit_peer(&limiter.of_peer(address(7), now), now).is_ok() {
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
        let admit = |number: u32, now| limiter.admit_peer(&limiter.of_peer(address(number), now), now);
        for number in 0..250_000 {
            assert!(admit(number, number.into()).is_ok());
        }
        let count = || limiter.peers.iter().map(|shard| shard.lock().unwrap().len()).sum::<usize>();
        assert!((90_000..=MAX_ADDRESSES).contains(&count()), "{}", count());
        for number in 0..10_000 {
            assert!(admit(number, 2_000_000).is_ok());
        }
        assert_eq!(count(), 10_000, "expired windows are dropped");
    }
}
