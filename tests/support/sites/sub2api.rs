//! sub2api. Sources: Wei-Shaw/sub2api (backend/internal/handler, middleware/jwt_auth.go, api_key_auth.go).

use serde_json::{Value, json};

use super::{Ada, Reply, StubKey};
use crate::support::ReceivedRequest;

pub fn answer(ada: &mut Ada, asked: &ReceivedRequest) -> Option<Reply> {
    let path = asked.path();
    if path.starts_with("/v1/") || path.starts_with("/v1beta/") {
        return refuse_key(ada, asked);
    }
    Some(match (asked.method.as_str(), path) {
        ("GET", "/") => Reply::html(200, "<!doctype html><title>Sub2API - AI API Gateway</title>"),
        ("GET", "/api/v1/settings/public") => {
            ok(&json!({"site_name": "Sub2API", "version": "0.1.61", "registration_enabled": false}))
        }
        ("POST", "/api/v1/auth/login") => login(ada, asked),
        _ if path.starts_with("/api/v1/") => match refuse_session(ada, asked) {
            Some(refusal) => refusal,
            None => {
                as_user(ada, asked).unwrap_or_else(|| Reply::bytes(404, "text/plain", "404 page not found"))
            }
        },
        _ => Reply::bytes(404, "text/plain", "404 page not found"),
    })
}

fn ok(data: &Value) -> Reply {
    Reply::json(200, &json!({"code": 0, "message": "success", "data": data}))
}

/// Builds a middleware's refusal: the code is a word.
fn stopped(code: &str, message: &str) -> Reply {
    Reply::json(401, &json!({"code": code, "message": message}))
}

/// Builds a handler's refusal: the code repeats the status.
fn failed(status: u16, message: &str, reason: &str) -> Reply {
    Reply::json(status, &json!({"code": status, "message": message, "reason": reason}))
}

fn refuse_key(ada: &Ada, asked: &ReceivedRequest) -> Option<Reply> {
    if asked.header("authorization").is_none() && asked.header("x-api-key").is_none() {
        return Some(stopped("API_KEY_REQUIRED", "API key is required in Authorization header"));
    }
    ada.refuse_key(asked, "").map(|_| stopped("INVALID_API_KEY", "Invalid API key"))
}

fn refuse_session(ada: &Ada, asked: &ReceivedRequest) -> Option<Reply> {
    let Some(value) = asked.header("authorization") else {
        return Some(stopped("UNAUTHORIZED", "Authorization header is required"));
    };
    // The scheme must be spelled exactly like this.
    let Some(token) = value.strip_prefix("Bearer ") else {
        return Some(stopped("INVALID_AUTH_HEADER", "Authorization header format must be 'Bearer {token}'"));
    };
    if token.split('.').count() != 3 {
        return Some(stopped("INVALID_TOKEN", "Invalid token"));
    }
    let is_refresh = asked.path() == "/api/v1/auth/refresh";
    (token != ada.token && !is_refresh).then(|| stopped("TOKEN_EXPIRED", "Token has expired"))
}

fn login(ada: &Ada, asked: &ReceivedRequest) -> Reply {
    let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    if body["email"] != "ada@example.com" || body["password"] != ada.password.as_str() {
        return failed(401, "invalid email or password", "INVALID_CREDENTIALS");
    }
    ok(&json!({"access_token": ada.token, "refresh_token": ada.refresh_token, "expires_in": 3600,
        "token_type": "Bearer", "user": {"id": ada.id, "email": "ada@example.com", "username": ""}}))
}

fn as_user(ada: &mut Ada, asked: &ReceivedRequest) -> Option<Reply> {
    let path = asked.path();
    Some(match (asked.method.as_str(), path) {
        ("GET", "/api/v1/auth/me") => ok(&json!({"id": ada.id, "email": "ada@example.com", "username": "",
            "role": "user", "balance": ada.quota as f64 / 500_000.0, "concurrency": 5,
            "status": "active"})),
        ("POST", "/api/v1/auth/refresh") => refresh(ada, asked),
        ("GET", "/api/v1/subscriptions/summary") => ok(&json!({"active_count": 1, "total_used_usd": 1.5,
            "subscriptions": [{"id": 3, "group_id": 2, "group_name": "pro", "status": "active",
                "monthly_used_usd": 1.5, "monthly_limit_usd": 20, "expires_at": "2027-04-01T00:00:00Z"}]})),
        ("GET", "/api/v1/keys") => {
            let items: Vec<Value> = ada.keys.iter().map(item).collect();
            ok(&json!({"items": items, "total": items.len(), "page": 1, "page_size": 100, "pages": 1}))
        }
        ("POST", "/api/v1/keys") => {
            let body: Value = serde_json::from_slice(&asked.body).ok()?;
            let group = body["group_id"].as_i64().map(|id| id.to_string()).unwrap_or_default();
            ada.add_key(body["name"].as_str()?, &group);
            ok(&item(ada.keys.last()?))
        }
        ("DELETE", path) => {
            let id: i64 = path.strip_prefix("/api/v1/keys/")?.parse().ok()?;
            let before = ada.keys.len();
            ada.keys.retain(|key| key.id != id);
            if ada.keys.len() < before {
                ok(&json!({"message": "API key deleted successfully"}))
            } else {
                failed(404, "api key not found", "API_KEY_NOT_FOUND")
            }
        }
        ("GET", "/api/v1/groups/available") => ok(&json!([
            {"id": 2, "name": "pro", "platform": "anthropic", "rate_multiplier": 1, "daily_limit_usd": null},
            {"id": 4, "name": "basic", "platform": "openai", "rate_multiplier": 1, "daily_limit_usd": null}])),
        ("GET", "/api/v1/announcements") => {
            let item = json!({"id": 12, "title": "Notice", "content": ada.notice, "notify_mode": "silent",
                "created_at": "2026-03-01T08:00:00Z", "updated_at": "2026-03-01T08:00:00Z"});
            ok(&json!(if ada.notice.is_empty() { vec![] } else { vec![item] }))
        }
        _ => return None,
    })
}

fn item(key: &StubKey) -> Value {
    let status = if key.enabled { "active" } else { "inactive" };
    json!({"id": key.id, "user_id": 5, "key": format!("sk-{}", key.key), "name": key.name,
        "group_id": key.group.parse::<i64>().ok(), "status": status, "quota": 0, "quota_used": 0,
        "expires_at": null, "created_at": "2026-01-01T00:00:00Z"})
}

/// Rotates the refresh token: the old one becomes invalid at once.
fn refresh(ada: &mut Ada, asked: &ReceivedRequest) -> Reply {
    let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    if body["refresh_token"] != ada.refresh_token.as_str() {
        return failed(401, "invalid refresh token", "REFRESH_TOKEN_INVALID");
    }
    ada.refreshes += 1;
    ada.token = format!("eyJhbGciOiJIUzI1NiJ9.cmVmcmVzaGVk.{}", ada.refreshes);
    ada.refresh_token = format!("rt_{}", ada.refreshes);
    ok(&json!({"access_token": ada.token, "refresh_token": ada.refresh_token, "expires_in": 3600,
        "token_type": "Bearer"}))
}
