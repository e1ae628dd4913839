//! Step 4: what a caller may ask for. A call that is let in counts against its key.

use std::sync::Arc;

use crate::core::Core;
use crate::dialect::stored_files;
use crate::http::Response;
use crate::keys::KeyRejection;
use crate::proxy::Proxy;
use crate::time::now_ms;

use super::auth::Refused;
use super::call::Call;
use super::files;
use super::quota::{self, NotAdmitted};
use super::response_owners;

/// May this caller ask for this model, are the files there that it names, and may it ask once more at
/// all? If so the call counts.
pub(super) async fn admit(proxy: &Arc<Proxy>, call: &mut Call) -> Result<(), Response> {
    if let Some(refusal) = forbidden(&proxy.core, call) {
        return Err(refusal);
    }
    if call.envelope.has_previous || call.envelope.has_conversation {
        Box::pin(response_owners::check(proxy, call)).await?;
    }
    if stored_files::may_be_resolved(call.face.dialect, call.envelope.marks) {
        Box::pin(files::resolve(proxy, call)).await?;
    }
    let Some(key) = &call.caller.key else { return Ok(()) };
    call.admission = quota::admit(&proxy.core, key, &call.model).await.map_err(|refused| match refused {
        NotAdmitted::OverTotal => call.face.reject_caller(&Refused::Rejected(KeyRejection::OverRequests)),
        NotAdmitted::Over(limit) => call.face.over_limit(limit, now_ms()),
        NotAdmitted::Unavailable => call.face.refuse(503, "The request could not be counted", None, None),
    })?;
    Ok(())
}

/// The refusal of a model that this caller may not ask for.
pub(super) fn forbidden(core: &Core, call: &Call) -> Option<Response> {
    let key = call.caller.key.as_ref()?;
    if core.snapshot.load().permits(&call.model, &key.policy) {
        return None;
    }
    let message = format!("Model {} is not allowed for this key", call.model);
    Some(call.face.refuse(403, &message, None, Some("model")))
}
