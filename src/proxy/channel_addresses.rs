//! The addresses of a channel's site, whatever is asked of them: which is asked, and when the next one is.

use std::sync::Arc;

use crate::core::{AddressWalk, Core};
use crate::routing::{Channel, Credential, CredentialHeaders, Endpoint};
use crate::time::{Millis, now_ms};
use crate::upstream::Work;

use super::failure::Failure;

/// The addresses of a channel's site, asked until one answers or the failure must not be followed by another request.
pub(super) struct ChannelAddresses<'a> {
    walk: AddressWalk<'a>,
    work: Work,
    /// Why the last address was left.
    pub(super) last: Option<Box<Failure>>,
}

/// How a request to this channel shows who it is from.
///
/// # Errors
/// The site or the credential cannot be used.
pub(super) fn usable_credential(channel: &Channel) -> Result<&CredentialHeaders, Box<Failure>> {
    let site = &channel.account.site;
    if let Some(reason) = &site.misconfigured {
        return Err(Box::new(Failure::local(format!("site {} cannot be used: {reason}", site.name))));
    }
    let headers = channel.credential.as_ref().and_then(Credential::headers);
    let why = "the channel has no credential that can stand in a header";
    headers.ok_or_else(|| Box::new(Failure::local(why.to_owned())))
}

// === impl ChannelAddresses ===

impl<'a> ChannelAddresses<'a> {
    pub(super) fn new(core: &'a Core, endpoints: &'a [Arc<Endpoint>], work: Work) -> Self {
        Self::at(core, endpoints, work, now_ms())
    }

    pub(super) fn at(core: &'a Core, endpoints: &'a [Arc<Endpoint>], work: Work, now: Millis) -> Self {
        Self { walk: AddressWalk::new(&core.store, endpoints, now), work, last: None }
    }

    /// The address to ask now.
    pub(super) fn next_address(&mut self) -> Option<&'a Endpoint> {
        self.walk.next_address()
    }

    /// Goes through all of them once more.
    pub(super) fn begin_again(&mut self, endpoints: &'a [Arc<Endpoint>]) {
        self.walk.begin_again(endpoints);
    }

    /// What the address has given; `None` where the next one is to be asked.
    ///
    /// # Errors
    /// The failure, where the request must not be sent to another address, or would fail there as well.
    pub(super) fn settle<T>(&mut self, answer: Result<T, Failure>) -> Result<Option<T>, Box<Failure>> {
        match answer {
            Ok(answer) => {
                self.walk.answered();
                Ok(Some(answer))
            }
            Err(failure) if failure.blames_address() => self.leave(failure).map(|()| None),
            Err(failure) => {
                self.walk.refused(&failure.text);
                Err(Box::new(failure))
            }
        }
    }

    /// Lets the address rest that is to blame, so that the next one is asked. While the channel has another one, it is
    /// not blamed itself.
    ///
    /// # Errors
    /// The failure, where the request must not be sent to another address.
    pub(super) fn leave(&mut self, failure: Failure) -> Result<(), Box<Failure>> {
        let rotates = failure.rotates_address(self.work);
        self.walk.failed(&failure.text);
        let failure = Box::new(if self.walk.has_more() { failure.of_one_address() } else { failure });
        if !rotates {
            return Err(failure);
        }
        self.last = Some(failure);
        Ok(())
    }

    /// The address has no room, which says nothing against it; the next one may have.
    pub(super) fn pass_on(&mut self, failure: Failure) {
        self.walk.refused(&failure.text);
        self.last = Some(Box::new(failure));
    }

    /// Why nothing came of it, once all have been asked.
    pub(super) fn exhausted(&mut self) -> Failure {
        let last = self.last.take().map(|last| *last);
        last.unwrap_or_else(|| Failure::local("the site has no address".to_owned()))
    }
}
