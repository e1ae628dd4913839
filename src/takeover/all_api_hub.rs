//! Exports of the browser extension All API Hub, versions 1.0 to 4.0.
//!
//! | there | here |
//! |---|---|
//! | an account with `authType` `access_token` or `cookie` | a session at its site; a key where the site has no sessions |
//! | a profile of `apiCredentialProfiles` | an account with an API key |
//! | a quota of 10,000 or more | divided by 500,000: US dollars |
//! | `pinnedAccountIds`, `orderedAccountIds` | accounts are pinned, and listed in this order |
//!
//! The members are those of `src/types/index.ts` in github.com/qixing-jk/all-api-hub.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::draft::{Draft, QUOTA_PER_USD, named, platform_at};
use super::taken::{Kind, TakenOver};
use crate::platform::Platform;
use crate::site_url::SiteUrl;
use crate::time;

/// The members by which a row is recognised as an account of this program.
const MARKS: [&str; 6] = ["site_url", "site_type", "account_info", "cookieAuth", "authType", "sub2apiAuth"];
/// The maximum number of different members listed as not taken; further ones are not named.
const MAX_MEMBERS: usize = 100;
/// Amounts from this number on are in units of quota, not in dollars.
const RAW_QUOTA: f64 = 10_000.0;
/// Members of an account that are taken, or reported separately when they are not.
const TAKEN: [&str; 16] = [
    "id",
    "site_name",
    "site_url",
    "site_type",
    "authType",
    "account_info",
    "cookieAuth",
    "sub2apiAuth",
    "checkIn",
    "disabled",
    "manualBalanceUsd",
    "created_at",
    "notes",
    "access_token",
    "sessionCookie",
    "username",
];
/// The members of accounts and of profiles that are taken, and those of the objects in them.
const OF_ACCOUNTS: &[(&str, &[&str])] = &[
    ("", &TAKEN),
    ("account_info", &["id", "access_token", "username", "quota", "today_quota_consumption"]),
    ("checkIn", &["autoCheckInEnabled"]),
    ("cookieAuth", &["sessionCookie"]),
    ("sub2apiAuth", &["refreshToken", "tokenExpiresAt"]),
];
const OF_PROFILES: &[(&str, &[&str])] = &[("", &["id", "name", "apiType", "baseUrl", "apiKey"])];
/// The members of a document, and of its sections, that are taken, reported separately or of no use here.
const OF_DOCUMENT: &[&str] = &[
    "version",
    "timestamp",
    "type",
    "accounts",
    "data",
    "apiCredentialProfiles",
    "preferences",
    "channelConfigs",
    "tagStore",
];
const OF_SECTIONS: &[(&str, &[&str])] = &[
    (
        "accounts",
        &[
            "accounts",
            "bookmarks",
            "deletedEntryRecords",
            "pinnedAccountIds",
            "orderedAccountIds",
            "last_updated",
            "configVersion",
        ],
    ),
    ("apiCredentialProfiles", &["version", "profiles", "lastUpdated"]),
];
/// Why the other members are not taken.
const UNTAKEN: [(&str, &str); 24] = [
    ("health", "the state of an account: it is checked again"),
    ("exchange_rate", "an exchange rate: amounts are in US dollars here"),
    ("tagIds", "tags of accounts: accounts have none here"),
    ("tags", "tags of accounts: accounts have none here"),
    ("excludeFromTotalBalance", "whether an account counts in the total balance: all accounts do here"),
    ("last_sync_time", "when an account was last read"),
    ("updated_at", "when an account was last changed"),
    ("configVersion", "the format version of that extension's rows"),
    ("notes", "notes"),
    ("createdAt", "when a profile was made"),
    ("updatedAt", "when a profile was last changed"),
    ("emoji", "an icon for the lists of that extension"),
    ("can_check_in", "whether an account had checked in that day"),
    ("supports_check_in", "whether a site has check-ins: it is detected again"),
    ("account_info.today_prompt_tokens", "statistics of a day: they are counted again from here on"),
    ("account_info.today_completion_tokens", "statistics of a day: they are counted again from here on"),
    ("account_info.today_requests_count", "statistics of a day: they are counted again from here on"),
    ("account_info.today_income", "statistics of a day: they are counted again from here on"),
    ("checkIn.enableDetection", "whether a site has check-ins: it is detected again"),
    ("checkIn.siteStatus", "whether an account had checked in that day"),
    ("checkIn.customCheckIn", "a separate page for check-ins: set it as the site's externalCheckinUrl"),
    ("checkIn.isCheckedInToday", "whether an account had checked in that day"),
    ("checkIn.lastCheckInDate", "whether an account had checked in that day"),
    ("checkIn.customCheckInUrl", "a separate page for check-ins: set it as the site's externalCheckinUrl"),
];
/// Sections that are only useful in that program.
const IGNORED: [&str; 3] = ["preferences", "channelConfigs", "tagStore"];

