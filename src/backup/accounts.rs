//! Accounts in documents: some columns of ours are members of `extraConfig` there, a JSON text.

use serde_json::{Map, Value, json};

use crate::json_number::exact_integer;
use crate::store::Store;
use crate::takeover;
use crate::time::{self, iso};

/// The members of `extraConfig` that are columns here, unchanged.
const PLAIN: &[&str] = &["credentialMode", "platformUserId", "proxyUrl", "useSystemProxy"];
/// The objects in `extraConfig` whose members are columns: each member, and the column's name in a row.
const NESTED: &[(&str, &[(&str, &str)])] = &[
    (
        "autoRelogin",
        &[("username", "loginUsername"), ("password", "loginPassword"), ("updatedAt", "loginUpdatedAt")],
    ),
    ("sub2apiAuth", &[("refreshToken", "sub2apiRefreshToken"), ("tokenExpiresAt", "sub2apiTokenExpiresAt")]),
    (
        "oauth",
        &[
            ("refreshToken", "refreshToken"),
            ("idToken", "idToken"),
            ("providerData", "providerData"),
            ("tokenExpiresAt", "tokenExpiresAt"),
            ("tokenIssuedAt", "tokenIssuedAt"),
        ],
    ),
    (
        "runtimeHealth",
        &[
            ("state", "healthState"),
            ("reason", "healthReason"),
            ("source", "healthSource"),
            ("checkedAt", "healthCheckedAt"),
        ],
    ),
];
/// The columns that hold times.
const MOMENTS: &[&str] =
    &["loginUpdatedAt", "healthCheckedAt", "tokenExpiresAt", "tokenIssuedAt", "sub2apiTokenExpiresAt"];
/// Times that documents contain as numbers of milliseconds.
const AS_NUMBERS: &[&str] = &["tokenExpiresAt", "tokenIssuedAt", "sub2apiTokenExpiresAt"];

/// Moves the columns of a row into `extraConfig`.
pub fn nest(row: &mut Map<String, Value>) {
    let mut config = match row.remove("extra") {
        Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or_default(),
        _ => Map::new(),
    };
    for name in PLAIN {
        let value = row.remove(*name).unwrap_or_default();
        if !matches!(&value, Value::Null | Value::Bool(false)) && value != "auto" {
            config.insert((*name).to_owned(), value);
        }
    }
    for (object, members) in NESTED {
        let mut inner = match config.remove(*object) {
            Some(Value::Object(inner)) => inner,
            _ => Map::new(),
        };
        for (member, column) in *members {
            let mut value = row.remove(*column).unwrap_or_default();
            if AS_NUMBERS.contains(column) {
                value = value.as_str().and_then(time::parse).map_or(Value::Null, Value::from);
            }
            // Provider data is stored as JSON text; documents contain it as an object.
            if *member == "providerData"
                && let Some(object) = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok())
                && object.is_object()
            {
                value = object;
            }
            if !value.is_null() {
                inner.insert((*member).to_owned(), value);
            }
        }
        if !inner.is_empty() {
            config.insert((*object).to_owned(), Value::Object(inner));
        }
    }
    let config = (!config.is_empty()).then(|| Value::Object(config).to_string());
    row.insert("extraConfig".to_owned(), config.into());
    // Programs that read such documents expect a text.
    if row.get("accessToken").is_none_or(Value::is_null) {
        row.insert("accessToken".to_owned(), "".into());
    }
}

/// The secrets that may open the password of a login in a document.
#[derive(Clone, Copy)]
pub struct LoginSecrets<'a> {
    /// The store, which has our own secrets.
    pub store: &'a Store,
    /// The secrets under which other instances may have sealed it.
    pub former: &'a [String],
}

/// Moves the columns of a row out of its `extraConfig`, a text or an object. Other programs write anything
/// there: what cannot be read is left out, without refusing the account, and described in `left_out`.
///
/// # Errors
/// What was expected instead, when `extraConfig` is neither a text nor an object.
pub fn flatten(
    secrets: LoginSecrets<'_>,
    row: &mut Map<String, Value>,
    left_out: &mut Vec<String>,
) -> Result<(), &'static str> {
    let mut config = match row.remove("extraConfig") {
        None => return Ok(()),
        Some(Value::Null) => Map::new(),
        Some(Value::Object(config)) => config,
        Some(Value::String(text)) if text.trim().is_empty() => Map::new(),
        Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or_else(|_| {
            left_out.push("its extraConfig is not a JSON object and is left out".to_owned());
            Map::new()
        }),
        Some(_) => return Err("JSON text of an object"),
    };
    for name in PLAIN {
        let value = readable(name, config.remove(*name).unwrap_or_default());
        row.insert((*name).to_owned(), value.unwrap_or_else(|| lost(left_out, name)));
    }
    take_login(secrets, &mut config, left_out);
    if let Some(Value::Object(oauth)) = config.get("oauth") {
        fill_oauth_columns(row, oauth);
    }
    take_nested(row, &mut config, left_out);
    let extra = (!config.is_empty()).then(|| Value::Object(config).to_string());
    row.insert("extra".to_owned(), extra.into());
    Ok(())
}

