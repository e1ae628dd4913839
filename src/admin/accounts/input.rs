//! The fields of an account as sent on create, verify and update, each
//! read by a small pure function.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::admin::input::{Fields, Invalid, MAX_NAME_CHARS, Patch};
use crate::admin::secrets;
use crate::admin::sites::input::proxy_url;
use crate::ids::SiteId;
use crate::key_mask::is_mask;
use crate::money::Usd;
use crate::store::Secret;
use crate::store::accounts::{AccountStatus, CredentialMode};
use crate::time::Millis;
use crate::upstream::platforms::bare_credential;

/// The expected value in the refusal of a mask that is not the stored one's.
pub const WHOLE_CREDENTIAL: &str = "whole credential, not a mask";
/// Maximum number of keys in one request: more than anyone pastes, yet it bounds the work.
const MAX_KEYS: usize = 200;
/// Maximum length of a credential, in bytes; upstream credentials (JWTs, cookies) are long, but not this long.
const MAX_CREDENTIAL_BYTES: usize = 16 * 1024;

/// Builds the refusal of a site that does not exist.
pub fn unknown_site() -> Invalid {
    Invalid::field("siteId", "id of a known site")
}

/// A request to verify a credential. Nothing is stored.
pub struct VerifyInput {
    pub site_id: SiteId,
    pub credential: String,
    pub mode: CredentialMode,
    pub platform_user_id: Option<i64>,
}

/// A request for one or more accounts.
pub struct CreateInput {
    pub site_id: SiteId,
    /// The keys in the order sent, without duplicates; empty if none was given.
    pub credentials: Vec<String>,
    pub mode: CredentialMode,
    pub username: Option<String>,
    pub api_token: Option<String>,
    pub platform_user_id: Option<i64>,
    pub skip_model_fetch: bool,
    /// Used for sessions only.
    pub checkin_enabled: Option<bool>,
    pub rotation: Rotation,
}

/// The tokens that renew a session of sub2api; for other platforms they are checked and ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// `None` if it was not sent, or sent blank.
    pub refresh_token: Option<String>,
    pub expires_at: Option<Millis>,
}

/// A new session for an existing account.
pub struct RebindInput {
    pub credential: String,
    pub platform_user_id: Option<i64>,
    pub rotation: Rotation,
}

/// A name and a password to log in with.
pub struct LoginInput {
    pub site_id: SiteId,
    pub username: String,
    pub password: String,
}

/// A change of an account. `None` means the field was not sent.
#[derive(Clone, Default)]
pub struct UpdateInput {
    pub username: Option<String>,
    pub access_token: Option<String>,
    pub api_token: Patch<String>,
    pub status: Option<AccountStatus>,
    pub checkin_enabled: Option<bool>,
    pub unit_cost: Patch<f64>,
    pub extra_config: Patch<Map<String, Value>>,
    pub refresh_token: Patch<String>,
    pub token_expires_at: Patch<Millis>,
    pub is_pinned: Option<bool>,
    pub sort_order: Option<i64>,
    pub proxy_url: Patch<String>,
    /// Whether a field was sent whose change requires the models to be read again.
    pub refreshes_models: bool,
}

// === impl VerifyInput ===

impl VerifyInput {
    pub fn read(fields: &Fields) -> Result<Self, Invalid> {
        let site_id = fields.required_id("siteId")?;
        let credential =
            fields.text("accessToken")?.ok_or_else(|| Invalid::field("accessToken", "string"))?;
        Ok(Self {
            site_id,
            credential: self::credential("accessToken", credential)?,
            mode: credential_mode(fields)?,
            platform_user_id: fields.integer("platformUserId")?,
        })
    }
}

// === impl CreateInput ===