pub(super) fn is(document: &Value) -> bool {
    let is_row = |row: &Value| MARKS.iter().any(|mark| !row[*mark].is_null());
    // The lists of an export without accounts are empty, too.
    let accounts = &document["accounts"]["accounts"];
    if accounts.as_array().is_some_and(Vec::is_empty) && document["version"].is_string() {
        return document["accounts"]["sites"].is_null();
    }
    rows(document).is_some_and(|rows| rows.iter().any(is_row)) || profiles(document).is_some()
}

pub(super) fn read(document: &Value) -> TakenOver {
    let mut draft = Draft::default();
    let arranged = Arranged::of(document);
    for (at, row) in rows(document).into_iter().flatten().enumerate() {
        let place = named(&format!("accounts.accounts[{at}]"), text(row, "site_name"));
        take_account(&mut draft, &place, row, &arranged);
    }
    tell_unknown(&mut draft, document);
    tell_untaken(&mut draft, ("accounts.accounts", "accounts"), rows(document), OF_ACCOUNTS);
    let accounts = draft.accounts();
    let all = rows(document).map_or(0, Vec::len);
    for (at, profile) in profiles(document).into_iter().flatten().enumerate() {
        let place = named(&format!("apiCredentialProfiles.profiles[{at}]"), text(profile, "name"));
        take_profile(&mut draft, &place, profile);
    }
    let place = ("apiCredentialProfiles.profiles", "profiles");
    tell_untaken(&mut draft, place, profiles(document), OF_PROFILES);
    let is_filled = |value: &Value| match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => false,
    };
    if is_filled(&document["accounts"]["bookmarks"]) {
        draft.leave("accounts.bookmarks", "there are no bookmarks here");
    }
    if is_filled(&document["accounts"]["deletedEntryRecords"]) {
        draft.leave("accounts.deletedEntryRecords", "records of what was deleted in that extension");
    }
    for section in IGNORED.into_iter().filter(|section| is_filled(&document[*section])) {
        draft.leave(section, "settings of that extension");
    }
    let is_ignored = |section: &&&str| match **section {
        "accounts.bookmarks" => is_filled(&document["accounts"]["bookmarks"]),
        section => is_filled(&document[section]),
    };
    let ignored = ["accounts.bookmarks", "channelConfigs", "tagStore"];
    let summary = json!({"importedSites": draft.sites(), "importedAccounts": accounts,
        "importedProfiles": draft.accounts() - accounts, "importedApiKeyConnections": draft.tokens(),
        "skippedAccounts": all.saturating_sub(accounts),
        "ignoredSections": ignored.iter().filter(is_ignored).collect::<Vec<_>>()});
    TakenOver { summary: Some(summary), ..draft.finish(Kind::AllApiHub) }
}

fn rows(document: &Value) -> Option<&Vec<Value>> {
    let places = [
        &document["accounts"]["accounts"],
        &document["accounts"],
        &document["data"]["accounts"]["accounts"],
        &document["data"]["accounts"],
    ];
    // An object with `sites` is a document of another program.
    places.into_iter().filter(|_| document["accounts"]["sites"].is_null()).find_map(Value::as_array)
}

fn profiles(document: &Value) -> Option<&Vec<Value>> {
    let places = [
        &document["apiCredentialProfiles"]["profiles"],
        &document["data"]["apiCredentialProfiles"]["profiles"],
    ];
    places.into_iter().find_map(Value::as_array)
}

fn text<'a>(row: &'a Value, name: &str) -> Option<&'a str> {
    row[name].as_str().map(str::trim).filter(|text| !text.is_empty())
}

/// The arrangement of accounts in lists, by their ids in the file.
struct Arranged<'d> {
    pinned: HashSet<&'d str>,
    places: HashMap<&'d str, usize>,
}

