//! Asks one channel to take a batch: its requests name the upstream's model, and for OpenAI's interface the file that holds
//! them is uploaded first.
//!
//! Like any attempt it is settled once. It goes on when its client hangs up: a batch that an upstream has taken is stored, so
//! that it is found again and paid for. A site that lacks one of the paths is not at fault, and the next channel is asked.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use ring::rand::{SecureRandom, SystemRandom};

use crate::dialect::batch::{BatchApi, BatchRequests, object_with};
use crate::dialect::{Dialect, judge, video};
use crate::hex;
use crate::http::{self, Response};
use crate::proxy::Proxy;
use crate::proxy::attempt::{Attempt, Choice, Slots};
use crate::proxy::betas;
use crate::proxy::call::Call;
use crate::proxy::channel_addresses::{ChannelAddresses, usable_credential};
use crate::proxy::client_answer::ClientAnswer;
use crate::proxy::commit::judged;
use crate::proxy::compose::login_headers;
use crate::proxy::failure::Failure;
use crate::proxy::headers;
use crate::proxy::redaction;
use crate::proxy::retry::token_renewal;
use crate::proxy::send::{LimitRecorder, Timeouts, answered, read_object};
use crate::routing::{Channel, CredentialHeaders, Endpoint, encode_component};
use crate::store::batches::{self, BatchPlace};
use crate::time::now_ms;
use crate::upstream::{self, AnswerHead, RequestBody};

use super::mapping::{self, SURFACE};
use super::watch::FIRST_LOOK;

const FILES: &str = "/v1/files";
/// The maximum time for removing a file that nobody needs.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// A batch to be created.
pub(in crate::proxy) struct NewBatch {
    pub(in crate::proxy) call: Arc<Call>,
    pub(super) api: BatchApi,
    pub(super) requests: BatchRequests,
    /// The text that the requests were read from: a file, or the body.
    pub(super) text: Bytes,
    /// The client's object and the id of its file, for OpenAI's interface.
    pub(super) object: Bytes,
    pub(super) input_file_id: Option<String>,
}

/// One request to one address.
struct UpstreamCall {
    method: Method,
    path: String,
    /// The path without ids, for messages.
    label: &'static str,
    content_type: HeaderValue,
    body: RequestBody,
}

impl NewBatch {
    /// Asks one channel. When this returns a failure, the attempt is settled.
    pub(in crate::proxy) async fn attempt(
        self: &Arc<Self>,
        proxy: &Arc<Proxy>,
        choice: &Choice,
        number: u32,
        slots: Slots,
    ) -> Result<ClientAnswer, Failure> {
        let mut attempt = Attempt::begin(proxy, &self.call, choice, number, slots);
        attempt.set_upstream_path(self.call.operation.path(self.call.shape.dialect));
        let (batch, making, choice) = (self.clone(), proxy.clone(), choice.clone());
        let made = async move { batch.make(&making, choice, attempt).await };
        let made = proxy.core.background.run_to_completion("the creation of a batch", Box::pin(made)).await;
        match made {
            Ok(made) => made.map(ClientAnswer::from),
            Err(why) => Err(Failure::local(why.to_string())),
        }
    }

    async fn make(
        &self,
        proxy: &Arc<Proxy>,
        mut choice: Choice,
        mut attempt: Box<Attempt>,
    ) -> Result<Response, Failure> {
        let mut made = self.ask(proxy, &choice).await;
        if let Err(refusal) = &made
            && token_renewal::continue_with_new_token(proxy, &self.call, &mut choice, &mut attempt, refusal)
                .await
        {
            made = self.ask(proxy, &choice).await;
        }
        let (head, object) = match made {
            Ok(made) => made,
            Err(failure) => {
                let failure = failure.redacted(&attempt.secrets());
                let (call, channel) = (&self.call, &choice.channel);
                let failure = failure
                    .in_answer_to(|| call.request_texts(), &call.envelope.model, channel, &choice.model)
                    .of_surface();
                attempt.fail(&failure);
                return Err(failure);
            }
        };
        let (secrets, shape) = (attempt.secrets(), self.call.shape);
        let object = redaction::of_object(object, &secrets);
        match self.store(proxy, &choice, &mut attempt, &object).await {
            Ok(shown) => {
                attempt.succeed(None);
                let mut response = http::json_bytes(StatusCode::OK, Bytes::from(shown));
                let repeats = |value: &[u8]| secrets.is_in(value);
                headers::downstream(&head.headers, repeats, response.headers_mut());
                headers::request_id(shape.dialect, shape.id, response.headers_mut());
                Ok(response)
            }
            Err(why) => {
                // The upstream works the batch off all the same: an operator may find it there.
                let site = &choice.channel.account.site.name;
                log::error!("batch {:?} of site {site} could not be stored: {why}", video::id(&object));
                let why = "The batch was created, but its id could not be stored";
                attempt.fail(&Failure::local(why.to_owned()));
                Ok(shape.creation_lost(why))
            }
        }
    }