/// Fills the columns of a connected account that a row lacks: older documents have them only in `extraConfig`.
fn fill_oauth_columns(row: &mut Map<String, Value>, oauth: &Map<String, Value>) {
    let text = |names: &[&str]| {
        let texts = names.iter().filter_map(|name| oauth.get(*name)?.as_str());
        texts.map(str::trim).find(|text| !text.is_empty()).map(Value::from)
    };
    for (column, names) in [
        ("oauthProvider", &["provider"][..]),
        ("oauthAccountKey", &["accountKey", "accountId"]),
        ("oauthProjectId", &["projectId"]),
    ] {
        if row.get(column).is_none_or(Value::is_null)
            && let Some(found) = text(names)
        {
            row.insert(column.to_owned(), found);
        }
    }
}

/// Moves the members of [`NESTED`] to their columns.
fn take_nested(row: &mut Map<String, Value>, config: &mut Map<String, Value>, left_out: &mut Vec<String>) {
    for (object, members) in NESTED {
        let Some(Value::Object(mut inner)) = config.remove(*object) else {
            members.iter().for_each(|(_, column)| drop(row.insert((*column).to_owned(), Value::Null)));
            continue;
        };
        for (member, column) in *members {
            let value = match inner.remove(*member).unwrap_or_default() {
                object @ Value::Object(_) if *column == "providerData" => object.to_string().into(),
                value => value,
            };
            let value = readable(column, value);
            let value = value.unwrap_or_else(|| lost(left_out, &format!("{object}.{member}")));
            row.insert((*column).to_owned(), value);
        }
        if !inner.is_empty() {
            config.insert((*object).to_owned(), Value::Object(inner));
        }
    }
}

fn lost(left_out: &mut Vec<String>, member: &str) -> Value {
    left_out.push(format!("{member} in its extraConfig is invalid and is left out"));
    Value::Null
}

/// Returns a member's value for its column; `None` when the column cannot hold it.
fn readable(column: &str, value: Value) -> Option<Value> {
    match (column, &value) {
        (_, Value::Null) => Some(value),
        ("platformUserId", Value::String(digits)) => digits.trim().parse::<u32>().ok().map(Value::from),
        ("platformUserId", Value::Number(_)) => exact_integer(&value).is_some().then_some(value),
        ("useSystemProxy", Value::String(text)) => match text.trim() {
            "true" | "1" => Some(Value::Bool(true)),
            "false" | "0" | "" => Some(Value::Bool(false)),
            _ => None,
        },
        ("useSystemProxy", Value::Bool(_)) => Some(value),
        ("useSystemProxy", Value::Number(number)) => {
            number.as_i64().filter(|bit| [0, 1].contains(bit)).map(|bit| Value::Bool(bit == 1))
        }
        ("platformUserId" | "useSystemProxy", _) => None,
        (column, Value::String(text)) if MOMENTS.contains(&column) => {
            (text.trim().is_empty() || time::parse(text).is_some()).then_some(value)
        }
        (column, Value::Number(_)) if MOMENTS.contains(&column) => time::from_json(&value).map(|_| value),
        (_, Value::String(_)) => Some(value),
        _ => None,
    }
}

/// Opens the login password of another gateway, which is sealed under that gateway's secret; it may be the same
/// as ours or a former one of ours.
fn take_login(
    LoginSecrets { store, former }: LoginSecrets<'_>,
    config: &mut Map<String, Value>,
    left_out: &mut Vec<String>,
) {
    let Some(Value::Object(login)) = config.get_mut("autoRelogin") else { return };
    let Some(Value::String(cipher)) = login.remove("passwordCipher") else { return };
    if login.contains_key("password") || cipher.is_empty() {
        return;
    }
    let own = store.sealer().open("accounts", "login_password", &cipher);
    let password =
        own.map_or_else(|_| takeover::open_password(&cipher, former), |own| Some(own.expose().to_owned()));
    match password {
        Some(password) => drop(login.insert("password".to_owned(), json!(password))),
        None => left_out.push(
            "its login is imported without its password, which none of the known secrets decrypts".to_owned(),
        ),
    }
}

/// Formats a time for documents.
pub fn moment(at: Option<time::Millis>) -> Value {
    at.map_or(Value::Null, |at| iso(at).into())
}
