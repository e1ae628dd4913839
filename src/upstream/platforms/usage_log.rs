//! Reads the latest lines of an account's own log at its site.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::error::{SiteError, SiteErrorKind};
use super::site_client::SiteClient;
use crate::routing::pricing::usage_record::{self, UsageRecord};
use crate::upstream::{Client, FetchLimits};

/// The limits of one look at a log, all its requests together.
pub const USAGE_LOG_LIMITS: FetchLimits =
    FetchLimits { timeout: Duration::from_secs(8), max_bytes: 2 * 1024 * 1024 };

/// Asks the account's site for the latest lines of its log; where the site can filter, for those of one model.
pub async fn fetch_usage_records(
    client: &Client,
    site_client: &SiteClient,
    model: &str,
    limits: FetchLimits,
) -> Result<Vec<UsageRecord>, SiteError> {
    let Some(log) = &site_client.platform.profile().usage_log else {
        let message = format!("a log of requests is not supported by {}", site_client.platform);
        return Err(SiteError::unsupported(&message));
    };
    let path = log.path.replace("{model}", &utf8_percent_encode(model, NON_ALPHANUMERIC).to_string());
    let site_client = &SiteClient { limits, ..site_client.clone() };
    let asking = async {
        let mut failure = None;
        for scheme in site_client.auth_schemes() {
            let read = match site_client.get(client, &path, &scheme).await {
                Ok(body) => usage_record::read(&body).map_err(|message| {
                    SiteError::new(SiteErrorKind::Malformed, site_client.conceal(message))
                }),
                Err(error) => Err(error),
            };
            match read {
                Ok(lines) => return Ok(lines),
                Err(error) if error.is_missing() => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let unasked = || SiteError::new(SiteErrorKind::Refused, "there is no credential to ask with");
        Err(failure.unwrap_or_else(unasked))
    };
    let timed_out = |_| {
        let message = format!("no log within {} s", limits.timeout.as_secs_f64());
        Err(SiteError::new(SiteErrorKind::Timeout, message))
    };
    tokio::time::timeout(limits.timeout, asking).await.unwrap_or_else(timed_out)
}