    /// Stores which account has the batch before the client is answered: an id that was given out survives a kill. Returns
    /// the object as the client sees it.
    async fn store(
        &self,
        proxy: &Proxy,
        choice: &Choice,
        attempt: &mut Attempt,
        object: &Bytes,
    ) -> Result<String, String> {
        let text = std::str::from_utf8(object).map_err(|_| "its object is not UTF-8".to_owned())?;
        let place = BatchPlace {
            public_id: mapping::new_id(self.api)
                .ok_or_else(|| "the operating system gives no random bytes for an id".to_owned())?,
            api: self.api.id().to_owned(),
            upstream_id: video::id(object).ok_or_else(|| "it has no id".to_owned())?,
            account_id: choice.channel.account.id,
            token_id: choice.channel.token_id,
            channel_id: choice.channel.id,
            model_requested: self.call.envelope.model.clone(),
            input_file_id: self.input_file_id.clone(),
            row: attempt.book_later().ok_or_else(|| "its call has no name".to_owned())?,
        };
        let shown = mapping::public_object(
            &proxy.core,
            &place,
            text,
            &mapping::base(&proxy.core, &self.call.headers),
        );
        let (store, now) = (&proxy.core.store, now_ms());
        let stored = batches::insert(store, place, text.to_owned(), now + FIRST_LOOK, now).await;
        stored.map(|()| shown).map_err(|error| error.to_string())
    }

    /// Creates the batch at one of the channel's addresses.
    async fn ask(&self, proxy: &Arc<Proxy>, choice: &Choice) -> Result<(AnswerHead, Bytes), Failure> {
        let channel = &choice.channel;
        let values = usable_credential(channel).map_err(|failure| *failure)?;
        let text = self.requests.with_model(&self.text, &choice.model);
        let endpoints = &channel.account.site.endpoints;
        let mut addresses = ChannelAddresses::new(&proxy.core, endpoints, self.call.work());
        while let Some(endpoint) = addresses.next_address() {
            let address = Address { proxy, call: &self.call, channel, endpoint, values };
            let made = match self.api {
                BatchApi::Anthropic => address.create(self.path(), text.clone()).await,
                BatchApi::OpenAi => address.upload_and_create(&self.object, text.clone()).await,
            };
            if let Some(made) = addresses.record(made).map_err(|failure| *failure)? {
                return Ok(made);
            }
        }
        Err(addresses.exhausted())
    }

    fn path(&self) -> &'static str {
        self.call.operation.path(self.call.shape.dialect)
    }
}

/// One address of the channel, with all that requests to it need.
struct Address<'a> {
    proxy: &'a Arc<Proxy>,
    call: &'a Call,
    channel: &'a Arc<Channel>,
    endpoint: &'a Endpoint,
    values: &'a CredentialHeaders,
}