impl CreateInput {
    /// Reads a create request. Several keys come in `accessTokens`, which forces API-key mode, or, in API-key mode, in
    /// one `accessToken` with separators between them.
    pub fn read(fields: &Fields) -> Result<Self, Invalid> {
        let site_id = fields.required_id("siteId")?;
        let single = fields.text("accessToken")?.unwrap_or_default().trim();
        let many = many_keys(fields)?;
        let mut mode = credential_mode(fields)?;
        let credentials = if !many.is_empty() {
            mode = CredentialMode::ApiKey;
            many
        } else if mode == CredentialMode::ApiKey {
            split_keys(single)
        } else {
            distinct([single.to_owned()])
        };
        if credentials.len() > MAX_KEYS {
            return Err(Invalid::field("accessTokens", "at most 200 keys"));
        }
        let credentials = credentials.iter().map(|key| credential("accessToken", key));
        let credentials = distinct(credentials.collect::<Result<Vec<_>, _>>()?);
        let checkin_enabled = fields.bool("checkinEnabled")?;
        let rotation = Rotation::read(fields)?;
        if rotation.refresh_token.as_deref().is_some_and(is_mask) {
            return Err(Invalid::field("refreshToken", WHOLE_CREDENTIAL));
        }
        Ok(Self {
            site_id,
            credentials,
            mode,
            username: optional_text(fields, "username")?.map(username).transpose()?,
            api_token: optional_credential(fields, "apiToken")?,
            platform_user_id: fields.integer("platformUserId")?,
            skip_model_fetch: fields.bool("skipModelFetch")?.unwrap_or(false),
            checkin_enabled,
            rotation,
        })
    }
}

// === impl Rotation ===

impl Rotation {
    fn read(fields: &Fields) -> Result<Self, Invalid> {
        Ok(Self {
            refresh_token: optional_credential(fields, "refreshToken")?,
            expires_at: fields.nullable_time("tokenExpiresAt")?.flatten(),
        })
    }
}

// === impl RebindInput ===

impl RebindInput {
    pub fn read(fields: &Fields) -> Result<Self, Invalid> {
        let blank = || Invalid::field("accessToken", "non-empty string");
        let text = fields.text("accessToken")?.ok_or_else(blank)?;
        Ok(Self {
            credential: Some(credential("accessToken", text)?)
                .filter(|text| !text.is_empty())
                .ok_or_else(blank)?,
            platform_user_id: fields.integer("platformUserId")?,
            rotation: Rotation::read(fields)?,
        })
    }
}

// === impl LoginInput ===

impl LoginInput {
    pub fn read(fields: &Fields) -> Result<Self, Invalid> {
        let required = |name: &str| {
            let text = fields.text(name)?.filter(|text| !text.trim().is_empty());
            text.ok_or_else(|| Invalid::field(name, "non-empty string"))
        };
        let site_id = fields.required_id("siteId")?;
        let username = self::username(required("username")?)?;
        let password = required("password")?;
        if password.len() > MAX_CREDENTIAL_BYTES {
            return Err(Invalid::field("password", "string of at most 16 KiB"));
        }
        Ok(Self { site_id, username, password: password.to_owned() })
    }
}

// === impl UpdateInput ===

impl UpdateInput {
    pub fn read(fields: &Fields) -> Result<Self, Invalid> {
        let owned = |text: Patch<&str>| {
            text.map(|text| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned))
        };
        let api_token = match fields.nullable_text("apiToken")? {
            Some(Some(token)) => Some(Some(credential("apiToken", token)?).filter(|token| !token.is_empty())),
            other => other.map(|_| None),
        };
        let access_token =
            fields.text("accessToken")?.map(|text| credential("accessToken", text)).transpose()?;
        let models_depend_on =
            ["accessToken", "apiToken", "extraConfig", "proxyUrl", "refreshToken", "tokenExpiresAt"];
        Ok(Self {
            username: fields.text("username")?.map(username).transpose()?,
            access_token,
            api_token,
            status: status(fields)?,
            checkin_enabled: fields.bool("checkinEnabled")?,
            unit_cost: unit_cost(fields)?,
            extra_config: extra_config(fields)?,
            refresh_token: owned(fields.nullable_text("refreshToken")?),
            token_expires_at: fields.nullable_time("tokenExpiresAt")?,
            is_pinned: fields.bool("isPinned")?,
            sort_order: fields.integer("sortOrder")?,
            proxy_url: proxy_url(fields)?,
            refreshes_models: models_depend_on.iter().any(|name| fields.has(name)),
        })
    }
}

