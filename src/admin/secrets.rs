//! How credentials look in responses (always masked), and what it means when a client sends a mask back. An edit form
//! returns every field it was given; a value that equals the mask of the stored secret counts as unchanged and never
//! overwrites it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::input::{Invalid, Patch};
use crate::credential_names;

pub use crate::mask::{
    is_of_proxy_url as is_proxy_mask, is_of_secret as is_our_mask, of_proxy_url as mask_proxy_url,
    of_secret as mask, of_target as mask_target,
};

/// Whether `sent` is the mask of what is stored.
pub fn is_echo(sent: &str, stored: Option<&str>) -> bool {
    stored.is_some_and(|stored| !stored.is_empty() && sent != stored && sent == mask(stored))
}

/// The expected value in the refusal of a mask of some other secret, which was shown before somebody else saved the
/// present one.
pub const WHOLE: &str = "whole value, not a mask";

/// Reads a proxy address from a request: the mask of the stored address means that it stays, so that gives `None`.
///
/// # Errors
/// The address is the mask of some other address.
pub fn sent_proxy(sent: Patch<String>, stored: Option<&str>) -> Result<Patch<String>, Invalid> {
    match sent {
        Some(Some(sent)) if is_proxy_echo(&sent, stored) => Ok(None),
        Some(Some(sent)) if is_proxy_mask(&sent) => Err(Invalid::field("proxyUrl", WHOLE)),
        sent => Ok(sent),
    }
}

/// Whether `sent` is the mask that [`mask_proxy_url`] gives the stored address.
pub fn is_proxy_echo(sent: &str, stored: Option<&str>) -> bool {
    stored.is_some_and(|stored| sent != stored && sent == mask_proxy_url(stored))
}

/// Whether `sent` is the mask that [`mask_target`] gives the stored address.
pub fn is_target_echo(sent: &str, stored: &str) -> bool {
    !stored.is_empty() && sent != stored && sent == mask_target(stored)
}

/// Masks the values of custom headers whose name says that they authenticate.
pub fn mask_headers(canonical: &str) -> String {
    let Some(mut headers) = parse_headers(canonical) else { return String::new() };
    for (name, value) in &mut headers {
        if credential_names::is_header(name) {
            *value = mask(value);
        }
    }
    write_headers(&headers)
}

/// Replaces each echoed mask in the custom headers that were sent by the stored value.
///
/// # Errors
/// A value is a mask, and not that of the stored value.
pub fn unmask_headers(sent: &str, stored: Option<&str>) -> Result<String, Invalid> {
    let Some(mut headers) = parse_headers(sent) else { return Ok(sent.to_owned()) };
    let known = stored.and_then(parse_headers).unwrap_or_default();
    for (name, value) in &mut headers {
        match known.get(name) {
            Some(same) if same == value => {}
            Some(secret) if credential_names::is_header(name) && is_echo(value, Some(secret)) => {
                value.clone_from(secret);
            }
            _ if is_our_mask(value) => return Err(Invalid::field(&format!("customHeaders: {name}"), WHOLE)),
            _ => {}
        }
    }
    Ok(write_headers(&headers))
}

/// Removes members, at any depth, whose names say that they hold a credential: credentials have sealed columns of their
/// own, and free JSON beside them is neither sealed nor masked.
pub fn drop_credentials(object: &mut Map<String, Value>) {
    object.retain(|name, _| !credential_names::is_member(name));
    object.values_mut().for_each(drop_credentials_within);
}

fn drop_credentials_within(value: &mut Value) {
    match value {
        Value::Object(object) => drop_credentials(object),
        Value::Array(items) => items.iter_mut().for_each(drop_credentials_within),
        _ => {}
    }
}

fn parse_headers(canonical: &str) -> Option<BTreeMap<String, String>> {
    serde_json::from_str(canonical).ok()
}

