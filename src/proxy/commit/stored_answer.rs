//! Who may go on from an answer: one that its upstream stores is bound to the key that asked for it and to its channel; one
//! that no upstream stores is marked, to be stored here.

use std::time::Duration;

use crate::dialect::Dialect;
use crate::dialect::answer_id::answer_id;
use crate::dialect::envelope::Thread;
use crate::proxy::attempt::Attempt;
use crate::proxy::client_answer::UnstoredAnswer;
use crate::proxy::operation::Operation;
use crate::proxy::responses::owners;

use super::StartedResponse;

/// How long a complete answer waits for the record of its id. The record is then written a moment later, like the log.
const MAX_WAIT_FOR_RECORD: Duration = Duration::from_millis(250);

impl StartedResponse<'_> {
    /// Whether a client may go on from this answer although its upstream does not keep it.
    fn is_not_stored_upstream(&self) -> bool {
        self.call.shape.dialect == Dialect::Responses && (!self.is_own_dialect || self.accepted.keeps_nothing)
    }

    /// Marks such an answer to be stored here under an id of ours. A converted answer is already written with that id.
    pub(super) fn not_stored(&self) -> Option<UnstoredAnswer> {
        self.is_not_stored_upstream().then(|| UnstoredAnswer { answer_id: self.answer_id.clone() })
    }

    /// Binds an answer that its upstream stores to this channel: no other channel can go on from it. The returned future ends
    /// when the answer may go to the client.
    ///
    /// What is answered in one piece waits for the record of its id, so that the id is found even if the process is killed
    /// right after the answer; not for long, because a database that does not answer must not hold up answers. An answer
    /// in the background waits until the record is on disk: the upstream goes on, and charges for it, whatever becomes of this
    /// process. The record of a stream is written while the stream runs.
    pub(super) fn note_stored(
        &self,
        answer: &[u8],
        attempt: &mut Attempt,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (call, dialect) = (self.call, self.call.shape.dialect);
        let is_stored = match dialect {
            Dialect::Responses => {
                (!call.envelope.forbids_storing || call.envelope.in_background)
                    && !self.is_not_stored_upstream()
            }
            Dialect::Messages => {
                call.envelope.thread != Thread::None && self.is_own_dialect && !self.accepted.keeps_nothing
            }
            _ => false,
        };
        let mut unwritten = None;
        let is_stored = is_stored && call.operation == Operation::Answer;
        if is_stored {
            attempt.note_stored();
        }
        if is_stored && let Some(id) = answer_id(dialect, answer) {
            attempt.bind_answer(&id);
            if dialect == Dialect::Responses {
                let in_background =
                    call.envelope.in_background.then(|| attempt.continue_in_background(&id)).flatten();
                owners::bind(self.proxy, call, attempt.channel(), &id, in_background);
                attempt.bind_items_of(answer);
                let is_waited_for = call.envelope.in_background || !call.envelope.stream;
                unwritten = is_waited_for.then(|| self.proxy.core.store.clone());
            }
        }
        if call.envelope.has_conversation && !self.is_not_stored_upstream() {
            owners::bind_conversation(self.proxy, call, attempt.channel());
        }
        let must_be_on_disk = call.envelope.in_background;
        async move {
            let Some(store) = unwritten else { return };
            if must_be_on_disk {
                store.flush().await;
            } else {
                // After that it is written with the log.
                let _ = tokio::time::timeout(MAX_WAIT_FOR_RECORD, store.flush()).await;
            }
        }
    }
}
