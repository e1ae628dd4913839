//! A stream for a client that wants one: held until it has shown something that the client would miss.

use std::sync::Arc;

use tokio::time::timeout_at;

use crate::dialect::convert::StreamConverter;
use crate::dialect::judge::Fault;
use crate::dialect::observe::{Phase, StreamProgress};
use crate::dialect::repair::StreamRepair;
use crate::http::{Response, ResponseBody};
use crate::proxy::attempt::Attempt;
use crate::proxy::client_answer::ClientAnswer;
use crate::proxy::failure::Failure;
use crate::proxy::headers;
use crate::proxy::relay::{self, HeldStream, HeldStreamRest};
use crate::proxy::send::{Accepted, Timeouts};

use super::{MAX_HELD, MAX_HOLD, StartedResponse, Uncommittable};

impl<'a> StartedResponse<'a> {
    /// Commits a stream: it is held until it has shown something that a client would miss.
    pub(super) async fn stream(mut self, mut attempt: Box<Attempt>) -> Result<ClientAnswer, Uncommittable> {
        let (client, dialect) = (self.call.shape.dialect, self.accepted.dialect);
        let mut held = if self.is_own_dialect {
            HeldStream::passed(dialect, attempt.counts_text(), self.is_repairable())
        } else {
            HeldStream::converted(self.converter(attempt.model()).await, attempt.counts_text())
        };
        held.take(std::mem::take(&mut self.first));
        let hold_until = held.last_data + MAX_HOLD;
        let is_kept_open = attempt.settings().heartbeats.first.is_some();
        while withheld(&held, &attempt) && held.length < MAX_HELD {
            let more = if is_kept_open {
                self.accepted.next().await
            } else {
                match timeout_at(hold_until, self.accepted.next()).await {
                    Ok(more) => more,
                    Err(_) => break,
                }
            };
            let more = match more {
                Ok(more) => more,
                Err(failure) => return Err(self.uncommittable(attempt, failure)),
            };
            let Some(more) = more else {
                held.finish();
                let is_early = matches!(held.progress().phase(), Phase::Preamble | Phase::Output);
                if is_early && held.failure().is_none() {
                    return Err(self.uncommittable(attempt, Failure::closed_early()));
                }
                break;
            };
            held.take(more);
        }
        // A failure after the first output is reported to the client, even where both arrived at once:
        // what the client sees depends on the order of the events, not on how the network cut them.
        let is_unseen = !held.progress().output_seen() || held.is_unwritten();
        if let Some(error) = held.failure().filter(|_| is_unseen) {
            let failure = Failure::in_body(error.clone(), "stream error");
            return Err(self.uncommittable(attempt, failure));
        }
        if ended_empty(held.progress(), &attempt) {
            return Err(self.uncommittable(attempt, Failure::judged(Fault::Empty.message())));
        }
        let mut response = Response::new(ResponseBody::empty());
        self.put_headers(attempt.channel(), &mut response);
        headers::event_stream(response.headers_mut());
        headers::request_id(client, self.call.shape.id, response.headers_mut());
        let not_stored = self.not_stored();
        if held.failure().is_none() {
            self.note_stored(&held.ready, &mut attempt).await;
            if self.is_repairable()
                && held.progress().lacks_opening()
                && let Some(repair) = StreamRepair::new(dialect, self.reply_context(attempt.model()).await)
            {
                held = held.repaired(repair);
            }
        }
        let Accepted { body, timeouts, .. } = *self.accepted;
        let Timeouts { idle, timer, .. } = timeouts;
        let rest = HeldStreamRest { upstream: body, idle, timer };
        *response.body_mut() = relay::body(client, held, rest, attempt);
        Ok(ClientAnswer { response, not_stored })
    }

    /// Whether missing events may be added to the stream, which must be in the client's own dialect. A stream made in the
    /// background is replayed by its site, event by event with the site's numbers.
    fn is_repairable(&self) -> bool {
        self.is_own_dialect && !self.call.envelope.in_background
    }

    /// Builds the converter that writes a stream in the client's dialect, from its first event on.
    fn converter(&self, model: &str) -> impl Future<Output = StreamConverter> + use<'a> {
        let (from, to) = (self.accepted.dialect, self.call.shape.dialect);
        let reply_context = self.reply_context(model);
        async move { StreamConverter::new(from, to, Arc::new(reply_context.await)) }
    }
}

/// Whether the client would miss nothing yet. Where an empty answer counts as a failure, blank text is nothing yet, and an
/// end without output waits for the usage that may follow it.
fn withheld(held: &HeldStream, attempt: &Attempt) -> bool {
    let progress = held.progress();
    match progress.phase() {
        _ if held.failure().is_some() => false,
        Phase::Preamble => true,
        Phase::Ended => !progress.is_finished() && ended_empty(progress, attempt),
        // What has come may be the beginning of something else, which is written later.
        Phase::Output if held.is_unwritten() => true,
        Phase::Output => !progress.words_seen() && attempt.settings().judge.fails_empty(false, None),
        Phase::Failed(_) => false,
    }
}

/// Whether the stream ended without output and the operator's rules call it empty.
fn ended_empty(progress: &StreamProgress, attempt: &Attempt) -> bool {
    matches!(progress.phase(), Phase::Ended)
        && !progress.words_seen()
        && attempt.settings().judge.fails_empty(false, progress.usage())
}