fn write_headers(headers: &BTreeMap<String, String>) -> String {
    serde_json::to_string(headers).unwrap_or_default() // a map of texts to texts always serialises
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_mask_keeps_four_characters_at_each_end() {
        for (secret, shown) in [
            ("", ""),
            ("a", "****"),
            ("12345678", "****"),
            ("123456789", "1234****6789"),
            ("sk-abcdefghij", "sk-a****ghij"),
            ("ключ-от-двери", "ключ****вери"),
        ] {
            assert_eq!(mask(secret), shown);
        }
    }

    #[test]
    fn only_the_mask_of_the_stored_secret_is_an_echo() {
        assert!(is_echo("sk-a****ghij", Some("sk-abcdefghij")));
        assert!(is_echo("****", Some("short")));
        assert!(!is_echo("sk-b****ghij", Some("sk-abcdefghij")));
        assert!(!is_echo("", Some("")));
        assert!(!is_echo("****", None));
        assert!(!is_echo("****", Some("****")));
    }

    #[test]
    fn a_proxy_address_hides_its_password() {
        for (url, shown) in [
            ("socks5://user:pa:ss@p.example:1080", "socks5://user:****@p.example:1080"),
            ("http://an-api-key@p.example", "http://****@p.example"),
            ("http://an-api-key:@p.example", "http://****@p.example"),
            ("http://p.example:8080", "http://p.example:8080"),
        ] {
            assert_eq!(mask_proxy_url(url), shown);
        }
        assert!(is_proxy_echo("http://u:****@p.example", Some("http://u:secret@p.example")));
        assert!(is_proxy_echo("http://****@p.example", Some("http://an-api-key@p.example")));
        assert!(!is_proxy_echo("http://u:other@p.example", Some("http://u:secret@p.example")));
    }

    #[test]
    fn where_messages_go_hides_the_path() {
        for (url, shown) in [
            ("https://hooks.example/services/T0/B0/secret", "https://hooks.example/****"),
            ("https://hooks.example?key=secret", "https://hooks.example/****"),
            ("https://user:pass@hooks.example:8443/x", "https://****@hooks.example:8443/****"),
            ("https://user:pass@hooks.example", "https://****@hooks.example"),
            ("https://hooks.example/", "https://hooks.example/"),
            ("not-an-address", "not-****ress"),
            ("", ""),
        ] {
            assert_eq!(mask_target(url), shown);
        }
        assert!(is_target_echo("https://h.example/****", "https://h.example/secret"));
        assert!(!is_target_echo("https://h.example/", "https://h.example/"));
        assert!(!is_target_echo("", ""));
    }

    #[test]
    fn credentials_are_taken_out_of_free_json() {
        let mut object = json!({
            "note": "n",
            "Session-Cookie": "s",
            "oauth": {"email": "e", "id_token": "s", "refreshToken": "s", "tokenExpiresAt": 7,
                "providerData": {"a": "s"}, "quota": [{"api_key": "s", "left": 1}]},
        });
        drop_credentials(object.as_object_mut().expect("an object"));
        let kept = json!({"note": "n", "oauth": {"email": "e", "tokenExpiresAt": 7, "quota": [{"left": 1}]}});
        assert_eq!(object, kept);
    }

    #[test]
    fn headers_that_authenticate_are_masked_and_survive_an_echo() {
        for name in [
            "x-pass",
            "x-bearer",
            "x-jwt",
            "x-pat",
            "x-session-id",
            "cf-access-client-id",
            "x-gateway-pw",
            "x-sig",
        ] {
            let shown = mask_headers(&format!(r#"{{"{name}":"0123456789ab"}}"#));
            assert_eq!(shown, format!(r#"{{"{name}":"0123****89ab"}}"#));
        }
        for name in ["accept", "user-agent", "x-path", "x-signal", "x-scope"] {
            let plain = format!(r#"{{"{name}":"0123456789ab"}}"#);
            assert_eq!(mask_headers(&plain), plain);
        }
        let stored = r#"{"api-key":"0123456789ab","x-scope":"internal"}"#;
        let shown = mask_headers(stored);
        assert_eq!(shown, r#"{"api-key":"0123****89ab","x-scope":"internal"}"#);
        assert_eq!(unmask_headers(&shown, Some(stored)).unwrap(), stored);
        let changed = r#"{"api-key":"new-key-value","x-scope":"public"}"#;
        assert_eq!(unmask_headers(changed, Some(stored)).unwrap(), changed);
        for other in [None, Some(r#"{"api-key":"another-secret"}"#)] {
            assert!(unmask_headers(&shown, other).is_err(), "{other:?}");
        }
        let renamed = r#"{"x-new":"0123****89ab"}"#;
        assert!(unmask_headers(renamed, Some(stored)).is_err(), "a mask under another name is no value");
        let odd = r#"{"x-scope":"****"}"#;
        assert_eq!(unmask_headers(odd, Some(odd)).unwrap(), odd, "stored as it is");
    }
}
