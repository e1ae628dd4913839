//! The mapping of a new video from its public id to the upstream's. It is committed before the client is
//! answered: an id that was given out survives a kill.

use bytes::Bytes;
use hyper::StatusCode;
use ring::rand::{SecureRandom, SystemRandom};

use crate::dialect::video;
use crate::http::Response;
use crate::ids::EndpointId;
use crate::proxy::attempt::Attempt;
use crate::proxy::call::Call;
use crate::store::Store;
use crate::store::owner::Owner;
use crate::store::videos::{self, NewVideo, VideoSource, VideoStatus};
use crate::time::{Millis, now_ms};

use super::lookup::PREFIX;

/// The number of random digits in an id.
const RANDOM_DIGITS: usize = 8;

/// A newly created video, as its upstream answered.
pub(in crate::proxy) struct CreatedVideo<'a> {
    pub(in crate::proxy) upstream_id: String,
    pub(in crate::proxy) status: StatusCode,
    /// The address of the site's pool that answered; `None` is the site's own.
    pub(in crate::proxy) endpoint: Option<EndpointId>,
    pub(in crate::proxy) body: &'a Bytes,
}

/// Stores the mapping and returns the body with the public id; an error response where it cannot be stored.
pub(in crate::proxy) async fn store_mapping(
    store: &Store,
    call: &Call,
    attempt: &Attempt,
    created: CreatedVideo<'_>,
) -> Result<Bytes, Response> {
    let channel = attempt.channel();
    let site = &channel.account.site;
    let failed = |why: &dyn std::fmt::Display| {
        // The upstream renders the video all the same: an operator may find it there.
        log::error!("video {:?} of site {} could not be stored: {why}", created.upstream_id, site.name);
        call.shape.creation_lost("The video was created, but its id could not be stored")
    };
    let endpoint = site.endpoints.iter().find(|endpoint| endpoint.id == created.endpoint);
    let Some((endpoint, public_id)) = endpoint.zip(new_id(now_ms())) else {
        return Err(failed(&"the operating system gives no random bytes for an id"));
    };
    let body = video::with_id(created.body, &public_id);
    let new = NewVideo {
        public_id,
        upstream_id: created.upstream_id.clone(),
        source: VideoSource {
            site_id: site.id,
            account_id: channel.account.id,
            token_id: channel.token_id,
            channel_id: channel.id,
            url: endpoint.base.url(),
            through_proxy: endpoint.base.origin.proxy.is_some(),
        },
        token: attempt.channel().credential.as_ref().map(|credential| credential.secret().clone()),
        requested_model: call.envelope.model.clone(),
        actual_model: attempt.model().to_owned(),
        status: VideoStatus {
            upstream_status: Some(created.status.as_u16()),
            snapshot: video::snapshot(created.body),
        },
        created_at: now_ms(),
    };
    match videos::insert(store, &Owner::of_key(call.key_id), new).await {
        Ok(()) => Ok(body),
        Err(error) => Err(failed(&error)),
    }
}

/// Makes an id `vid_<time>_<random>`, both in base 36; `None` without a source of randomness.
fn new_id(now: Millis) -> Option<String> {
    let mut random = [0; 8];
    SystemRandom::new().fill(&mut random).ok()?;
    let random = u64::from_le_bytes(random) % 36u64.pow(RANDOM_DIGITS as u32);
    Some(format!("{PREFIX}{}_{:0>RANDOM_DIGITS$}", base36(now.unsigned_abs()), base36(random)))
}

fn base36(mut number: u64) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut digits = Vec::new();
    loop {
        digits.push(char::from(DIGITS[(number % 36) as usize]));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_base_36() {
        for (number, expected) in [(0, "0"), (35, "z"), (36, "10"), (36 * 36 - 1, "zz")] {
            assert_eq!(base36(number), expected);
        }
        for number in [1_790_000_000_000, u64::MAX] {
            assert_eq!(u64::from_str_radix(&base36(number), 36), Ok(number));
        }
    }

    #[test]
    fn an_id_has_its_time_and_eight_random_digits() {
        let (one, two) = (new_id(1_790_000_000_000).unwrap(), new_id(1_790_000_000_000).unwrap());
        assert_ne!(one, two);
        let parts: Vec<&str> = one.split('_').collect();
        assert_eq!((parts.len(), parts[0], parts[2].len()), (3, "vid", RANDOM_DIGITS), "{one}");
        assert_eq!(u64::from_str_radix(parts[1], 36), Ok(1_790_000_000_000));
    }
}
