//! The fields of an account token as sent, each read by a small pure function.

use serde_json::Value;

use super::view::mask;
use crate::admin::input::{Fields, Invalid, MAX_NAME_CHARS, Patch};
use crate::ids::AccountId;
use crate::jobs::tokens::set::mask_fits;
use crate::json_number::exact_integer;
use crate::key_mask::is_mask;
use crate::store::tokens::TokenSource;
use crate::time::Millis;

/// Maximum length of a key, in bytes; keys are long, but not this long.
const MAX_VALUE_BYTES: usize = 16 * 1024;
/// Maximum length of a text that is passed on to a site, in characters.
const MAX_TEXT_CHARS: usize = 10_000;

/// A request for a token that is typed here, or made at the site.
#[derive(Debug)]
pub struct CreateInput {
    pub account_id: AccountId,
    pub name: Option<String>,
    /// `None` (sent blank or not at all) means that the site makes the key.
    pub token: Option<String>,
    pub enabled: bool,
    pub is_default: bool,
    pub source: TokenSource,
    pub group: Option<String>,
    pub site_options: SiteKeyOptions,
}

/// The options of a key that a site is asked to make.
#[derive(Debug, PartialEq)]
pub struct SiteKeyOptions {
    pub unlimited_quota: bool,
    /// In the site's quota units; used if the quota is limited.
    pub remain_quota: Option<i64>,
    /// `None` means never.
    pub expires_at: Option<Millis>,
    pub allow_ips: String,
    pub model_limits_enabled: bool,
    pub model_limits: String,
}

/// A change of a token. `None` means the field was not sent.
#[derive(Debug, Default)]
pub struct UpdateInput {
    pub name: Option<String>,
    pub token: Option<String>,
    pub group: Patch<String>,
    pub enabled: Option<bool>,
    pub is_default: Option<bool>,
    pub source: Option<TokenSource>,
}

// === impl CreateInput ===

impl CreateInput {
    pub fn read(fields: &Fields) -> Result<Self, Invalid> {
        Ok(Self {
            account_id: fields.required_id("accountId")?,
            name: name(fields)?,
            token: fields.nullable_text("token")?.flatten().map(value).transpose()?.flatten(),
            enabled: fields.bool("enabled")?.unwrap_or(true),
            is_default: fields.bool("isDefault")?.unwrap_or(false),
            source: source(fields)?.unwrap_or(TokenSource::Manual),
            group: group(fields)?.flatten(),
            site_options: SiteKeyOptions::read(fields)?,
        })
    }
}

// === impl SiteKeyOptions ===

impl SiteKeyOptions {
    fn read(fields: &Fields) -> Result<Self, Invalid> {
        let unlimited_quota = fields.bool("unlimitedQuota")?;
        let remain_quota = match fields.get("remainQuota") {
            None | Some(Value::Null) => None,
            Some(quota) => {
                let quota = exact_integer(quota).filter(|&quota| quota > 0);
                Some(quota.ok_or_else(|| Invalid::field("remainQuota", "positive integer"))?)
            }
        };
        // A request that names a limit wants one.
        let unlimited_quota = unlimited_quota.unwrap_or(remain_quota.is_none());
        if !unlimited_quota && remain_quota.is_none() {
            return Err(Invalid::field("remainQuota", "positive integer if unlimitedQuota is false"));
        }
        Ok(Self {
            unlimited_quota,
            remain_quota,
            expires_at: expired_time(fields)?,
            allow_ips: passed_on(fields, "allowIps")?,
            model_limits_enabled: fields.bool("modelLimitsEnabled")?.unwrap_or(false),
            model_limits: passed_on(fields, "modelLimits")?,
        })
    }
}

// === impl UpdateInput ===

impl UpdateInput {
    /// Reads a change of a token; `stored` is its present value, whose mask is not taken for a new value.
    pub fn read(fields: &Fields, stored: Option<&str>) -> Result<Self, Invalid> {
        let token = match fields.text("token")? {
            None => None,
            Some(text) => {
                let blank = || Invalid::field("token", "non-empty string");
                let token = value(text)?.ok_or_else(blank)?;
                match stored.filter(|stored| token != **stored && is_mask(&token) && !is_mask(stored)) {
                    // The account shows another form of the mask than the list of keys.
                    Some(stored) if token == mask(stored) || mask_fits(&token, stored) => None,
                    Some(_) => return Err(Invalid::field("token", "whole key, not a mask")),
                    None => Some(token),
                }
            }
        };
        Ok(Self {
            name: if fields.has("name") {
                Some(name(fields)?.ok_or_else(|| Invalid::field("name", "non-empty string"))?)
            } else {
                None
            },
            token,
            group: group(fields)?,
            enabled: fields.bool("enabled")?,
            is_default: fields.bool("isDefault")?,
            source: source(fields)?,
        })
    }
}

fn name(fields: &Fields) -> Result<Option<String>, Invalid> {
    let Some(text) = fields.nullable_text("name")?.flatten() else { return Ok(None) };
    let text = text.trim();
    if text.chars().count() > MAX_NAME_CHARS || text.chars().any(char::is_control) {
        return Err(Invalid::field("name", "line of at most 500 characters"));
    }
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

/// Reads a key, which must be one line since it is sent in a header; `None` if it is blank.
fn value(text: &str) -> Result<Option<String>, Invalid> {
    let text = text.trim();
    if text.len() > MAX_VALUE_BYTES || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Invalid::field("token", "key without blanks, at most 16 KiB"));
    }
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

