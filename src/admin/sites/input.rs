//! The fields of a site as sent on create and update, each read by a small pure function. Only sites are read
//! leniently: switches and numbers may come as text.

use serde_json::Value;

use super::presets;
use super::presets::Preset;
use crate::admin::input::{Fields, Invalid, MAX_KEY_CHARS, Patch};
use crate::json_number::{exact_integer, whole};
use crate::platform::Platform;
use crate::routing::OutboundProxy;
use crate::site_headers;
use crate::site_url::{SiteUrl, UrlError, check_page};
use crate::store::sites::{NewEndpoint, ProbedModels, SiteStatus};

/// Maximum number of addresses of a site: more than a pool will ever need, yet it bounds one request's work.
const MAX_ENDPOINTS: usize = 100;
/// Maximum length of a proxy address or check-in address, credentials included, in bytes.
const MAX_ADDRESS_BYTES: usize = 2000;
const MAX_CONCURRENCY: i64 = 10_000;

/// The fields of a site that were sent. `None` means the field was not sent.
#[derive(Debug, Default)]
pub struct SiteInput {
    pub name: Option<String>,
    pub url: Option<SiteUrl>,
    pub platform: Option<Platform>,
    pub preset: Option<&'static Preset>,
    pub status: Option<SiteStatus>,
    pub use_system_proxy: Option<bool>,
    pub is_pinned: Option<bool>,
    pub sort_order: Option<i64>,
    pub global_weight: Option<f64>,
    pub proxy_url: Patch<String>,
    pub external_checkin_url: Patch<String>,
    pub custom_headers: Patch<String>,
    pub max_concurrency: Patch<i64>,
    pub endpoints: Option<Vec<NewEndpoint>>,
    pub probe_enabled: Option<bool>,
    pub probe_model: Option<String>,
    pub probe_scope: Option<ProbedModels>,
    pub probe_latency_threshold_ms: Option<i64>,
}

// === impl SiteInput ===

impl SiteInput {
    /// Reads a new site: name and address are required; a blank platform requests detection.
    pub fn for_create(fields: &Fields) -> Result<Self, Invalid> {
        let platform = match fields.text("platform")? {
            Some(text) if !text.trim().is_empty() => Some(platform(text)?),
            _ => None,
        };
        let mut input = Self::shared(fields)?;
        if input.name.is_none() {
            return Err(Invalid::field("name", "non-empty string"));
        }
        if input.url.is_none() {
            return Err(Invalid::field("url", "non-empty string"));
        }
        input.platform = platform;
        input.preset = preset(fields)?;
        Ok(input)
    }

    /// Reads a change: every field is optional, a blank platform is refused.
    pub fn for_update(fields: &Fields) -> Result<Self, Invalid> {
        let platform = fields.text("platform")?.map(platform).transpose()?;
        let mut input = Self::shared(fields)?;
        input.platform = platform;
        input.probe_enabled = switch(fields, "postRefreshProbeEnabled")?;
        input.probe_model = probe_model(fields)?;
        input.probe_scope = fields.one_of("postRefreshProbeScope", ProbedModels::parse)?;
        input.probe_latency_threshold_ms = fields.integer("postRefreshProbeLatencyThresholdMs")?;
        Ok(input)
    }

    fn shared(fields: &Fields) -> Result<Self, Invalid> {
        Ok(Self {
            name: fields.name("name")?,
            url: url(fields)?,
            status: status(fields)?,
            use_system_proxy: switch(fields, "useSystemProxy")?,
            is_pinned: switch(fields, "isPinned")?,
            sort_order: sort_order(fields)?,
            global_weight: global_weight(fields)?,
            proxy_url: proxy_url(fields)?,
            external_checkin_url: external_checkin_url(fields)?,
            custom_headers: custom_headers(fields)?,
            max_concurrency: max_concurrency(fields)?,
            endpoints: endpoints(fields)?,
            ..Self::default()
        })
    }
}

