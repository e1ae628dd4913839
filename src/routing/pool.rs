//! The order in which the addresses of a site are tried.

use std::sync::Arc;
use std::time::Duration;

use super::site::Endpoint;
use crate::time::{MINUTE, Millis};

/// How long an address cools after a failure for which another address is tried, in milliseconds.
pub const COOLDOWN_MS: Millis = 5 * MINUTE;

/// Returns whether this status speaks against the address, so that the address cools and the next one is tried. Network
/// errors and time-outs rotate too; a refusal of the request or of the credential would be the same at any address.
pub fn rotates(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

/// Returns the addresses that are not cooling, in the order to try them: by sort order, then least recently selected, then
/// id. When all are cooling, returns only the one that recovers soonest.
pub fn order(endpoints: &[Arc<Endpoint>], now: Millis) -> Order<'_> {
    if let [only] = endpoints {
        return Order::One(Some(only));
    }
    let mut usable: Vec<_> = endpoints.iter().filter(|endpoint| !endpoint.live.is_cooling(now)).collect();
    if usable.is_empty() {
        return Order::One(endpoints.iter().min_by_key(|endpoint| endpoint.live.cooldown_until()));
    }
    usable.sort_by_cached_key(|endpoint| (endpoint.sort_order, endpoint.live.last_selected(), endpoint.id));
    Order::Several(usable.into_iter())
}

/// The addresses that [`order`] returns. A site with one address, the usual case, costs no allocation.
#[derive(Clone, Debug)]
pub enum Order<'a> {
    One(Option<&'a Arc<Endpoint>>),
    Several(std::vec::IntoIter<&'a Arc<Endpoint>>),
}

impl Order<'_> {
    pub fn has_more(&self) -> bool {
        match self {
            Self::One(endpoint) => endpoint.is_some(),
            Self::Several(endpoints) => endpoints.len() > 0,
        }
    }

    /// Returns how much of the time that is left the address returned last may take: half of it if others follow.
    pub fn share(&self, left: Duration) -> Duration {
        if self.has_more() { left / 2 } else { left }
    }
}

impl<'a> Iterator for Order<'a> {
    type Item = &'a Arc<Endpoint>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::One(endpoint) => endpoint.take(),
            Self::Several(endpoints) => endpoints.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::EndpointId;
    use crate::routing::{BaseUrl, EndpointLive, EndpointState};

    fn endpoint(
        id: i64,
        sort_order: i64,
        last_selected: Option<Millis>,
        cooldown_until: Option<Millis>,
    ) -> Arc<Endpoint> {
        let id = EndpointId::new(id);
        let state = EndpointState { cooldown_until, last_selected, ..EndpointState::default() };
        Arc::new(Endpoint {
            id: Some(id),
            base: BaseUrl::parse("https://example.com", None).unwrap(),
            sort_order,
            live: Arc::new(EndpointLive::new(Some(id), state)),
        })
    }

    fn ids(endpoints: &[Arc<Endpoint>], now: Millis) -> Vec<i64> {
        order(endpoints, now).filter_map(|endpoint| endpoint.id).map(EndpointId::get).collect()
    }

    #[test]
    fn addresses_go_by_sort_order_then_least_recently_selected_then_id() {
        let pool = [
            endpoint(1, 1, None, None),
            endpoint(2, 0, Some(50), None),
            endpoint(3, 0, Some(40), None),
            endpoint(5, 0, None, None),
            endpoint(4, 0, None, None),
        ];
        assert_eq!(ids(&pool, 100), [4, 5, 3, 2, 1]);
    }

    #[test]
    fn cooling_addresses_are_left_out_until_their_time_is_up() {
        let pool = [endpoint(1, 0, None, Some(1_000)), endpoint(2, 1, None, None)];
        assert_eq!(ids(&pool, 999), [2]);
        assert_eq!(ids(&pool, 1_000), [1, 2]);
    }

    #[test]
    fn when_all_cool_the_one_that_recovers_soonest_is_used() {
        let pool = [endpoint(1, 0, None, Some(3_000)), endpoint(2, 1, None, Some(2_000))];
        assert_eq!(ids(&pool, 100), [2]);
        assert_eq!(ids(&[endpoint(7, 0, None, Some(9_000))], 100), [7]);
        assert!(ids(&[], 100).is_empty());
    }

    #[test]
    fn only_failures_of_the_address_rotate() {
        for status in [408, 429, 500, 502, 503, 504] {
            assert!(rotates(status), "{status}");
        }
        for status in [400, 401, 403, 404, 422, 501, 200] {
            assert!(!rotates(status), "{status}");
        }
    }
}