fn group(fields: &Fields) -> Result<Patch<String>, Invalid> {
    let Some(text) = fields.nullable_text("group")? else { return Ok(None) };
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    if text.is_some_and(|text| text.chars().count() > MAX_NAME_CHARS || text.chars().any(char::is_control)) {
        return Err(Invalid::field("group", "line of at most 500 characters"));
    }
    Ok(Some(text.map(str::to_owned)))
}

fn source(fields: &Fields) -> Result<Option<TokenSource>, Invalid> {
    fields.one_of("source", TokenSource::parse)
}

fn passed_on(fields: &Fields, name: &str) -> Result<String, Invalid> {
    let text = fields.nullable_text(name)?.flatten().unwrap_or_default().trim();
    if text.chars().count() > MAX_TEXT_CHARS {
        return Err(Invalid::field(name, "string of at most 10000 characters"));
    }
    Ok(text.to_owned())
}

/// Reads the expiry as epoch seconds or a date; -1 and an absent value mean never.
fn expired_time(fields: &Fields) -> Result<Option<Millis>, Invalid> {
    let is_never = match fields.get("expiredTime") {
        Some(Value::String(text)) => text.trim() == "-1",
        Some(Value::Number(number)) => number.as_f64() == Some(-1.0),
        _ => false,
    };
    if is_never { Ok(None) } else { Ok(fields.nullable_time("expiredTime")?.flatten()) }
}

#[cfg(test)]
mod tests {
    use crate::admin::input::refuses_each;
    use crate::admin::tokens::input::*;
    use serde_json::json;

    static TESTED: crate::admin::schema::Object = crate::admin::schema::Object::with(
        "Tested",
        &[&crate::admin::tokens::schema::CREATE, &crate::admin::tokens::schema::UPDATE],
        &[],
    );

    fn fields(value: Value) -> Fields {
        Fields::of(&TESTED, value.as_object().cloned().expect("an object"))
    }

    #[test]
    fn a_bad_value_is_refused_by_name() {
        let cases = [
            ("accountId", json!([null, "1", 0, 1.5])),
            ("name", json!([1, "x".repeat(501), "a\nb"])),
            ("token", json!([1, "a b", []])),
            ("enabled", json!([null, 1, "true"])),
            ("isDefault", json!([null, 1])),
            ("source", json!([null, 1, "magic"])),
            ("group", json!([1, []])),
            ("unlimitedQuota", json!(["true", 1])),
            ("remainQuota", json!([0, -5, 1.5, "5", true])),
            ("expiredTime", json!(["soon", 5, true, []])),
            ("allowIps", json!([1, []])),
            ("modelLimitsEnabled", json!(["true"])),
            ("modelLimits", json!([1])),
        ];
        refuses_each(|body| CreateInput::read(&fields(body)), &json!({ "accountId": 1 }), &cases);
        let cases = [("name", json!([""])), ("token", json!(["  ", null]))];
        refuses_each(|body| UpdateInput::read(&fields(body), None), &json!({}), &cases);
    }

    #[test]
    fn a_limited_key_needs_its_limit() {
        let read = |body: Value| {
            let input = CreateInput::read(&fields(body))?;
            Ok::<_, Invalid>((input.site_options.unlimited_quota, input.site_options.remain_quota))
        };
        assert!(read(json!({"accountId": 1, "unlimitedQuota": false})).is_err());
        let limited = read(json!({"accountId": 1, "unlimitedQuota": false, "remainQuota": 5}));
        assert_eq!(limited, Ok((false, Some(5))));
        assert_eq!(read(json!({"accountId": 1, "remainQuota": 5})), Ok((false, Some(5))));
        assert_eq!(read(json!({"accountId": 1})), Ok((true, None)));
    }

    #[test]
    fn an_end_is_read_from_seconds_or_text() {
        for (value, at) in [
            (json!(1_777_622_400), Some(1_777_622_400_000)),
            (json!("2026-05-01T08:00:00Z"), Some(1_777_622_400_000)),
            (json!(-1), None),
            (json!(""), None),
            (json!(null), None),
        ] {
            assert_eq!(expired_time(&fields(json!({ "expiredTime": value }))), Ok(at), "{value}");
        }
    }

    #[test]
    fn a_mask_that_comes_back_is_no_new_value() {
        let sent = |token: &str, stored: &str| {
            let fields = fields(json!({ "token": token }));
            UpdateInput::read(&fields, Some(stored)).map(|input| input.token)
        };
        let whole = "sk-abcdefghij";
        for mask in ["sk-abc***ghij", "sk-a****ghij", "abc****hij"] {
            assert_eq!(sent(mask, whole), Ok(None), "{mask}");
        }
        assert_eq!(sent("sk-new", whole), Ok(Some("sk-new".to_owned())));
        for mask in ["sk-b****ghij", "****"] {
            sent(mask, whole).expect_err("the mask of another key");
        }
        assert_eq!(sent("sk-b****xy", "sk-a****xy"), Ok(Some("sk-b****xy".to_owned())));
    }
}