impl<'d> Arranged<'d> {
    fn of(document: &'d Value) -> Self {
        let ids = |name: &str| {
            let places = [&document["accounts"][name], &document["data"]["accounts"][name]];
            let list = places.into_iter().find_map(Value::as_array);
            list.into_iter().flatten().filter_map(Value::as_str)
        };
        Self {
            pinned: ids("pinnedAccountIds").collect(),
            places: ids("orderedAccountIds").zip(0..).collect(),
        }
    }
}

fn take_account(draft: &mut Draft, place: &str, row: &Value, arranged: &Arranged) {
    let name = text(row, "site_name").unwrap_or_default();
    let Some(url) = text(row, "site_url") else {
        draft.leave(place, "it has no site_url");
        return;
    };
    let platform = platform_of(text(row, "site_type").unwrap_or_default(), url);
    let credential = match Credential::of(row) {
        Ok(credential) => credential,
        Err(reason) => {
            draft.leave(place, reason);
            return;
        }
    };
    let Some(site) = draft.site(place, platform, &origin(url), name) else { return };
    let has_sessions = platform.profile().management.is_some();
    let credential = Credential { is_key: credential.is_key || !has_sessions, ..credential };
    let user_name = text(&row["account_info"], "username").or_else(|| text(row, "username")).unwrap_or(name);
    let columns = columns(row, &credential, arranged);
    let before = draft.accounts();
    let Some(account) = draft.account(place, site, user_name, credential.text, columns) else { return };
    if draft.accounts() == before {
        draft.leave(place, "the file has this account twice; the first is kept");
    } else if credential.is_key {
        draft.default_token(account, credential.text);
    }
    if text(row, "notes").is_some() {
        draft.leave(format!("{place}, notes"), "notes");
    }
}

/// The credential of an account.
struct Credential<'d> {
    text: &'d str,
    /// Whether it is a key for models, not a login.
    is_key: bool,
}

impl<'d> Credential<'d> {
    /// Returns the credential that the account uses, or why it has none.
    fn of(row: &'d Value) -> Result<Self, &'static str> {
        let cookie = text(&row["cookieAuth"], "sessionCookie").or_else(|| text(row, "sessionCookie"));
        let token = text(&row["account_info"], "access_token").or_else(|| text(row, "access_token"));
        // Files of version 1 have no authType: whichever credential they have was used.
        let (text, is_key) = match row["authType"].as_str().unwrap_or("") {
            "cookie" => (cookie, false),
            "access_token" => (token, false),
            "api_key" => (token, true),
            "" => (token.or(cookie), false),
            "none" => return Err("an account without a credential"),
            _ => return Err("an unknown authType"),
        };
        let text = text.ok_or("the credential that its authType names is missing")?;
        Ok(Self { text, is_key })
    }
}

/// Returns the columns of an account's row.
fn columns(row: &Value, credential: &Credential, arranged: &Arranged) -> Value {
    let info = &row["account_info"];
    let Credential { text: credential, is_key } = *credential;
    let usd = |value: &Value| {
        let amount = value.as_f64().filter(|amount| amount.is_finite()).unwrap_or(0.0);
        if amount >= RAW_QUOTA { amount / QUOTA_PER_USD } else { amount }
    };
    let balance = row["manualBalanceUsd"].as_f64().or_else(|| text(row, "manualBalanceUsd")?.parse().ok());
    let balance = balance.filter(|balance| balance.is_finite()).unwrap_or_else(|| usd(&info["quota"]));
    let mut columns = json!({
        "accessToken": if is_key { "" } else { credential },
        "apiToken": is_key.then_some(credential),
        "balance": balance,
        "balanceUsed": usd(&info["today_quota_consumption"]),
        "status": if row["disabled"] == true { "disabled" } else { "active" },
        "checkinEnabled": !is_key && row["checkIn"]["autoCheckInEnabled"] != false,
        "extraConfig": Value::Object(extra_config(row, is_key)).to_string(),
    });
    let id = row["id"].as_str().unwrap_or_default();
    if arranged.pinned.contains(id) {
        columns["isPinned"] = true.into();
    }
    if let Some(place) = arranged.places.get(id) {
        columns["sortOrder"] = (*place).into();
    }
    if let Some(made) = time::from_json(&row["created_at"]) {
        columns["createdAt"] = time::iso(made).into();
    }
    columns
}

fn extra_config(row: &Value, is_key: bool) -> Map<String, Value> {
    let mut config = Map::new();
    config.insert("credentialMode".to_owned(), (if is_key { "apikey" } else { "session" }).into());
    config.insert("source".to_owned(), "all-api-hub".into());
    if let Some(id) = user_id(&row["account_info"]["id"]) {
        config.insert("platformUserId".to_owned(), id.into());
    }
    if let Some(refresh) = text(&row["sub2apiAuth"], "refreshToken") {
        let expires = time::from_json(&row["sub2apiAuth"]["tokenExpiresAt"]);
        config.insert("sub2apiAuth".to_owned(), json!({"refreshToken": refresh, "tokenExpiresAt": expires}));
    }
    config
}

/// Lists the members of a document and of its sections that are not known.
fn tell_unknown(draft: &mut Draft, document: &Value) {
    for root in [document, &document["data"]] {
        draft.leave_unknown("", root, OF_DOCUMENT);
        for (section, known) in OF_SECTIONS {
            draft.leave_unknown(section, &root[*section], known);
        }
    }
}

/// Lists the members of rows that are not taken, each once with the number of rows that have it.
fn tell_untaken(
    draft: &mut Draft,
    (place, noun): (&str, &str),
    rows: Option<&Vec<Value>>,
    taken: &[(&str, &[&str])],
) {
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows.into_iter().flatten() {
        for (object, taken) in taken {
            let (object, prefix) = match *object {
                "" => (row, String::new()),
                name => (&row[name], format!("{name}.")),
            };
            let members = object.as_object().into_iter().flatten();
            for (name, _) in
                members.filter(|(name, value)| !taken.contains(&name.as_str()) && has_content(value))
            {
                let name: String = name.chars().take(60).collect();
                if left.len() < MAX_MEMBERS || left.contains_key(&format!("{prefix}{name}")) {
                    *left.entry(format!("{prefix}{name}")).or_default() += 1;
                }
            }
        }
    }
    for (member, count) in left {
        let known = UNTAKEN.iter().find(|(known, _)| *known == member);
        let reason = known.map_or("an unknown member", |(_, reason)| *reason);
        draft.leave(format!("{place}[].{member} ({count} {noun})"), reason);
    }
}

/// Whether a member has a value other than false, zero or empty.
fn has_content(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(true) => true,
    }
}

