//! Step 4: what a caller may ask for. An admitted call counts against its key.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use crate::core::Core;
use crate::dialect::{envelope, stored_files};
use crate::http::Response;
use crate::proxy::Proxy;
use crate::time::now_ms;

use super::auth::{AuthRefusal, Caller};
use super::call::{Call, Head};
use super::files;
use super::key::quota::{self, AdmissionRefusal};
use super::reply::ErrorShape;
use super::responses::owners;

/// Checks that this caller may ask for this model, that the files it names exist, and that its key has a request left;
/// counts the call.
pub(super) async fn admit(proxy: &Arc<Proxy>, call: &mut Call) -> Result<(), Response> {
    if let Some(refusal) = forbidden(proxy, call).await {
        return Err(refusal);
    }
    if owners::may_go_on(call) {
        Box::pin(owners::check(proxy, call)).await?;
    }
    if stored_files::may_be_resolved(call.shape.dialect, call.envelope.marks) {
        Box::pin(files::resolve(proxy, call)).await?;
    }
    let Some(key) = &call.caller.key else { return Ok(()) };
    call.admission = quota::admit(&proxy.core, key, &call.model).await.map_err(|refused| match refused {
        AdmissionRefusal::OverTotal(why) => call.shape.reject_caller(&AuthRefusal::Rejected(why)),
        AdmissionRefusal::Over(limit) => call.shape.over_limit(limit, now_ms()),
        AdmissionRefusal::StorageFull => call.shape.storage_full(),
        AdmissionRefusal::Unavailable => call.shape.refuse(503, quota::NOT_COUNTED, None, None),
    })?;
    Ok(())
}

/// Reads and admits a call that routing knows by its model alone: nothing of its body goes upstream.
pub(super) async fn admit_model(
    proxy: &Arc<Proxy>,
    head: Head<'_>,
    model: &str,
    shape: ErrorShape,
) -> Result<Box<Call>, Response> {
    // A body that every dialect accepts as a request.
    let messages = json!([{ "role": "user", "content": "" }]);
    let body = Bytes::from(json!({ "model": model, "messages": messages }).to_string());
    let call = Call::read(proxy, head, body);
    let mut call = call.map_err(|(_, error)| shape.refuse(400, &error.message, None, error.field))?;
    admit(proxy, &mut call).await?;
    Ok(call)
}

/// Builds the refusal of a model that this caller may not ask for: itself, as an alternative (`models`, `fallbacks`), or
/// for a tool.
pub(super) async fn forbidden(proxy: &Proxy, call: &Call) -> Option<Response> {
    let of_tools = if call.caller.policy().restricts_models() {
        let read = || envelope::models_of_tools(std::str::from_utf8(&call.body).unwrap_or_default());
        match proxy.conversions.read_through(call.body.len(), read).await {
            Ok(models) => models,
            Err(error) => return Some(call.shape.refuse(400, &error.message, None, error.field)),
        }
    } else {
        Vec::new()
    };
    let others = call.envelope.other_models.iter().chain(&of_tools);
    let named = std::iter::once(&*call.model).chain(others.map(String::as_str));
    let message = forbidden_model(&proxy.core, &call.caller, named)?;
    Some(call.shape.refuse(403, &message, None, Some("model")))
}

/// Returns the message that refuses the first of these models that this caller may not ask for.
pub(super) fn forbidden_model<'m>(
    core: &Core,
    caller: &Caller,
    models: impl IntoIterator<Item = &'m str>,
) -> Option<String> {
    let key = caller.key.as_ref()?;
    let snapshot = core.snapshot.load();
    let model = models.into_iter().find(|model| !snapshot.permits(model, &key.policy))?;
    Some(format!("Model {model} is not allowed for this key"))
}
