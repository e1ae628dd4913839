//! Collects gemini's signatures of calls, which it wants back with the calls. Clients of responses and messages have no
//! place for one, and many of chat do not look where Google puts them (`extra_content`), so that they are kept by the
//! gateway, by the id of the call. Where they are kept, and for how long, is decided elsewhere.

use std::collections::HashMap;

use crate::dialect::Dialect;
use crate::dialect::canonical::{Event, Part, PartKind, Reply};
use crate::dialect::literal::Text;
use crate::dialect::signature::Signature;

/// The id of a call, and its signature.
pub type CallSignature = (String, String);

/// Whether clients of a dialect may send a call back without its signature.
pub(super) fn may_be_lost(to: Dialect) -> bool {
    matches!(to, Dialect::Chat | Dialect::Responses | Dialect::Messages)
}

/// Returns the signatures of the calls of a complete answer.
pub(super) fn of_reply(reply: &Reply<'_>) -> Vec<CallSignature> {
    let parts = reply.candidates.iter().flat_map(|candidate| &candidate.parts);
    let proof = |part: &Part<'_>| match part {
        Part::Call(call) => found(&call.id, call.signature.as_ref()?),
        _ => None,
    };
    parts.filter_map(proof).collect()
}

fn found(id: &Text<'_>, signature: &Signature<'_>) -> Option<CallSignature> {
    match signature {
        Signature::Gemini(proof) if !id.is_empty() => {
            Some((id.decode().into_owned(), proof.decode().into_owned()))
        }
        _ => None,
    }
}

/// Collects the signatures of the calls of a stream.
#[derive(Debug, Default)]
pub(super) struct SignatureCollector {
    calls: HashMap<u32, Text<'static>>,
    pub found: Vec<CallSignature>,
}

impl SignatureCollector {
    pub(super) fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::PartStart { key, part: PartKind::Call { id, signature, .. } } => {
                self.found.extend(signature.as_ref().and_then(|signature| found(id, signature)));
                self.calls.insert(*key, id.clone().into_owned());
            }
            Event::Signature { key, signature } => {
                self.found.extend(self.calls.get(key).and_then(|id| found(id, signature)));
            }
            Event::PartStop { key } => {
                self.calls.remove(key);
            }
            _ => {}
        }
    }
}