impl Address<'_> {
    /// Creates a batch from an object, which is sent unchanged.
    async fn create(&self, path: &'static str, object: Bytes) -> Result<(AnswerHead, Bytes), Failure> {
        let json = HeaderValue::from_static("application/json");
        let path_and_query = format!("{path}{}", self.call.query);
        let made = self
            .send(UpstreamCall {
                method: Method::POST,
                path: path_and_query,
                label: path,
                content_type: json,
                body: RequestBody::from(object),
            })
            .await?;
        unnamed(&made.1).map_or(Ok(made), Err)
    }

    /// Uploads the file, then creates the batch that names it. A file for which no batch was created is removed again.
    async fn upload_and_create(&self, object: &Bytes, text: Bytes) -> Result<(AnswerHead, Bytes), Failure> {
        // No work is done on a file that no batch names: it may be sent once more, there and elsewhere.
        let (_, uploaded) =
            self.send(upload(text).map_err(Failure::local)?).await.map_err(Failure::refused)?;
        if let Some(failure) = unnamed(&uploaded) {
            return Err(failure.refused());
        }
        let file = video::id(&uploaded).unwrap_or_default();
        let object = object_with(&String::from_utf8_lossy(object), &[("input_file_id", &file)]);
        let made = self.create("/v1/batches", Bytes::from(object)).await;
        if made.is_err() {
            let removal = self.send(UpstreamCall {
                method: Method::DELETE,
                path: format!("{FILES}/{}", encode_component(&file)),
                label: "/v1/files/{id}",
                content_type: HeaderValue::from_static("application/json"),
                body: RequestBody::empty(),
            });
            // A file that stays does no harm.
            drop(tokio::time::timeout(REMOVAL_TIMEOUT, removal).await);
        }
        made
    }

    async fn send(&self, asked: UpstreamCall) -> Result<(AnswerHead, Bytes), Failure> {
        let Self { proxy, call, channel, endpoint, values } = *self;
        let UpstreamCall { method, path, label, content_type, body } = asked;
        let (dialect, account) = (call.shape.dialect, &channel.account);
        let is_creation = label != FILES && method == Method::POST;
        let mut request = Box::new(upstream::Request::new(method, endpoint.base.join(&path), body));
        let agent = call.settings.codex_headers.user_agent.as_ref();
        let client = headers::ClientHeaders { dialect, headers: &call.headers, agent };
        request.headers = headers::upstream(&client, dialect, false, account, values);
        request.headers.set(CONTENT_TYPE, content_type);
        if let Some(beta) = login_headers::beta(account).filter(|_| dialect == Dialect::Messages) {
            betas::add(&mut request.headers, Some(beta), &[]);
        }
        if is_creation {
            call.trace.request_sent(&endpoint.base, label, &request);
        }
        let timeouts = Timeouts::of(proxy, &call.settings, call.timer.clone());
        let sending = proxy.core.client.send_boxed(&endpoint.base.origin, request);
        let limits = Some(LimitRecorder::of(proxy, account));
        let (head, body) = answered(pin!(sending), label, &timeouts, &call.trace, limits).await?;
        Ok((head, read_object(body).await?))
    }
}

/// Returns the failure of an answer that is no object with an id.
fn unnamed(body: &Bytes) -> Option<Failure> {
    if video::id(body).is_some() {
        return None;
    }
    let no_id = || Failure::judged("the upstream's answer has no id".to_owned());
    Some(judge::object(SURFACE, body).err().map_or_else(no_id, judged))
}

/// Builds the upload of a batch's requests as a form; the error is for the log.
fn upload(text: Bytes) -> Result<UpstreamCall, String> {
    let mut bits = [0; 16];
    let random = SystemRandom::new().fill(&mut bits);
    random.map_err(|_| "the operating system gives no random bytes for a boundary".to_owned())?;
    let boundary = format!("switchyard-{}", hex::encode(&bits));
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"batch.jsonl\"\r\n\
         Content-Type: application/jsonl\r\n\r\n"
    );
    let content_type = HeaderValue::try_from(format!("multipart/form-data; boundary={boundary}"))
        .map_err(|_| "the boundary cannot be sent in a header".to_owned())?;
    let tail = Bytes::from(format!("\r\n--{boundary}--\r\n"));
    Ok(UpstreamCall {
        method: Method::POST,
        path: FILES.to_owned(),
        label: FILES,
        content_type,
        body: RequestBody::from([Bytes::from(head), text, tail]),
    })
}
