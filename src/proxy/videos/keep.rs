//! A video that has begun gets a name of ours, which is kept before anybody hears it: what a client was
//! told outlives the process (data.md J).

use bytes::Bytes;
use hyper::StatusCode;
use ring::rand::{SecureRandom, SystemRandom};

use crate::app::App;
use crate::dialect::video;
use crate::http::Response;
use crate::proxy::attempt::Attempt;
use crate::proxy::call::Call;
use crate::store::owner::Owner;
use crate::store::videos::{self, MadeAt, NewVideo, Snapshot};
use crate::time::{Millis, now_ms};

use super::PREFIX;

/// Digits of the part of an id that is drawn.
const DRAWN: usize = 8;

/// What an upstream said of a video it has begun.
pub(in crate::proxy) struct Begun<'a> {
    pub(in crate::proxy) upstream_id: String,
    pub(in crate::proxy) status: StatusCode,
    /// Which address of the site's pool said it; `None` is the site's own.
    pub(in crate::proxy) endpoint: Option<i64>,
    pub(in crate::proxy) body: &'a Bytes,
}

/// Keeps a video, and gives what its client is told; or what the client gets where it cannot be kept.
pub(in crate::proxy) async fn keep(
    app: &App,
    call: &Call,
    attempt: &Attempt,
    begun: Begun<'_>,
) -> Result<Bytes, Response> {
    let channel = attempt.channel();
    let site = &channel.account.site;
    let lost = |why: &dyn std::fmt::Display| {
        // An operator may still find it at the site.
        log::error!("video {:?} of site {} could not be kept: {why}", begun.upstream_id, site.name);
        call.face.refuse(503, "The video was begun, but its id could not be stored", None, None)
    };
    let asked = site.endpoints.iter().find(|endpoint| endpoint.id == begun.endpoint);
    let Some((asked, public_id)) = asked.zip(new_id(now_ms())) else {
        return Err(lost(&"no randomness for an id"));
    };
    let body = video::renamed(begun.body, &public_id);
    let new = NewVideo {
        public_id,
        upstream_id: begun.upstream_id.clone(),
        made_at: MadeAt {
            site_id: site.id,
            account_id: channel.account.id,
            token_id: channel.token_id,
            channel_id: channel.id,
            url: asked.base.url(),
            through_proxy: asked.base.origin.proxy.is_some(),
        },
        token: attempt.credential().cloned(),
        requested_model: call.envelope.model.clone(),
        actual_model: attempt.model().to_owned(),
        snapshot: Snapshot {
            upstream_status: Some(begun.status.as_u16()),
            status: video::snapshot(begun.body),
        },
        created_at: now_ms(),
    };
    match videos::insert(&app.store, &Owner::of_key(call.key_id), new).await {
        Ok(()) => Ok(body),
        Err(error) => Err(lost(&error)),
    }
}

/// `vid_`, the time and what was drawn, both in base 36; `None` without a source of randomness.
fn new_id(now: Millis) -> Option<String> {
    let mut drawn = [0; 8];
    SystemRandom::new().fill(&mut drawn).ok()?;
    let drawn = u64::from_le_bytes(drawn) % 36u64.pow(DRAWN as u32);
    Some(format!("{PREFIX}{}_{:0>DRAWN$}", base36(now.unsigned_abs()), base36(drawn)))
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
        for (number, expected) in [(0, "0"), (35, "z"), (36, "10"), (1_790_000_000_000, "mubdzlog")] {
            assert_eq!(base36(number).len(), expected.len(), "{number}");
            assert_eq!(u64::from_str_radix(&base36(number), 36), Ok(number));
        }
        assert_eq!(base36(35), "z");
    }

    #[test]
    fn an_id_has_its_time_and_eight_digits_that_nobody_guesses() {
        let (one, two) = (new_id(1_790_000_000_000).unwrap(), new_id(1_790_000_000_000).unwrap());
        assert_ne!(one, two);
        let parts: Vec<&str> = one.split('_').collect();
        assert_eq!((parts.len(), parts[0], parts[2].len()), (3, "vid", DRAWN), "{one}");
        assert_eq!(u64::from_str_radix(parts[1], 36), Ok(1_790_000_000_000));
    }
}