fn take_profile(draft: &mut Draft, place: &str, profile: &Value) {
    let (Some(url), Some(key)) = (text(profile, "baseUrl"), text(profile, "apiKey")) else {
        draft.leave(place, "its baseUrl or its apiKey is missing");
        return;
    };
    let platform = match text(profile, "apiType").unwrap_or_default() {
        "openai" => Platform::OpenAi,
        "anthropic" => Platform::Claude,
        "google" => Platform::Gemini,
        _ => platform_at(url, Platform::OpenAi),
    };
    let name = text(profile, "name").unwrap_or_default();
    let Some(site) = draft.site(place, platform, &origin(url), name) else { return };
    let before = draft.accounts();
    let mut config = json!({"credentialMode": "apikey", "source": "all-api-hub"});
    if let Some(id) = text(profile, "id") {
        config["importedProfileId"] = id.into();
    }
    let columns = json!({"accessToken": "", "apiToken": key, "checkinEnabled": false,
        "extraConfig": config.to_string()});
    let Some(account) = draft.account(place, site, name, key, columns) else { return };
    if draft.accounts() > before {
        draft.default_token(account, key);
    } else {
        draft.leave(place, "the file has this key twice; the first is kept");
    }
}

/// Returns the platform by its name there or by the site's address, else the one most common for such sites.
fn platform_of(kind: &str, url: &str) -> Platform {
    let kind = kind.to_ascii_lowercase();
    if let Some(platform) = Platform::parse(&kind) {
        return platform;
    }
    let otherwise = match &kind {
        kind if kind.contains("anyrouter") => Platform::AnyRouter,
        kind if kind.contains("done") => Platform::DoneHub,
        _ => Platform::NewApi,
    };
    platform_at(url, otherwise)
}

/// Returns an address without its path, because the stored address is often that of a page.
fn origin(url: &str) -> String {
    let Ok(parsed) = SiteUrl::parse(url) else { return url.to_owned() };
    let canonical = parsed.canonical();
    canonical.strip_suffix(parsed.path()).map_or(canonical.clone(), str::to_owned)
}

fn user_id(id: &Value) -> Option<i64> {
    let id = id.as_i64().or_else(|| id.as_str()?.trim().parse().ok());
    id.filter(|id| *id > 0)
}
