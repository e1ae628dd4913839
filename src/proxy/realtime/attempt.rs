//! Asks one channel to open a socket for a speech conversation.
//!
//! Like any attempt it is settled once: a channel that opens none has failed, and the next one is asked. If a login's
//! token is refused, it is renewed and the channel is asked once more. Once a channel opens a socket, the
//! client is granted its own, and the attempt becomes that of the first response.

use std::mem;
use std::sync::{Arc, Mutex};

use hyper::header::{HeaderName, HeaderValue};

use crate::http::websocket::Handshake;
use crate::proxy::Proxy;
use crate::routing::{CredentialHeaders, Endpoint, encode_component};
use crate::sync::lock;
use crate::time::now_ms;
use crate::upstream::{self, OpenError, RequestBody, UpstreamSocket};

use super::responses::Responses;
use super::session;
use crate::proxy::attempt::{Attempt, Choice, Slots};
use crate::proxy::call::Call;
use crate::proxy::channel_addresses::{ChannelAddresses, usable_credential};
use crate::proxy::client_answer::ClientAnswer;
use crate::proxy::failure::Failure;
use crate::proxy::headers;
use crate::proxy::key::quota::Admission;
use crate::proxy::retry::token_renewal;
use crate::proxy::socket_opener::SocketOpener;

const PATH: &str = "/v1/realtime";
/// The client's headers that are forwarded to the upstream, beside those that always are.
const FORWARDED: [HeaderName; 2] =
    [HeaderName::from_static("openai-beta"), HeaderName::from_static("openai-safety-identifier")];

/// A client that waits for its socket.
pub(in crate::proxy) struct Opening {
    pub(in crate::proxy) call: Arc<Call>,
    opener: Arc<SocketOpener>,
    /// What was counted for the opening, until the attempt takes it over.
    admission: Mutex<Admission>,
    /// The client's handshake, until it is granted.
    handshake: Mutex<Option<Handshake>>,
}

impl Opening {
    pub(in crate::proxy) fn new(mut call: Box<Call>, opener: SocketOpener, handshake: Handshake) -> Self {
        let admission = mem::take(&mut call.admission);
        Self {
            call: Arc::from(call),
            opener: Arc::new(opener),
            admission: Mutex::new(admission),
            handshake: Mutex::new(Some(handshake)),
        }
    }

    /// Asks one channel. When this returns a failure, the attempt is settled.
    pub(in crate::proxy) async fn attempt(
        &self,
        proxy: &Arc<Proxy>,
        choice: &Choice,
        number: u32,
        mut slots: Slots,
    ) -> Result<ClientAnswer, Failure> {
        let mut attempt = Attempt::begin(proxy, &self.call, choice, number, Slots::default());
        attempt.set_admission(lock(&self.admission).clone());
        attempt.set_upstream_path(PATH);
        let mut choice = choice.clone();
        let mut opened = self.connect(proxy, &choice).await;
        if let Err(refusal) = &opened
            && token_renewal::continue_with_new_token(proxy, &self.call, &mut choice, &mut attempt, refusal)
                .await
        {
            opened = self.connect(proxy, &choice).await;
        }
        let socket = match opened {
            Ok(socket) => socket,
            Err(failure) => {
                let failure = failure.redacted(&attempt.secrets());
                let (call, channel) = (&self.call, &choice.channel);
                let failure =
                    failure.in_answer_to(|| call.request_texts(), &call.model, channel, &choice.model);
                attempt.fail(&failure);
                return Err(failure);
            }
        };
        let Some(handshake) = lock(&self.handshake).take() else {
            return Err(Failure::local("the socket was granted before".to_owned()));
        };
        // The socket tells nothing of the channel yet, and may stay open for hours: others may try the channel meanwhile.
        slots.trial = None;
        // From now on only the attempt holds it.
        drop(mem::take(&mut *lock(&self.admission)));
        let responses =
            Responses::new(proxy.clone(), self.call.clone(), self.opener.clone(), choice, attempt);
        let longest = proxy.core.config.request_body_limit;
        let serve = move |client| session::serve(responses, slots, socket, client);
        Ok(handshake.accept(longest, serve).into())
    }

    /// Opens a socket at one of the channel's addresses.
    async fn connect(&self, proxy: &Arc<Proxy>, choice: &Choice) -> Result<UpstreamSocket, Failure> {
        let values = usable_credential(&choice.channel).map_err(|failure| *failure)?;
        let endpoints = &choice.channel.account.site.endpoints;
        let mut addresses = ChannelAddresses::new(&proxy.core, endpoints, self.call.work());
        while let Some(endpoint) = addresses.next_address() {
            let opened = self.connect_to(proxy, choice, endpoint, values).await;
            if let Some(socket) = addresses.record(opened).map_err(|failure| *failure)? {
                return Ok(socket);
            }
        }
        Err(addresses.exhausted())
    }

    async fn connect_to(
        &self,
        proxy: &Arc<Proxy>,
        choice: &Choice,
        endpoint: &Endpoint,
        values: &CredentialHeaders,
    ) -> Result<UpstreamSocket, Failure> {
        let target = endpoint.base.join(&format!("{PATH}{}", self.query(&choice.model)));
        let mut upgrade = upstream::Request::new(hyper::Method::GET, target, RequestBody::empty());
        let site = &choice.channel.account.site;
        upgrade.headers = headers::of_resource(&self.call.headers, &site.custom_headers, values, "*/*");
        for name in FORWARDED {
            if let Some(value) = self.call.headers.get(&name) {
                upgrade.headers.set(name, HeaderValue::clone(value));
            }
        }
        let opened = proxy.core.client.open_socket(&endpoint.base.origin, upgrade).await;
        opened.map_err(|error| match error {
            OpenError::Unreachable(error) => Failure::unanswered(&error),
            OpenError::Refused(refused) => {
                Failure::no_socket(PATH, refused.map(|refused| *refused), now_ms())
            }
        })
    }

    /// Builds the client's query with the model's name at the upstream.
    fn query(&self, model: &str) -> String {
        format!("?model={}{}", encode_component(model), self.call.query.replacen('?', "&", 1))
    }
}