fn url(fields: &Fields) -> Result<Option<SiteUrl>, Invalid> {
    let Some(text) = fields.text("url")? else { return Ok(None) };
    if text.trim().is_empty() {
        return Err(Invalid::field("url", "non-empty string"));
    }
    SiteUrl::parse(text).map(Some).map_err(|error| no_address("url", error))
}

/// Builds the refusal of a field that is not a valid address.
pub fn no_address(field: &str, UrlError(why): UrlError) -> Invalid {
    Invalid::field(field, &format!("http or https address with a host: it {why}"))
}

fn platform(text: &str) -> Result<Platform, Invalid> {
    Platform::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Platform::ALL.iter().map(|platform| platform.id()).collect();
        Invalid::field("platform", &format!("one of {}", known.join(", ")))
    })
}

fn preset(fields: &Fields) -> Result<Option<&'static Preset>, Invalid> {
    let invalid = || Invalid::field("initializationPresetId", "id of a known preset, null or empty string");
    match fields.nullable_text("initializationPresetId").map_err(|_| invalid())?.flatten().map(str::trim) {
        None | Some("") => Ok(None),
        Some(id) => presets::by_id(id).map(Some).ok_or_else(invalid),
    }
}

fn status(fields: &Fields) -> Result<Option<SiteStatus>, Invalid> {
    let Some(value) = fields.get("status") else { return Ok(None) };
    let status = value.as_str().and_then(SiteStatus::parse);
    status.map(Some).ok_or_else(|| fields.unexpected("status"))
}

/// Reads a boolean, also from a number or text.
fn switch(fields: &Fields, name: &str) -> Result<Option<bool>, Invalid> {
    let on = match fields.get(name) {
        None => return Ok(None),
        Some(Value::Bool(on)) => Some(*on),
        Some(Value::Number(number)) => number.as_f64().map(|number| number != 0.0),
        Some(Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        Some(_) => None,
    };
    on.map(Some).ok_or_else(|| Invalid::field(name, "boolean"))
}

/// Reads a finite number, also from text; `None` for blank text.
fn tolerant_number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
    .filter(|number: &f64| number.is_finite())
}

fn sort_order(fields: &Fields) -> Result<Option<i64>, Invalid> {
    let Some(value) = fields.get("sortOrder") else { return Ok(None) };
    let order = tolerant_number(value)
        .and_then(whole)
        .ok_or_else(|| Invalid::field("sortOrder", "non-negative integer"))?;
    Ok(Some(order.max(0)))
}

fn global_weight(fields: &Fields) -> Result<Option<f64>, Invalid> {
    let Some(value) = fields.get("globalWeight") else { return Ok(None) };
    let weight = tolerant_number(value)
        .filter(|&weight| weight > 0.0)
        .ok_or_else(|| Invalid::field("globalWeight", "positive number"))?;
    Ok(Some(((weight * 1000.0).round() / 1000.0).clamp(0.01, 100.0)))
}

fn max_concurrency(fields: &Fields) -> Result<Patch<i64>, Invalid> {
    let limit = match fields.get("maxConcurrency") {
        None => return Ok(None),
        Some(Value::Null) => 0,
        Some(Value::String(text)) if text.trim().is_empty() => 0,
        Some(value) => exact_integer(value)
            .filter(|limit| (0..=MAX_CONCURRENCY).contains(limit))
            .ok_or_else(|| Invalid::field("maxConcurrency", "integer from 0 to 10000"))?,
    };
    Ok(Some((limit > 0).then_some(limit)))
}

/// Reads an address without its trailing slashes; blank text and `null` clear it. `check` refuses an unusable one.
fn address(
    fields: &Fields,
    name: &str,
    expected: &str,
    check: impl Fn(&str) -> Result<(), Invalid>,
) -> Result<Patch<String>, Invalid> {
    let invalid = || Invalid::field(name, expected);
    let Some(sent) = fields.nullable_text(name).map_err(|_| invalid())? else { return Ok(None) };
    let text = sent.unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(Some(None));
    }
    if text.len() > MAX_ADDRESS_BYTES || text.contains(char::is_control) {
        return Err(invalid());
    }
    check(text)?;
    Ok(Some(Some(text.trim_end_matches('/').to_owned())))
}

