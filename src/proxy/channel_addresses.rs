//! The addresses of a channel's site, for any kind of request: which one is asked, and when the next one is.

use std::sync::Arc;

use crate::core::{AddressWalk, Core};
use crate::routing::{Channel, Credential, CredentialHeaders, Endpoint};
use crate::time::{Millis, now_ms};
use crate::upstream::WorkKind;

use super::failure::Failure;

/// The addresses of a channel's site, asked until one answers or a failure must not be followed by another request.
pub(super) struct ChannelAddresses<'a> {
    walk: AddressWalk<'a>,
    work: WorkKind,
    /// The failure for which the last address was left.
    pub(super) last: Option<Box<Failure>>,
}

/// Returns the headers with which a request to this channel authenticates.
///
/// # Errors
/// Fails when the site or the credential cannot be used.
pub(super) fn usable_credential(channel: &Channel) -> Result<&CredentialHeaders, Box<Failure>> {
    let site = &channel.account.site;
    if let Some(reason) = &site.misconfigured {
        return Err(Box::new(Failure::misconfigured(&site.name, reason)));
    }
    let headers = channel.credential.as_ref().and_then(Credential::headers);
    let why = "the channel has no credential that can be sent in a header";
    headers.ok_or_else(|| Box::new(Failure::local(why.to_owned())))
}

// === impl ChannelAddresses ===

impl<'a> ChannelAddresses<'a> {
    pub(super) fn new(core: &'a Core, endpoints: &'a [Arc<Endpoint>], work: WorkKind) -> Self {
        Self::at(core, endpoints, work, now_ms())
    }

    pub(super) fn at(core: &'a Core, endpoints: &'a [Arc<Endpoint>], work: WorkKind, now: Millis) -> Self {
        Self { walk: AddressWalk::new(&core.store, endpoints, now), work, last: None }
    }

    /// Returns the address to ask now.
    pub(super) fn next_address(&mut self) -> Option<&'a Endpoint> {
        self.walk.next_address()
    }

    /// Starts another pass through all addresses.
    pub(super) fn begin_again(&mut self, endpoints: &'a [Arc<Endpoint>]) {
        self.walk.begin_again(endpoints);
    }

    /// Records what the address has answered; returns `None` where the next address must be asked.
    ///
    /// # Errors
    /// Returns the failure where the request must not be sent to another address, or would fail there as well.
    pub(super) fn record<T>(&mut self, answer: Result<T, Failure>) -> Result<Option<T>, Box<Failure>> {
        match answer {
            Ok(answer) => {
                self.walk.answered();
                Ok(Some(answer))
            }
            Err(failure) if failure.blames_address() => self.give_up(failure).map(|()| None),
            Err(failure) => {
                self.walk.refused(&failure.text);
                Err(Box::new(failure))
            }
        }
    }

    /// Cools down the address that is to blame, so that the next one is asked. While the channel has another address, the
    /// channel itself is not blamed.
    ///
    /// # Errors
    /// Returns the failure where the request must not be sent to another address.
    pub(super) fn give_up(&mut self, failure: Failure) -> Result<(), Box<Failure>> {
        let rotates = failure.rotates_address(self.work);
        self.walk.failed(&failure.text);
        let failure = Box::new(if self.walk.has_more() { failure.of_one_address() } else { failure });
        if !rotates {
            return Err(failure);
        }
        self.last = Some(failure);
        Ok(())
    }

    /// Goes on from an address that has no room, which is no fault of it; the next one may have room.
    pub(super) fn skip(&mut self, failure: Failure) {
        self.walk.refused(&failure.text);
        self.last = Some(Box::new(failure));
    }

    /// Returns the last failure, once all addresses have been asked.
    pub(super) fn exhausted(&mut self) -> Failure {
        let last = self.last.take().map(|last| *last);
        last.unwrap_or_else(|| Failure::local("the site has no address".to_owned()))
    }
}