/// Reads the models of `POST /api/accounts/:id/models/manual` and of the disabled list.
pub fn models(fields: &Fields) -> Result<Vec<String>, Invalid> {
    let models = fields.texts("models")?.ok_or_else(|| Invalid::field("models", "array of strings"))?;
    if models.iter().any(|model| model.contains(char::is_control)) {
        Err(Invalid::field("models", "array of strings without line breaks and control characters"))
    } else {
        Ok(models)
    }
}

fn credential_mode(fields: &Fields) -> Result<CredentialMode, Invalid> {
    Ok(fields.one_of("credentialMode", CredentialMode::parse)?.unwrap_or(CredentialMode::Auto))
}

/// Reads a credential, which must be one line since it is sent in a header; the word `Bearer` before it is removed.
fn credential(name: &str, text: &str) -> Result<String, Invalid> {
    let text = bare_credential(text);
    if text.len() > MAX_CREDENTIAL_BYTES || text.chars().any(char::is_control) {
        return Err(Invalid::field(name, "credential of one line, at most 16 KiB"));
    }
    Ok(text.to_owned())
}

/// Reads a secret to store; returns `None` if the mask of the stored one was sent back.
pub fn kept_or_new(
    name: &str,
    sent: Patch<String>,
    stored: Option<&Secret>,
) -> Result<Patch<Secret>, Invalid> {
    match sent {
        None => Ok(None),
        Some(None) => Ok(Some(None)),
        Some(Some(text)) if text.is_empty() => Ok(Some(None)),
        Some(Some(text)) if secrets::is_echo(&text, stored.map(Secret::expose)) => Ok(None),
        Some(Some(text)) if is_mask(&text) => Err(Invalid::field(name, WHOLE_CREDENTIAL)),
        Some(Some(text)) => Ok(Some(Some(Secret::from(text)))),
    }
}

/// Reads a text that may be absent, `null` or blank, all of which mean none.
fn optional_text<'a>(fields: &'a Fields, name: &str) -> Result<Option<&'a str>, Invalid> {
    Ok(fields.nullable_text(name)?.flatten().map(str::trim).filter(|text| !text.is_empty()))
}

/// Reads a credential that may be left out like [`optional_text`].
fn optional_credential(fields: &Fields, name: &str) -> Result<Option<String>, Invalid> {
    optional_text(fields, name)?.map(|text| credential(name, text)).transpose()
}

/// Reads a user name that a list can still show.
fn username(text: &str) -> Result<String, Invalid> {
    let text = text.trim();
    if text.chars().count() > MAX_NAME_CHARS || text.chars().any(char::is_control) {
        return Err(Invalid::field("username", "line of at most 500 characters"));
    }
    Ok(text.to_owned())
}

fn many_keys(fields: &Fields) -> Result<Vec<String>, Invalid> {
    match fields.get("accessTokens") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            let keys: Option<Vec<String>> =
                items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
            keys.map(distinct).ok_or_else(|| Invalid::field("accessTokens", "array of strings"))
        }
        Some(_) => Err(Invalid::field("accessTokens", "array of strings")),
    }
}

/// Splits keys pasted into one field at blanks, commas and semicolons of either width. Leaves out the word `Bearer`,
/// which may stand before a key.
fn split_keys(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '\u{ff0c}' | '\u{ff1b}'));
    distinct(parts.filter(|part| !part.eq_ignore_ascii_case("bearer")).map(str::to_owned))
}

fn distinct(keys: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let trimmed = keys.into_iter().map(|key| key.trim().to_owned());
    trimmed.filter(|key| !key.is_empty() && seen.insert(key.clone())).collect()
}

fn status(fields: &Fields) -> Result<Option<AccountStatus>, Invalid> {
    fields.one_of("status", AccountStatus::parse)
}

