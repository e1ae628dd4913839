//! Reads the price list of a site, as one of its accounts sees it.
//!
//! The list is asked for with each of the account's credentials in turn, and at last without one: many sites show their
//! prices to everybody.

use std::fmt;
use std::time::Duration;

use super::error::{SiteError, SiteErrorKind};
use super::reply;
use super::site_client::{AuthScheme, SiteClient};
use crate::platform::PriceList;
use crate::routing::pricing::{Catalog, read};
use crate::upstream::{Client, FetchLimits};

/// The limits of one look at a price list, all its requests together.
pub const PRICE_LIMITS: FetchLimits =
    FetchLimits { timeout: Duration::from_secs(8), max_bytes: 16 * 1024 * 1024 };

/// Why there is no price list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PriceError {
    /// The site publishes none.
    NotPublished,
    /// One short line for people.
    Failed(String),
}

/// Asks the account's site for its prices.
pub async fn fetch_prices(
    client: &Client,
    site_client: &SiteClient,
    limits: FetchLimits,
) -> Result<Catalog, PriceError> {
    let list = site_client.platform.profile().prices.ok_or(PriceError::NotPublished)?;
    let site_client = &SiteClient { limits, ..site_client.clone() };
    let asking = async {
        let mut failure = None;
        for scheme in site_client.auth_schemes().iter().chain([&AuthScheme::None]) {
            match ask(client, site_client, list, scheme).await {
                Ok(catalog) => return Ok(catalog),
                Err(error) if error.is_missing() => return Err(PriceError::NotPublished),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let message = failure.map_or_else(|| "no request was sent".to_owned(), |error| error.message);
        Err(PriceError::Failed(message))
    };
    let timed_out =
        |_| Err(PriceError::Failed(format!("no price list within {} s", limits.timeout.as_secs_f64())));
    tokio::time::timeout(limits.timeout, asking).await.unwrap_or_else(timed_out)
}

async fn ask(
    client: &Client,
    site_client: &SiteClient,
    list: PriceList,
    scheme: &AuthScheme,
) -> Result<Catalog, SiteError> {
    let read = match list {
        PriceList::Hub => {
            let models = site_client.get(client, "/api/available_model", scheme).await?;
            let groups = site_client.get(client, "/api/user_group_map", scheme).await;
            reply::read(models, move |models| read::hub_list(models, groups.as_deref().ok())).await
        }
        PriceList::Ratios => {
            reply::read(site_client.get(client, "/api/pricing", scheme).await?, read::ratio_list).await
        }
    };
    read.map_err(|message| SiteError::new(SiteErrorKind::Malformed, site_client.conceal(message)))
}

impl fmt::Display for PriceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPublished => "the site publishes no prices",
            Self::Failed(message) => message,
        })
    }
}

impl std::error::Error for PriceError {}
