//! The request and response of the search.

use crate::admin::accounts::schema::ACCOUNT;
use crate::admin::checkins::schema::CHECKIN_LOG;
use crate::admin::logs::schema::LOG_ITEM;
use crate::admin::schema::Shape::*;
use crate::admin::schema::{Object, Operation, has, may, op};
use crate::admin::sites::schema::SITE;
use crate::admin::tokens::schema::LISTED_TOKEN;

pub static OPERATIONS: &[Operation] =
    &[op("POST /api/search", "Search sites, accounts, tokens, logs and models for a text")
        .takes(&SEARCH)
        .gives(Of(&FOUND))];

pub static SEARCH: Object =
    Object::new("Search", &[may("query", Text).about("At most 200 characters"), may("limit", Id)]);

static FOUND: Object = Object::new(
    "Found",
    &[
        has("accounts", List(&Of(&FOUND_ACCOUNT))),
        has("accountTokens", List(&Of(&LISTED_TOKEN))),
        has("sites", List(&Of(&SITE))),
        has("checkinLogs", List(&Of(&CHECKIN_LOG))),
        has("proxyLogs", List(&Of(&LOG_ITEM))),
        has("models", List(&Of(&FOUND_MODEL))),
    ],
);

static FOUND_ACCOUNT: Object =
    Object::with("FoundAccount", &[&ACCOUNT], &[has("segment", Text), has("site", OrNull(&Of(&FOUND_SITE)))]);

static FOUND_SITE: Object = Object::new(
    "FoundSite",
    &[has("id", Id), has("name", Text), has("url", Text), has("platform", Text), has("status", Text)],
);

static FOUND_MODEL: Object = Object::new(
    "FoundModel",
    &[has("name", Text), has("accountCount", Count), has("tokenCount", Count), has("siteCount", Count)],
);
