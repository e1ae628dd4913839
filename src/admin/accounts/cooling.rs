//! `GET /api/accounts/cooling`: the accounts with channels that cool down, or that their provider limits, each member of a
//! route unit by itself. The list is made from memory and has one entry per account, so it is short however many models an
//! account has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::admin::Admin;
use crate::admin::errors::Result;
use crate::http::{self, Request, Response};
use crate::routing::{Account, cooling_until, limited_until, serving};
use crate::time::{self, Millis, iso};

/// Maximum number of models that are named for an account.
const NAMED: usize = 5;

/// An account with channels that cool or are limited.
struct CoolingAccount<'a> {
    account: &'a Account,
    /// The upstream's names of the models of these channels.
    models: BTreeSet<&'a str>,
    /// When the last of the channels may be used again.
    until: Millis,
}

pub async fn list(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let (snapshot, now) = (admin.core.snapshot.load_full(), time::now_ms());
    let mut accounts = BTreeMap::new();
    for channel in snapshot.channels().flat_map(serving) {
        let Some(until) = cooling_until(channel, now).max(limited_until(channel, now)) else { continue };
        let account = &*channel.account;
        let cooling = accounts.entry(account.id);
        let cooling = cooling.or_insert(CoolingAccount { account, models: BTreeSet::new(), until });
        cooling.until = cooling.until.max(until);
        cooling.models.extend(channel.source_model.as_ref().map(|model| model.as_str()));
    }
    let list: Vec<Value> = accounts.values().map(CoolingAccount::to_json).collect();
    Ok(http::json(StatusCode::OK, &list))
}

// === impl CoolingAccount ===

impl CoolingAccount<'_> {
    fn to_json(&self) -> Value {
        json!({
            "accountId": self.account.id,
            "username": self.account.username,
            "siteId": self.account.site.id,
            "siteName": self.account.site.name,
            "modelCount": self.models.len(),
            "models": self.models.iter().take(NAMED).collect::<Vec<_>>(),
            "until": iso(self.until),
        })
    }
}
