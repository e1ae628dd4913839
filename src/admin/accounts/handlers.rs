//! `/api/accounts`: the snapshot list, delete and batch.
//!
//! The list is kept: fresh for 15 s, then served stale for up to 90 s while one reload runs behind it. It survives a
//! restart. Every committed change publishes a new routing snapshot, and a list made from an older one is never served:
//! an operator always sees the latest change. A page of the list (`limit`, `offset`; `X-Total-Count` is the number of
//! accounts) is read for each request, with the sites of its accounts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::balance;
use super::list_key::ListKey;
use super::schema;
use super::view::{ListContext, ListedAccount};
use crate::admin::Admin;
use crate::admin::batch::BatchResult;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::Fields;
use crate::admin::paging::{self, Page};
use crate::admin::require_id;
use crate::admin::routes::rebuild::rebuild_best_effort;
use crate::admin::sites::view::SiteView;
use crate::admin::stored_answers;
use crate::admin::timed_cache::Ask;
use crate::core::Core;
use crate::http::{self, Query, Request, Response};
use crate::ids::{AccountId, SiteId};
use crate::jobs::Jobs;
use crate::jobs::balances::income;
use crate::jobs::models::coverage::{Enabled, cover_undiscovered};
use crate::jobs::rebuild_scope::Scope;
use crate::store::Store;
use crate::store::accounts::{self, AccountPatch, AccountRow, AccountStatus};
use crate::store::admin_snapshots::Origin;
use crate::store::sites;
use crate::store::{availability, checkins, spend};
use crate::time::{iso, local_day, local_day_start, now_ms};

const FRESH: Duration = Duration::from_secs(15);
const STALE: Duration = Duration::from_secs(90);

/// The response header that says where the list came from: `miss`, `hit`, `stale` or `refresh`.
const CACHE_HEADER: HeaderName = HeaderName::from_static("x-accounts-snapshot-cache");

/// `GET /api/accounts`
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let page = Page::of(&request.query);
    if !page.is_whole() {
        let (body, total) = read(&admin.core, page).await?;
        let mut response = answer(body, "miss");
        paging::tell_total(&mut response, total);
        return Ok(response);
    }
    admin.read_former_list().await;
    let key = ListKey::of(&admin.core);
    let ask = Ask {
        fresh: FRESH,
        stale: STALE,
        refresh: request.query.is_on("refresh"),
        what: "the list of accounts",
    };
    let core = admin.core.clone();
    let load = async move {
        let origin = Origin::note(&core.store).await?;
        let (body, _) = read(&core, Page::of(&Query::default())).await?;
        stored_answers::put(&core, stored_answers::ACCOUNTS.to_owned(), origin, body.clone());
        Ok(body)
    };
    let (body, origin) = admin.accounts_list.get(&admin.core.background, key, ask, load).await?;
    Ok(answer(body, origin.as_str()))
}

/// `DELETE /api/accounts/{id}`: deletes an account with everything under it; also succeeds if there is no such account.
pub async fn delete(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let scope = Scope::of_accounts_to_delete(&admin.core.store, &[id]).await?;
    accounts::delete(&admin.core.store, id).await?;
    admin.core.publish().await?;
    rebuild_best_effort(&admin.jobs, scope).await;
    Ok(http::json(StatusCode::OK, &json!({ "success": true })))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Enable,
    Disable,
    Delete,
    RefreshBalance,
}

/// `POST /api/accounts/batch`: applies one action to accounts, one after the other, each in its own transaction.
pub async fn batch(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::BATCH, request.json_object().await?);
    let ids = fields.ids()?;
    let action = match fields.text("action")? {
        Some("enable") => Action::Enable,
        Some("disable") => Action::Disable,
        Some("delete") => Action::Delete,
        Some("refreshBalance") => Action::RefreshBalance,
        _ => return Err(fields.unexpected("action").into()),
    };
    let scope = Scope::of_accounts_to_delete(&admin.core.store, &ids).await?;
    let mut result = BatchResult::default();
    for &id in &ids {
        result.add(id, apply(&admin.jobs, id, action).await);
    }
    admin.core.publish().await?;
    // A disabled account keeps its channels and their counters; eligibility skips them.
    if matches!(action, Action::Enable | Action::Delete) {
        rebuild_best_effort(&admin.jobs, scope).await;
    }
    if action == Action::Enable {
        cover_undiscovered(&admin.jobs, Enabled::Accounts(ids));
    }
    Ok(result.into_response())
}

