//! `/api/settings/system-proxy/test`: tests whether an outbound proxy works.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::http::{Request as Outgoing, Uri};
use serde_json::json;
use tokio::time::Instant;

use super::schema;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid};
use crate::admin::secrets;
use crate::http::{self, Request, Response};
use crate::routing::{BaseUrl, OutboundProxy};
use crate::time::measured_ms;
use crate::upstream::FetchLimits;

const LIMITS: FetchLimits = FetchLimits { timeout: Duration::from_secs(15), max_bytes: 1024 * 1024 };

/// `POST /api/settings/system-proxy/test`: sends one GET through the proxy. Any answer shows that the proxy works; no
/// answer is a 502 with the reason.
pub async fn test(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::PROXY_TEST, request.json_object().await?);
    let saved = admin.core.settings.load().system_proxy_url.clone().unwrap_or_default();
    let has_saved = !saved.is_empty();
    let sent = fields.text("proxyUrl")?.map(|sent| Some(sent.trim().to_owned()));
    let url = secrets::sent_proxy(sent, Some(&saved))?.flatten().unwrap_or(saved);
    let url = url.trim_end_matches('/');
    if url.is_empty() {
        let expected = if has_saved {
            "the address of a proxy, or nothing for the saved one"
        } else {
            "the address of a proxy, since none is saved"
        };
        return Err(Invalid::field("proxyUrl", expected).into());
    }
    let proxy = OutboundProxy::parse(url)
        .map_err(|why| Invalid::field("proxyUrl", &format!("the address of a proxy: {why}")))?;
    let probe_url = admin.core.config.connectivity_url.as_str();
    let unusable = |why: String| AdminError::internal("reading CONNECTIVITY_TEST_URL", why);
    let probe = BaseUrl::parse(probe_url, Some(Arc::new(proxy))).map_err(unusable)?;
    let asked = Outgoing::get(Uri::from(probe.join(""))).body(Bytes::new());
    let asked = asked.map_err(|error| unusable(error.to_string()))?;
    let began = Instant::now();
    let answer = admin.core.client.fetch_without_redirects(&probe, asked, LIMITS).await;
    let latency = measured_ms(began.elapsed());
    let answer = answer.map_err(|error| AdminError::new(StatusCode::BAD_GATEWAY, error.to_string()))?;
    let body = json!({
        "success": true,
        "proxyUrl": secrets::mask_proxy_url(url),
        "reachable": true,
        "ok": answer.status().is_success(),
        "statusCode": answer.status().as_u16(),
        "latencyMs": latency,
        "probeUrl": probe_url,
        // Redirects are not followed, so the final address is the requested one.
        "finalUrl": probe_url,
    });
    Ok(http::json(StatusCode::OK, &body))
}
