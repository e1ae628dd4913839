//! Who may use the admin API, and the change of the admin token.
//!
//! The service calls [`authorize`] before the handler of every admin route, and before it says that a path
//! under `/api` does not exist. The order is fixed:
//!
//! ```text
//! address not in the allow-list         403 IP not allowed                    address_not_allowed
//! no or a blank Authorization header    401 Missing Authorization header      missing_token
//! another token                         403 Invalid token                     invalid_token
//! placeholder token from elsewhere      403 names the variable to set         builtin_token
//! … or with another Host or Origin      403 names the variable to set         builtin_token
//! ```
//!
//! The last column is the response's `code`, so that clients need not parse the message.
//!
//! The comparison takes the same time wherever the first difference is; it only reveals the token's length.

pub mod schema;

use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::AUTHORIZATION;
use hyper::{HeaderMap, StatusCode};
use serde_json::json;
use subtle::ConstantTimeEq;

use super::errors::{AdminError, Result};
use super::input::{Fields, Invalid};
use super::{guard, secrets};
use crate::admin::Admin;
use crate::admin::bucket;
use crate::config::PLACEHOLDER_AUTH_TOKEN;
use crate::core::Core;
use crate::http::{self, Request, Response, address, bearer, origin};
use crate::settings::AllowList;
use crate::store::events::{EventLevel, NewEvent};
use crate::store::settings;
use crate::time::now_ms;

/// Minimum length of an admin token, in characters.
const MIN_TOKEN_CHARS: usize = 6;
const MAX_TOKEN_CHARS: usize = 512;

/// The settings that decide who is let in.
pub struct AdminAccess<'a> {
    pub token: &'a str,
    /// Whether the token was saved through the admin API, or by a factory reset; the variable has no effect then.
    pub is_saved: bool,
    pub allow_list: &'a AllowList,
}

/// The origin of a request.
pub struct Caller<'a> {
    /// The IP address of the socket's peer.
    pub peer: IpAddr,
    /// The client's IP address, as far as trusted proxies report it.
    pub client: IpAddr,
    pub headers: &'a HeaderMap,
}

/// Checks a caller; returns the refusal when it is not let in.
pub fn check(access: &AdminAccess<'_>, caller: &Caller<'_>) -> Result<()> {
    let refusal = |status, code, message: &str| Err(AdminError::new(status, message).flag("code", code));
    if !access.allow_list.admits(caller.client) {
        return refusal(StatusCode::FORBIDDEN, "address_not_allowed", "IP not allowed");
    }
    let presented =
        caller.headers.get(AUTHORIZATION).filter(|header| !header.as_bytes().trim_ascii().is_empty());
    let Some(header) = presented else {
        return refusal(StatusCode::UNAUTHORIZED, "missing_token", "Missing Authorization header");
    };
    if !is_same(bearer::token(header.as_bytes()), access.token) {
        return refusal(StatusCode::FORBIDDEN, "invalid_token", "Invalid token");
    }
    if access.token == PLACEHOLDER_AUTH_TOKEN {
        let refuse = |message: String| refusal(StatusCode::FORBIDDEN, "builtin_token", &message);
        let remedy = if access.is_saved {
            "Change it on that machine: POST /api/settings/auth/change. AUTH_TOKEN has no effect, because the \
                 built-in token was saved, as a factory reset does."
        } else {
            "Set AUTH_TOKEN and restart."
        };
        if !address::is_local(caller.peer, caller.client) {
            return refuse(format!("The built-in admin token is accepted from this machine only. {remedy}"));
        }
        if !origin::is_of_this_machine(caller.headers) {
            return refuse(format!(
                "The built-in admin token is public, so it is accepted only if Host and Origin name this \
                 machine; those of this request do not. {remedy}"
            ));
        }
    }
    Ok(())
}

fn is_same(presented: &[u8], token: &str) -> bool {
    !token.is_empty() && presented.ct_eq(token.as_bytes()).into()
}

/// Checks a caller of the `/api` group against the settings in force; returns the refusal when it is not let in.
pub fn authorize(core: &Core, caller: &Caller<'_>) -> Result<()> {
    let settings = core.settings.load();
    let access = AdminAccess {
        token: &settings.auth_token,
        is_saved: settings.auth_token != core.config.auth_token,
        allow_list: &settings.admin_ip_allowlist,
    };
    check(&access, caller)
}

/// `GET /api/settings/auth/info`: shows the admin token in force, masked. The console checks a typed token with this
/// route.
pub async fn info(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let masked = secrets::mask(&admin.core.settings.load().auth_token);
    Ok(http::json(StatusCode::OK, &json!({ "masked": masked })))
}

/// `POST /api/settings/auth/change`: changes the admin token; the new one is valid from the next request on.
pub async fn change(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::CHANGE, request.json_object().await?);
    guard(&admin, &request, &bucket::AUTH_CHANGE)?;
    let old = fields.text("oldToken")?.filter(|text| !text.is_empty());
    let old = old.ok_or_else(|| Invalid::field("oldToken", "non-empty string"))?;
    let new = new_token(&fields)?;
    let _turn = admin.core.settings_edits.lock().await;
    if !is_same(old.as_bytes(), &admin.core.settings.load().auth_token) {
        // Not 403: clients take that for a lost login.
        return Err(Invalid::field("oldToken", "the current admin token").into());
    }
    let now = now_ms();
    let event = NewEvent {
        kind: "token",
        title: "Admin token changed".to_owned(),
        message: Some(format!("The admin token was changed from {}", request.client_ip)),
        level: EventLevel::Warning,
        related_id: None,
        related_type: Some("settings"),
    };
    let saved = settings::put_statement(&admin.core.store, "auth_token", &json!(new).to_string(), now)?;
    admin.core.store.batch(vec![saved, event.insert(now)]).await?;
    admin.core.reload_settings().await?;
    let body = json!({"success": true, "message": "The new admin token is in use from now on"});
    Ok(http::json(StatusCode::OK, &body))
}

