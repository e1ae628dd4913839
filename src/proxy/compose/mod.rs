//! Step 7: the request as one address of a channel gets it, in one dialect. The body is written by
//! [`prepare`], the headers by [`headers`].

pub(super) mod cache_key;
pub(super) mod code_assist;
pub(super) mod login_headers;
mod native;
pub(super) mod outgoing;
mod prepare;

use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use hyper::header;
use hyper::http::uri::PathAndQuery;

use crate::dialect::canonical::{ConversionError, ReplyContext};
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, embeddings, optional};
use crate::limits::Overloaded;
use crate::platform::CodeAssist;
use crate::proxy::Proxy;
use crate::routing::{BaseUrl, Channel, CredentialHeaders, Endpoint, path_segments};
use crate::time::now_ms;
use crate::upstream::{self, RequestBody};

use super::betas::{self, RefusedBetas};
use super::call::Call;
use super::failure::Failure;
use super::headers;
use super::operation::Operation;
use super::responses::owners;
use super::retry::member_refusals::{AskedModel, Refused};
use super::retry::recovery;
use outgoing::{Destination, PreparedBody};

/// One call on its way to one channel.
pub(in crate::proxy) struct Delivery<'a> {
    pub(in crate::proxy) proxy: &'a Arc<Proxy>,
    pub(in crate::proxy) call: &'a Call,
    pub(in crate::proxy) channel: &'a Arc<Channel>,
    /// The model's name at the upstream.
    pub(in crate::proxy) model: &'a str,
}

/// The interface of an upstream that a request goes to.
#[derive(Clone, Copy)]
pub(in crate::proxy) struct UpstreamRoute {
    pub(in crate::proxy) path: &'static str,
    pub(in crate::proxy) dialect: Dialect,
}

/// A request to one address, and the context in which its answer is written, if the body was converted.
pub(in crate::proxy) struct ComposedRequest {
    pub(in crate::proxy) request: Box<upstream::Request>,
    pub(in crate::proxy) reply_context: Option<Box<ReplyContext>>,
}