/// Returns the account; fails with 404 if there is none.
pub async fn find(store: &Store, id: AccountId) -> Result<AccountRow> {
    accounts::get(store, id).await?.ok_or_else(|| AdminError::not_found("Account"))
}

async fn apply(jobs: &Arc<Jobs>, id: AccountId, action: Action) -> Result<()> {
    let account = find(&jobs.core.store, id).await?;
    let status = match action {
        Action::Delete => return Ok(accounts::delete(&jobs.core.store, id).await?),
        Action::RefreshBalance => return balance::read(jobs, id).await.map(drop),
        // Enabling does not prove a credential that was found expired.
        Action::Enable if account.status == AccountStatus::Expired => return Ok(()),
        Action::Enable if account.is_found_expired() => AccountStatus::Expired,
        Action::Enable => AccountStatus::Active,
        Action::Disable => AccountStatus::Disabled,
    };
    let mut patch = AccountPatch::default();
    patch.set_status(&account, status);
    Ok(accounts::update(&jobs.core.store, id, patch).await?)
}

fn answer(body: Bytes, cache: &'static str) -> Response {
    let mut response = http::json_bytes(StatusCode::OK, body);
    response.headers_mut().insert(CACHE_HEADER, HeaderValue::from_static(cache));
    response
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<A, S> {
    generated_at: String,
    accounts: A,
    sites: S,
}

/// A list that converts each item only when it is written: a thousand accounts as trees take many times the memory of
/// their text.
struct Each<'a, T, F>(&'a [T], F);

fn each<'a, T, R: Serialize, F: Fn(&'a T) -> R>(rows: &'a [T], view: F) -> Each<'a, T, F> {
    Each(rows, view)
}

impl<'a, T, R: Serialize, F: Fn(&'a T) -> R> Serialize for Each<'a, T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(&self.1))
    }
}

/// Builds the JSON text of a page of the list; returns it with the number of accounts.
async fn read(core: &Core, page: Page) -> Result<(Bytes, usize)> {
    core.store.flush().await;
    let mut sites = sites::list(&core.store).await?;
    let (rows, total) = if page.is_whole() {
        let rows = accounts::list(&core.store).await?;
        let total = rows.len();
        (rows, total)
    } else {
        let rows = accounts::page(&core.store, page.limit(), page.offset()).await?;
        // A page needs the sites of its accounts only.
        let on: HashSet<SiteId> = rows.iter().map(|account| account.site_id).collect();
        sites.retain(|site| on.contains(&site.id));
        (rows, accounts::count(&core.store).await?)
    };
    let with_models: HashSet<AccountId> = availability::accounts_with_models(&core.store).await?;
    let now = now_ms();
    let today = local_day_start(now, &core.config.time_zone);
    let spend = spend::by_account_since(&core.store, today).await?;
    let checkins = checkins::since(&core.store, today).await?;
    let day = local_day(now, &core.config.time_zone).to_string();
    let extra: HashMap<AccountId, Option<&str>> =
        rows.iter().map(|row| (row.id, row.extra.as_deref())).collect();
    let rewards = income::rewards(&checkins, |id| income::stored(extra.get(&id).copied().flatten(), &day));
    let by_id: HashMap<SiteId, _> = sites.iter().map(|site| (site.id, site)).collect();
    let context = ListContext {
        sites: &by_id,
        with_models: &with_models,
        spend: &spend,
        rewards: &rewards,
        live: &core.live,
        now,
    };
    let list = List {
        generated_at: iso(now),
        accounts: each(&rows, |account| ListedAccount::of(account, &context)),
        sites: each(&sites, SiteView::of),
    };
    let body =
        serde_json::to_vec(&list).map_err(|error| AdminError::internal("writing the account list", error))?;
    Ok((Bytes::from(body), total))
}