/// Reads the outbound proxy of a site or an account.
pub fn proxy_url(fields: &Fields) -> Result<Patch<String>, Invalid> {
    let expected = "http, https, socks, socks4, socks4a, socks5 or socks5h proxy address, or null";
    address(fields, "proxyUrl", expected, |text| match OutboundProxy::parse(text) {
        Ok(_) => Ok(()),
        Err(why) => Err(Invalid::field("proxyUrl", &format!("{expected}: {why}"))),
    })
}

fn external_checkin_url(fields: &Fields) -> Result<Patch<String>, Invalid> {
    let name = "externalCheckinUrl";
    address(fields, name, "http or https address, or null", |text| {
        check_page(text).map_err(|error| no_address(name, error))
    })
}

/// Reads `customHeaders` in their canonical form; an inner `None` clears them.
fn custom_headers(fields: &Fields) -> Result<Patch<String>, Invalid> {
    let canonical = match fields.get("customHeaders") {
        None => return Ok(None),
        Some(Value::Null) => Ok(None),
        Some(Value::Object(headers)) => site_headers::canonical(headers),
        Some(Value::String(text)) => site_headers::of_text(text),
        Some(_) => Err(site_headers::Fault::shape()),
    };
    canonical.map(Some).map_err(|fault| Invalid::because("customHeaders", fault.to_string()))
}

fn endpoints(fields: &Fields) -> Result<Option<Vec<NewEndpoint>>, Invalid> {
    let items = match fields.get("apiEndpoints") {
        None => return Ok(None),
        Some(Value::Null) => return Ok(Some(Vec::new())),
        Some(Value::Array(items)) if items.len() <= MAX_ENDPOINTS => items,
        Some(_) => return Err(Invalid::field("apiEndpoints", "array of at most 100 objects, or null")),
    };
    let mut endpoints: Vec<NewEndpoint> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let endpoint = endpoint(index, item)?;
        if endpoints.iter().any(|earlier| earlier.url == endpoint.url) {
            return Err(Invalid::field(&format!("apiEndpoints[{index}].url"), "each address once"));
        }
        endpoints.push(endpoint);
    }
    Ok(Some(endpoints))
}

fn endpoint(index: usize, item: &Value) -> Result<NewEndpoint, Invalid> {
    let field = |name: &str| format!("apiEndpoints[{index}]{name}");
    let object = item.as_object().ok_or_else(|| Invalid::field(&field(""), "object"))?;
    let url = object
        .get("url")
        .and_then(Value::as_str)
        .ok_or_else(|| Invalid::field(&field(".url"), "http or https address with a host"))?;
    let url = SiteUrl::parse_absolute(url).map_err(|error| no_address(&field(".url"), error))?;
    let enabled = match object.get("enabled") {
        None => true,
        Some(Value::Bool(enabled)) => *enabled,
        Some(_) => return Err(Invalid::field(&field(".enabled"), "boolean")),
    };
    let sort_order = match object.get("sortOrder") {
        None => i64::try_from(index).unwrap_or(i64::MAX),
        Some(value) => exact_integer(value)
            .filter(|&order| order >= 0)
            .ok_or_else(|| Invalid::field(&field(".sortOrder"), "non-negative integer"))?,
    };
    Ok(NewEndpoint { url: url.canonical(), enabled, sort_order })
}

fn probe_model(fields: &Fields) -> Result<Option<String>, Invalid> {
    let name = "postRefreshProbeModel";
    let Some(text) = fields.text(name)?.map(str::trim) else { return Ok(None) };
    if text.chars().count() > MAX_KEY_CHARS {
        return Err(Invalid::field(name, "string of at most 191 characters"));
    }
    Ok(Some(text.to_owned()))
}

#[cfg(test)]
mod tests;
