//! Passes the frames of an upstream down to the client of a speech conversation, and tells both what has become of the other.

use std::pin::pin;
use std::time::Duration;

use tokio::select;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout};

use crate::http::websocket::{ClientGone, CloseReason, Sender};
use crate::upstream::{FromUpstream, SocketReceiver};

use super::events::{error_event, kind_among};
use super::responses::Responses;

/// How often a client is pinged.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// How long a conversation may go on: twice as long as at OpenAI.
const LIFETIME: Duration = Duration::from_secs(7200);
/// How long sending the last frame may take.
pub(super) const LAST_FRAME: Duration = Duration::from_secs(2);
pub(super) const GONE: &str = "the upstream closed its WebSocket";
const SILENT: &str = "the upstream has fallen silent";

/// The upstream events that are read: the course of a response, its parts in text and in speech, and transcripts.
const LOOKED_AT: [&str; 9] = [
    "response.created",
    "response.done",
    "error",
    "response.output_text.delta",
    "response.text.delta",
    "response.function_call_arguments.delta",
    "response.output_audio.delta",
    "response.audio.delta",
    TRANSCRIBED,
];
/// What the client has said, in words: the model that hears it is charged apart from responses.
const TRANSCRIBED: &str = "conversation.item.input_audio_transcription.completed";

/// The way down, which goes on until a reason to close both sockets comes up.
pub(super) struct Down<'a> {
    responses: &'a Responses,
    client: &'a mut Sender,
    /// How long an upstream may send nothing while a response is under way.
    longest_silence: Duration,
    /// Whether anything but errors has come: an upstream that refuses its client tells it in the open socket.
    has_served: bool,
}

impl<'a> Down<'a> {
    pub(super) fn new(responses: &'a Responses, client: &'a mut Sender) -> Self {
        let longest_silence = responses.proxy().core.config.proxy.stream_idle_timeout;
        Self { responses, client, longest_silence, has_served: false }
    }

    /// Passes frames until none come any more. `refusals` are error events for requests of the client.
    pub(super) async fn pass(
        mut self,
        upstream: &mut SocketReceiver,
        refusals: &mut mpsc::Receiver<String>,
    ) -> CloseReason {
        let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut over = pin!(sleep(LIFETIME));
        let mut silence = pin!(sleep(self.longest_silence));
        loop {
            let passed = select! {
                biased;
                Some(refusal) = refusals.recv() => sent(self.client.texts([refusal]).await),
                came = upstream.next() => self.pass_frame(came).await,
                () = &mut over => Err(self.end_long_conversation().await),
                () = &mut silence => {
                    self.judge_silence().await.map(|looked_at_next| silence.set(sleep_until(looked_at_next)))
                }
                _ = heartbeat.tick() => sent(self.client.ping().await),
            };
            if let Err(reason) = passed {
                return reason;
            }
        }
    }

    async fn pass_frame(&mut self, came: FromUpstream) -> Result<(), CloseReason> {
        match came {
            FromUpstream::Text(text) => self.pass_event(text, true).await,
            FromUpstream::Binary(bytes) => match String::from_utf8(bytes.into()) {
                // Some clients read binary frames as they do text frames.
                Ok(text) => self.pass_event(text, false).await,
                Err(sound) => self.pass_sound(sound.into_bytes()).await,
            },
            FromUpstream::Closed => Err(self.upstream_ended(None).await),
            FromUpstream::Broken(why) => Err(self.upstream_ended(Some(why)).await),
        }
    }

    async fn pass_sound(&mut self, sound: Vec<u8>) -> Result<(), CloseReason> {
        self.has_served = true;
        self.responses.sign();
        self.responses.proxy().core.metrics.sent_bytes.add(sound.len() as u64);
        sent(self.client.binary(sound.into()).await)
    }

    async fn pass_event(&mut self, mut text: String, is_text: bool) -> Result<(), CloseReason> {
        self.responses.proxy().core.metrics.sent_bytes.add(text.len() as u64);
        let kind = kind_among(text.as_bytes(), &LOOKED_AT);
        self.has_served |= kind != Some("error");
        // Most frames are parts of an output, which need no search.
        if !kind.is_some_and(|kind| kind.ends_with(".delta")) {
            self.responses.hide_secrets_of_event(&mut text);
        }
        self.responses.sign();
        let refused = match kind {
            Some("response.created") => self.responses.begin(&text).await.err(),
            Some("response.done") => {
                self.responses.end(&text);
                None
            }
            // The upstream may refuse what it was asked for: then nothing is to be expected of it.
            Some("error") => {
                self.responses.refused();
                None
            }
            Some(TRANSCRIBED) => self.responses.transcribed(&text).err(),
            Some(part) if part.ends_with(".delta") => {
                self.responses.hear(part, &text);
                None
            }
            _ => None,
        };
        sent(if is_text { self.client.texts([text]).await } else { self.client.binary(text.into()).await })?;
        if matches!(kind, Some("response.done" | "error")) {
            self.responses.notify_done();
        }
        match refused {
            None => Ok(()),
            Some(refusal) => {
                last_words(self.client, refusal.event()).await;
                Err(CloseReason::Policy("a limit of the API key is reached"))
            }
        }
    }

    async fn end_long_conversation(&mut self) -> CloseReason {
        let minutes = LIFETIME.as_secs() / 60;
        let message = format!("A conversation may last at most {minutes} minutes: open a new WebSocket");
        last_words(self.client, error_event("invalid_request_error", "session_expired", &message)).await;
        CloseReason::Done
    }

    /// Returns when to look again, unless the upstream has sent nothing for too long.
    async fn judge_silence(&mut self) -> Result<Instant, CloseReason> {
        let last_sign = self.responses.last_sign();
        if last_sign.is_none_or(|last_sign| last_sign.elapsed() < self.longest_silence) {
            return Ok(last_sign.unwrap_or_else(Instant::now) + self.longest_silence);
        }
        let message = format!("The upstream has sent nothing for {} s", self.longest_silence.as_secs());
        last_words(self.client, error_event("server_error", "upstream_timeout", &message)).await;
        Err(CloseReason::Failed(SILENT))
    }

    /// Tells the client that the upstream has closed its socket. The channel has failed if a response is cut short, or if
    /// nothing but errors came. `why` is the cause where the close was not in order.
    async fn upstream_ended(&mut self, why: Option<String>) -> CloseReason {
        let is_cut_short = self.responses.is_under_way();
        if why.is_none() && self.has_served && !is_cut_short {
            return CloseReason::Done;
        }
        if is_cut_short || !self.has_served {
            let mut why = why.unwrap_or_else(|| GONE.to_owned());
            self.responses.hide_secrets(&mut why);
            self.responses.break_off(&why);
        }
        last_words(
            self.client,
            error_event("server_error", "upstream_closed", "The upstream closed its WebSocket"),
        )
        .await;
        CloseReason::Failed(GONE)
    }
}

/// Sends the last event before the close, if the client takes it soon.
pub(super) async fn last_words(client: &mut Sender, event: String) {
    let _ = timeout(LAST_FRAME, client.texts([event])).await;
}

/// A client that cannot be written to has closed its socket.
fn sent(sent: Result<(), ClientGone>) -> Result<(), CloseReason> {
    sent.map_err(|ClientGone| CloseReason::Theirs)
}