impl Delivery<'_> {
    /// Returns the model as it is asked in a dialect.
    pub(in crate::proxy) fn asked_model(&self, dialect: Dialect) -> AskedModel<'_> {
        AskedModel { site: self.channel.account.site.id, dialect, name: self.model }
    }

    /// Writes the body in a dialect, like `prepare`, but keeps a long one from blocking other requests.
    pub(in crate::proxy) async fn prepare_apart(
        &self,
        operation: Operation,
        dialect: Dialect,
    ) -> Result<Result<PreparedBody, ConversionError>, Failure> {
        let (conversions, length) = (&self.proxy.conversions, self.call.body.len());
        let prepare = || self.prepare(operation, dialect);
        if dialect == self.call.shape.dialect {
            return Ok(conversions.read_through(length, prepare).await);
        }
        let room = conversions.request(length).await.map_err(|Overloaded| Failure::overloaded())?;
        Ok(room.convert(prepare))
    }

    /// Attaches to the failure the call that it answers, so that the call's words are recognised in it.
    pub(in crate::proxy) async fn to_the_call(&self, failure: Failure) -> Failure {
        let call = self.call;
        let to =
            || failure.in_answer_to(|| call.request_texts(), &call.envelope.model, self.channel, self.model);
        self.proxy.conversions.read_through(self.call.body.len(), to).await
    }

    /// Writes the body in a dialect.
    pub(in crate::proxy) fn prepare(
        &self,
        operation: Operation,
        dialect: Dialect,
    ) -> Result<PreparedBody, ConversionError> {
        let settings = &self.call.settings;
        let account = &self.channel.account;
        let cache_key = self.cache_key(operation, dialect);
        let destination = Destination {
            platform: account.site.platform,
            dialect,
            model: self.model,
            account_type: match (account.oauth, account.session_scoped) {
                (true, _) => "oauth",
                (false, true) => "session",
                (false, false) => "apikey",
            },
            rules: settings.payload_rules.as_ref(),
            unowned_member: owners::unowned_member(&self.proxy.core, self.call, self.channel),
            tiers: &self.proxy.core.config.proxy.tier_rules,
            max_parts: self.proxy.core.config.proxy.max_request_parts,
            cache_key: cache_key.as_deref(),
        };
        let outgoing = prepare::prepare(self.call, operation, destination)?;
        Ok(match operation {
            Operation::Answer => self.without_unknown(dialect, outgoing),
            _ => outgoing,
        })
    }

    /// Leaves out the members and betas that this model has refused as unknown.
    fn without_unknown(&self, dialect: Dialect, outgoing: PreparedBody) -> PreparedBody {
        let refused = self.proxy.member_refusals.of(self.asked_model(dialect), now_ms());
        let Refused { members: mut unknown, betas } = refused;
        let outgoing = PreparedBody { refused_betas: betas, ..outgoing };
        if dialect == self.call.shape.dialect {
            // A schema that came in this dialect is for its client to mend.
            unknown.retain(|member| *member != optional::OPEN_OBJECTS);
        }
        if unknown.is_empty() {
            return outgoing;
        }
        let mut body = Bytes::from(outgoing.pieces.concat());
        for member in unknown {
            let node = std::str::from_utf8(&body).ok().and_then(|text| Node::parse(text).ok());
            if let Some(less) = node.and_then(|node| optional::without(dialect, &node, member)) {
                body = less;
            }
        }
        PreparedBody { pieces: [body, Bytes::new(), Bytes::new()], ..outgoing }
    }

    /// Returns the key by which OpenAI may find the conversation's cached prompt, where the client could not send one.
    fn cache_key(&self, operation: Operation, dialect: Dialect) -> Option<String> {
        let site = &self.channel.account.site;
        let is_converted = operation == Operation::Answer && dialect != self.call.shape.dialect;
        if !is_converted || !cache_key::is_known(site.platform, dialect) {
            return None;
        }
        let key = cache_key::of(self.call, self.channel.id, self.proxy.core.store.sealer())?;
        (!self.proxy.cache_keys.refuses(site.id, now_ms())).then_some(key)
    }

    /// Builds the request to one address.
    ///
    /// # Errors
    /// Fails when the model's name cannot stand in the path of its dialect, or a schema is too large for the envelope of
    /// Code Assist.
    pub(in crate::proxy) fn compose(
        &self,
        endpoint: &Endpoint,
        credential: &CredentialHeaders,
        route: UpstreamRoute,
        outgoing: PreparedBody,
    ) -> Result<ComposedRequest, ConversionError> {
        let target = self.target(endpoint, route, outgoing.stream)?;
        self.request(target, route.dialect, credential, outgoing)
    }

    fn code_assist(&self) -> Option<&'static CodeAssist> {
        self.channel.account.site.platform.profile().code_assist.as_ref()
    }

    /// Builds path and query at one address. The client's query goes along only in the client's own dialect.
    fn target(
        &self,
        endpoint: &Endpoint,
        route: UpstreamRoute,
        stream: bool,
    ) -> Result<PathAndQuery, ConversionError> {
        let query = if route.dialect == self.call.shape.dialect { self.call.query.as_str() } else { "" };
        Ok(match query {
            _ if self.code_assist().is_some() => {
                endpoint.base.join(code_assist::path(self.call.operation, stream))
            }
            _ if route.dialect == Dialect::Gemini => {
                let base = endpoint.base.native();
                base.join(&self.named_path(&base, stream, query)?)
            }
            "" => endpoint.base.join_known(route.path),
            query => endpoint.base.join(&format!("{}{query}", route.path)),
        })
    }

    fn request(
        &self,
        target: PathAndQuery,
        dialect: Dialect,
        credential: &CredentialHeaders,
        outgoing: PreparedBody,
    ) -> Result<ComposedRequest, ConversionError> {
        let account = &self.channel.account;
        let site = &account.site;
        let PreparedBody {
            pieces,
            stream,
            betas: named_betas,
            refused_betas,
            content_type,
            bare,
            reply_context,
        } = outgoing;
        let pieces = match self.code_assist() {
            Some(api) => code_assist::enveloped(api, self.call.operation, account, self.model, pieces)?,
            None => pieces,
        };
        let own = &self.call.headers;
        let less = bare.then(|| recovery::bare(own, site.platform, dialect));
        let mut request = Box::new(upstream::Request::new(Method::POST, target, RequestBody::from(pieces)));
        request.work = self.call.work();
        let client = headers::ClientHeaders {
            dialect: self.call.shape.dialect,
            headers: less.as_ref().unwrap_or(own),
            agent: self.call.settings.codex_headers.user_agent.as_ref(),
        };
        request.headers = headers::upstream(&client, dialect, stream, account, credential);
        if refused_betas != RefusedBetas::None {
            betas::leave_out(&mut request.headers, &refused_betas);
        }
        let named_betas = named_betas.as_deref().unwrap_or_default();
        let login_beta = login_headers::beta(account).filter(|_| dialect == Dialect::Messages);
        if login_beta.is_some() || !named_betas.is_empty() {
            betas::add(&mut request.headers, login_beta, named_betas);
        }
        login_headers::add(&mut request.headers, account, || {
            cache_key::of(self.call, self.channel.id, self.proxy.core.store.sealer())
        });
        if let Some(content_type) = content_type {
            request.headers.set(header::CONTENT_TYPE, content_type);
        }
        Ok(ComposedRequest { request, reply_context })
    }

    /// Builds Gemini's path, which names the model and the action. Streams are always requested as events.
    ///
    /// # Errors
    /// Fails for a model's name that cannot stand in a path.
    fn named_path(&self, base: &BaseUrl, stream: bool, query: &str) -> Result<String, ConversionError> {
        let (action, query) = match self.call.operation {
            Operation::CountTokens => ("countTokens", query.to_owned()),
            Operation::OfGemini(action) => (action, query.to_owned()),
            Operation::Answer if self.call.shape.dialect == Dialect::Embeddings => {
                (embeddings::SEVERAL, query.to_owned())
            }
            _ if stream => ("streamGenerateContent", format!("?alt=sse{}", query.replacen('?', "&", 1))),
            _ => ("generateContent", query.to_owned()),
        };
        let name = path_segments(self.model)
            .map_err(|message| ConversionError::Invalid { field: "model".to_owned(), message })?;
        // Tuned models are in a collection of their own beside the base models.
        let collection = if name.starts_with("tunedModels/") { "" } else { "models/" };
        let version = self.call.version.as_deref().filter(|_| !base.names_version());
        let version = version.unwrap_or("v1beta");
        Ok(format!("/{version}/{collection}{name}:{action}{query}"))
    }
}