fn unit_cost(fields: &Fields) -> Result<Patch<f64>, Invalid> {
    match fields.nullable_number("unitCost")? {
        Some(Some(cost)) if cost < 0.0 => Err(Invalid::field("unitCost", "non-negative number or null")),
        cost => Ok(cost.map(|cost| cost.map(|cost| Usd::new(cost).rounded().dollars()))),
    }
}

/// Reads `extraConfig` from text or an object; text that is not a JSON object gives `{}`.
fn extra_config(fields: &Fields) -> Result<Patch<Map<String, Value>>, Invalid> {
    match fields.get("extraConfig") {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(None)),
        Some(Value::Object(object)) => Ok(Some(Some(object.clone()))),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Object(object)) => Ok(Some(Some(object))),
            _ => Ok(Some(Some(Map::new()))),
        },
        Some(_) => Err(Invalid::field("extraConfig", "string, object or null")),
    }
}

#[cfg(test)]
mod tests {
    use crate::admin::accounts::input::*;
    use crate::admin::input::refuses_each;
    use serde_json::json;

    static TESTED: crate::admin::schema::Object = crate::admin::schema::Object::with(
        "Tested",
        &[
            &crate::admin::accounts::schema::CREATE,
            &crate::admin::accounts::schema::UPDATE,
            &crate::admin::accounts::schema::LOGIN,
            &crate::admin::accounts::schema::REBIND,
        ],
        &[],
    );

    fn fields(value: Value) -> Fields {
        Fields::of(&TESTED, value.as_object().cloned().expect("an object"))
    }

    #[test]
    fn a_bad_value_is_refused_by_name_on_update() {
        let cases = [
            ("username", json!([null, 1, "a\nb", "x".repeat(501)])),
            ("accessToken", json!([null, 1, "a\nb"])),
            ("apiToken", json!([1, [], "a\u{0}b"])),
            ("status", json!([null, 1, "unknown", ""])),
            ("checkinEnabled", json!([null, 1, "true"])),
            ("unitCost", json!(["1", true, -1])),
            ("extraConfig", json!([1, [], true])),
            ("refreshToken", json!([1, {}])),
            ("tokenExpiresAt", json!(["soon", 5, true, []])),
            ("isPinned", json!([null, 1, "true"])),
            ("sortOrder", json!([null, -1, 1.5, "1"])),
            ("proxyUrl", json!([1, "ftp://x"])),
        ];
        refuses_each(|body| UpdateInput::read(&fields(body)), &json!({}), &cases);
    }

    #[test]
    fn a_bad_value_is_refused_by_name_on_create() {
        let cases = [
            ("siteId", json!([null, "1", 0, 1.5, -1, []])),
            ("accessToken", json!([null, 1, [], "a\u{0}b"])),
            ("accessTokens", json!(["a", [1], {}])),
            ("credentialMode", json!([null, 1, "cookie"])),
            ("username", json!([1, [], "x".repeat(501)])),
            ("apiToken", json!([1, []])),
            ("platformUserId", json!([null, "7", 0, 1.5])),
            ("checkinEnabled", json!(["true", 1])),
            ("refreshToken", json!([1])),
            ("tokenExpiresAt", json!([true, "x"])),
            ("skipModelFetch", json!([null, "true", 0])),
        ];
        refuses_each(
            |body| CreateInput::read(&fields(body)),
            &json!({"siteId": 1, "accessToken": "sk-1", "credentialMode": "apikey"}),
            &cases,
        );
    }

    #[test]
    fn a_bad_value_is_refused_by_name_on_rebind_and_login() {
        let cases = [
            ("accessToken", json!([null, 1, "  ", "a\nb"])),
            ("platformUserId", json!([null, "7", 0])),
            ("refreshToken", json!([1])),
            ("tokenExpiresAt", json!([true, "x"])),
        ];
        refuses_each(|body| RebindInput::read(&fields(body)), &json!({"accessToken": "t"}), &cases);
        let cases = ["siteId", "username", "password"].map(|field| (field, json!([null, "", [], true])));
        refuses_each(
            |body| LoginInput::read(&fields(body)),
            &json!({"siteId": 1, "username": "ann", "password": "p"}),
            &cases,
        );
    }