/// Reads the new token, which must be visible ASCII (so that a header can carry it), long enough, and not the built-in
/// one.
fn new_token(fields: &Fields) -> Result<&str, Invalid> {
    let invalid = |expected| Invalid::field("newToken", expected);
    let new = fields.text("newToken")?.unwrap_or_default();
    if new.chars().count() < MIN_TOKEN_CHARS {
        return Err(invalid("string of at least 6 characters"));
    }
    if new.len() > MAX_TOKEN_CHARS || !new.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid("at most 512 visible ASCII characters without blanks"));
    }
    if new == PLACEHOLDER_AUTH_TOKEN {
        return Err(invalid("a token other than the built-in one"));
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(
        gate: &AdminAccess<'_>,
        peer: &str,
        client: &str,
        header: Option<&str>,
    ) -> Option<(u16, String)> {
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert(AUTHORIZATION, value.parse().expect("a header value"));
        }
        let caller = Caller {
            peer: peer.parse().expect("an address"),
            client: client.parse().expect("an address"),
            headers: &headers,
        };
        check(gate, &caller).err().map(|error| (error.status().as_u16(), error.message().to_owned()))
    }

    #[test]
    fn the_token_opens_in_every_documented_form() {
        let gate = AdminAccess { token: "secret-token", is_saved: false, allow_list: &AllowList::default() };
        for header in ["Bearer secret-token", "bearer   secret-token", "BEARER secret-token ", "secret-token"]
        {
            assert_eq!(enter(&gate, "9.9.9.9", "9.9.9.9", Some(header)), None, "{header}");
        }
        for header in [
            "Bearer",
            "Bearer ",
            "Bearersecret-token",
            "Bearer secret-toke",
            "Basic secret-token",
            "Bearer Bearer secret-token",
        ] {
            let refused = enter(&gate, "9.9.9.9", "9.9.9.9", Some(header));
            assert_eq!(refused, Some((403, "Invalid token".into())), "{header}");
        }
        for header in [None, Some(""), Some("  ")] {
            let refused = enter(&gate, "9.9.9.9", "9.9.9.9", header);
            assert_eq!(refused, Some((401, "Missing Authorization header".into())), "{header:?}");
        }
    }

    #[test]
    fn a_new_token_is_one_that_a_header_can_carry() {
        let read = |value: serde_json::Value| {
            let fields = Fields::of(
                &schema::CHANGE,
                json!({"newToken": value}).as_object().cloned().unwrap_or_default(),
            );
            new_token(&fields).map(str::to_owned)
        };
        assert_eq!(read(json!("abc-12")), Ok("abc-12".to_owned()));
        for value in [
            json!("short"),
            json!(" padded-token"),
            json!("padded-token "),
            json!("two words"),
            json!("tab\there"),
            json!("gr\u{fc}n-token"),
            json!(PLACEHOLDER_AUTH_TOKEN),
            json!("x".repeat(513)),
            json!(null),
            json!(123456),
        ] {
            let Err(refused) = read(value.clone()) else { panic!("{value} was accepted") };
            assert!(refused.to_string().contains("newToken"), "{refused}");
        }
    }

    #[test]
    fn an_empty_token_never_opens() {
        let gate = AdminAccess { token: "", is_saved: false, allow_list: &AllowList::default() };
        for header in ["Bearer", "Bearer ", "x"] {
            assert_eq!(
                enter(&gate, "127.0.0.1", "127.0.0.1", Some(header)).map(|refused| refused.0),
                Some(403)
            );
        }
    }

    #[test]
    fn the_allow_list_is_asked_first() {
        let list = AllowList::of(&["10.0.0.0/8", "127.0.0.1/32", "2001:db8::/32"].map(str::to_owned));
        let gate = AdminAccess { token: "secret-token", is_saved: false, allow_list: &list };
        for client in ["10.1.2.3", "::ffff:10.1.2.3", "127.0.0.1", "::1", "2001:db8::7"] {
            assert_eq!(enter(&gate, client, client, Some("secret-token")), None, "{client}");
        }
        assert!(enter(&gate, "127.0.0.2", "127.0.0.2", Some("secret-token")).is_some());
        let other_spelling = AllowList::of(&["::1/128".to_owned()]);
        let by_other_spelling =
            AdminAccess { token: "secret-token", is_saved: false, allow_list: &other_spelling };
        assert_eq!(enter(&by_other_spelling, "127.0.0.1", "127.0.0.1", Some("secret-token")), None);
        for header in [None, Some("secret-token")] {
            assert_eq!(enter(&gate, "11.0.0.1", "11.0.0.1", header), Some((403, "IP not allowed".into())));
        }
    }

    #[test]
    fn the_placeholder_works_from_this_machine_only() {
        let gate =
            AdminAccess { token: PLACEHOLDER_AUTH_TOKEN, is_saved: false, allow_list: &AllowList::default() };
        let header = Some(PLACEHOLDER_AUTH_TOKEN);
        for local in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(enter(&gate, local, local, header), None, "{local}");
        }
        for (peer, client) in [("192.168.1.5", "192.168.1.5"), ("127.0.0.1", "8.8.8.8")] {
            let (status, message) = enter(&gate, peer, client, header).expect("refused");
            assert_eq!(status, 403);
            assert!(message.contains("AUTH_TOKEN"), "{message}");
        }
    }
}
