//! Guards of single routes: a maximum of requests per source address in a minute.
//!
//! The windows work like those of every limit ([`Windows`]), one minute long and at most [`MAX_ADDRESSES`] per guard.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use super::window::{RetryAfterSeconds, Windows};
use crate::sync::lock;
use crate::time::{MINUTE, Millis};

const WINDOW_MS: Millis = MINUTE;
/// The maximum number of addresses per bucket.
const MAX_ADDRESSES: usize = 10_000;

/// A budget of requests per minute and address, shared by the routes that name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub name: &'static str,
    pub max: u32,
}

/// The counters of all buckets.
#[derive(Debug, Default)]
pub struct Guards {
    buckets: Mutex<HashMap<&'static str, Windows<IpAddr>>>,
}

// === impl Guards ===

impl Guards {
    /// Resets all counters.
    pub fn clear(&self) {
        lock(&self.buckets).clear();
    }

    /// Counts a request, or returns how long to wait.
    pub fn check(&self, bucket: &Bucket, address: IpAddr, now: Millis) -> Result<(), RetryAfterSeconds> {
        let mut buckets = lock(&self.buckets);
        let windows = buckets.entry(bucket.name).or_insert_with(|| Windows::new(WINDOW_MS, MAX_ADDRESSES));
        windows.of(address.to_canonical(), now).count(bucket.max, WINDOW_MS, now)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const AUTH_CHANGE: Bucket = Bucket { name: "auth-change", max: 3 };
    const ACCOUNTS_LOGIN: Bucket = Bucket { name: "accounts-login", max: 5 };

    const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(number))
    }

    #[test]
    fn an_address_gets_its_maximum_and_then_waits_for_the_window_to_end() {
        let guards = Guards::default();
        let three = AUTH_CHANGE;
        for now in [1_000, 1_500, 30_000] {
            assert_eq!(guards.check(&three, HOME, now), Ok(()));
        }
        for (now, wait) in [(30_001, 31), (31_000, 30), (60_500, 1), (60_999, 1)] {
            assert_eq!(guards.check(&three, HOME, now), Err(RetryAfterSeconds(wait)), "at {now}");
        }
        for now in [61_000, 61_000, 61_000] {
            assert_eq!(guards.check(&three, HOME, now), Ok(()));
        }
        assert_eq!(guards.check(&three, HOME, 61_000), Err(RetryAfterSeconds(60)));
    }

    #[test]
    fn buckets_and_addresses_do_not_share_their_windows() {
        let guards = Guards::default();
        for _ in 0..3 {
            assert!(guards.check(&AUTH_CHANGE, HOME, 0).is_ok());
        }
        assert!(guards.check(&AUTH_CHANGE, HOME, 0).is_err());
        assert!(guards.check(&AUTH_CHANGE, address(7), 0).is_ok());
        assert!(guards.check(&ACCOUNTS_LOGIN, HOME, 0).is_ok());
    }

    #[test]
    fn an_ipv4_address_is_the_same_in_its_ipv6_form() {
        let guards = Guards::default();
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        for from in [HOME, mapped, HOME] {
            assert!(guards.check(&AUTH_CHANGE, from, 0).is_ok());
        }
        assert!(guards.check(&AUTH_CHANGE, mapped, 0).is_err());
        assert!(guards.check(&AUTH_CHANGE, IpAddr::V6(Ipv6Addr::LOCALHOST), 0).is_ok());
    }

    #[test]
    fn memory_is_bounded_however_many_addresses_come() {
        let guards = Guards::default();
        for number in 0..25_000 {
            assert!(guards.check(&AUTH_CHANGE, address(number), i64::from(number)).is_ok());
        }
        let count = || guards.buckets.lock().unwrap()["auth-change"].len();
        assert_eq!(count(), MAX_ADDRESSES);
        guards.check(&AUTH_CHANGE, HOME, 200_000).unwrap();
        assert_eq!(count(), 1, "expired windows are swept");
    }
}
