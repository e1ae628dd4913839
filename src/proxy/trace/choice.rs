//! Which calls are recorded, and what is known of a call at its beginning.

use crate::core::Core;
use crate::dialect::Dialect;
use crate::ids::{ChannelId, ChannelOrMember};
use crate::routing::Channel;
use crate::store::debug_traces::DebugTrace;
use crate::time::now_ms;

use super::record::Trace;
use super::redact::Secrets;
use crate::proxy::call::Call;
use crate::proxy::operation::Operation;

/// Begins the trace of a call, if the operator asked for such calls; else returns an empty trace.
pub(in crate::proxy) fn trace_of(core: &Core, call: &Call) -> Trace {
    let settings = &call.settings;
    let Some(rules) = &settings.trace else { return Trace::default() };
    let client_kind = Some(call.client.family.id().to_owned());
    let session_id = call.client.session.as_deref().map(str::to_owned);
    if !rules.wants(&call.model, client_kind.as_deref(), session_id.as_deref()) {
        return Trace::default();
    }
    let mut secrets = Secrets::default();
    for name in ["authorization", "x-api-key", "x-goog-api-key"] {
        let value = call.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        secrets.add(value.rsplit(' ').next().unwrap_or_default());
    }
    if let Some(token) = call.presented.as_ref().and_then(|value| value.to_str().ok()) {
        secrets.add(token.rsplit(' ').next().unwrap_or_default());
    }
    secrets.add(&settings.proxy_token);
    secrets.add(&settings.auth_token);
    let now = now_ms();
    let trace = DebugTrace {
        downstream_path: asked_path(call),
        client_kind,
        session_id,
        trace_hint: Some(call.shape.id.as_str().to_owned()),
        requested_model: Some(call.model.to_string()),
        downstream_api_key_id: call.key_id,
        sticky_session_key: call.session.as_ref().map(|session| session.conversation().to_string()),
        sticky_hit_channel_id: sticky_hit(core, call),
        request_headers_json: rules.headers.then(|| secrets.headers(&call.headers)),
        final_status: Some("failed"),
        created_at: now,
        updated_at: now,
        ..DebugTrace::default()
    };
    Trace::begin(rules.clone(), core.store.telemetry().clone(), trace, secrets, &call.body)
}

/// Returns the requested path. Gemini's names the model and the action.
fn asked_path(call: &Call) -> String {
    let path = call.operation.path(call.shape.dialect);
    let action = match call.operation {
        _ if call.shape.dialect != Dialect::Gemini => return path.to_owned(),
        Operation::CountTokens => "countTokens",
        Operation::OfGemini(action) => action,
        _ if call.envelope.stream => "streamGenerateContent",
        _ => "generateContent",
    };
    let version = call.version.as_deref().unwrap_or("v1beta");
    format!("/{version}/models/{}:{action}", call.model)
}

/// Returns the channel that served the conversation last; for a member of a route unit, the channel that stands for the unit.
fn sticky_hit(core: &Core, call: &Call) -> Option<ChannelId> {
    match call.session.as_ref()?.channel(core)? {
        ChannelOrMember::Channel(id) => Some(id),
        ChannelOrMember::Member(account) => {
            let snapshot = core.snapshot.load();
            let found = snapshot.lookup(&call.envelope.model, call.caller.policy())?;
            let has_it =
                |channel: &Channel| channel.unit.members().iter().any(|member| member.account.id == account);
            found.route.channels.iter().find(|channel| has_it(channel)).map(|channel| channel.id)
        }
    }
}