    #[test]
    fn a_username_is_kept_as_it_is_sent() {
        let name = json!({"siteId": 1, "password": "p", "username": " Bearer Bob "});
        assert_eq!(LoginInput::read(&fields(name.clone())).expect("accepted").username, "Bearer Bob");
        assert_eq!(
            CreateInput::read(&fields(name.clone())).expect("accepted").username.as_deref(),
            Some("Bearer Bob")
        );
        let update = UpdateInput::read(&fields(name)).expect("accepted");
        assert_eq!(update.username.as_deref(), Some("Bearer Bob"));
        let refusal = Invalid::field("username", "line of at most 500 characters");
        assert_eq!(username("a\nb"), Err(refusal));
        let token =
            |sent: Value| UpdateInput::read(&fields(json!({"apiToken": sent}))).expect("accepted").api_token;
        assert_eq!(token(json!("Bearer sk-a ")), Some(Some("sk-a".to_owned())));
        assert_eq!((token(json!(" ")), token(json!(null))), (Some(None), Some(None)));
    }

    #[test]
    fn a_unit_cost_is_rounded_like_money() {
        let read =
            |cost: Value| UpdateInput::read(&fields(json!({"unitCost": cost}))).expect("accepted").unit_cost;
        assert_eq!(read(json!(0.12345678)), Some(Some(0.123457)));
        assert_eq!(read(json!(1e305)), Some(Some(1e305)));
        assert_eq!(read(json!(null)), Some(None));
    }

    #[test]
    fn the_word_before_a_credential_is_none_of_it() {
        for (sent, kept) in
            [("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("Bearerabc", "Bearerabc"), ("ключ", "ключ")]
        {
            assert_eq!(credential("accessToken", sent), Ok(kept.to_owned()), "{sent}");
        }
    }

    #[test]
    fn keys_are_split_and_distinct() {
        let read = |body: Value| CreateInput::read(&fields(body)).expect("accepted");
        let pasted = read(
            json!({"siteId": 1, "credentialMode": "apikey", "accessToken": "a, b;c\n a\u{ff0c}d\u{ff1b}e"}),
        );
        assert_eq!(pasted.credentials, ["a", "b", "c", "d", "e"]);
        let listed = read(json!({"siteId": 1, "accessTokens": [" a ", "", "b c", "a"]}));
        assert_eq!(
            (listed.credentials, listed.mode),
            (vec!["a".into(), "b c".into()], CredentialMode::ApiKey)
        );
        let single = read(json!({"siteId": 1, "accessToken": " session=x; y=z "}));
        assert_eq!((single.credentials, single.mode), (vec!["session=x; y=z".into()], CredentialMode::Auto));
        assert!(read(json!({"siteId": 1, "accessTokens": [" "]})).credentials.is_empty());
    }

    #[test]
    fn extra_config_may_be_text_or_object() {
        let read = |value: Value| {
            UpdateInput::read(&fields(json!({"extraConfig": value}))).expect("accepted").extra_config
        };
        let expected = Some(json!({"a": 1}).as_object().cloned());
        assert_eq!(read(json!({"a": 1})), expected);
        assert_eq!(read(json!("{\"a\":1}")), expected);
        assert_eq!(read(json!("no json")), Some(Some(Map::new())));
        assert_eq!(read(json!(null)), Some(None));
    }

    #[test]
    fn only_credential_fields_refresh_the_models() {
        for (body, refreshes) in [
            (json!({"isPinned": true, "sortOrder": 1, "username": "a"}), false),
            (json!({"apiToken": null}), true),
            (json!({"proxyUrl": null}), true),
            (json!({"extraConfig": {}}), true),
        ] {
            assert_eq!(UpdateInput::read(&fields(body)).expect("accepted").refreshes_models, refreshes);
        }
    }
}
