//! The programs of the new-api family. Sources: QuantumNous/new-api (controller/user.go, token.go,
//! checkin.go, misc.go, middleware/auth.go), songquanpeng/one-api (the same files), MartialBE/one-hub
//! and deanxv/done-hub (controller/token.go, model.go), Veloera/Veloera (controller/user.go).

use serde_json::{Map, Value, json};

use super::{Ada, Program, Reply, StubKey};
use crate::support::ReceivedRequest;

pub fn answer(program: Program, ada: &mut Ada, asked: &ReceivedRequest) -> Option<Reply> {
    let path = asked.path();
    if path.starts_with("/v1/") {
        // The stub's data plane answers every request that is let in.
        let kind = if program == Program::OneApi { "one_api_error" } else { "new_api_error" };
        return ada.refuse_key(asked, kind);
    }
    let reply = match (asked.method.as_str(), path) {
        ("GET", "/") => Reply::html(200, &home(program)),
        ("GET", "/api/status") => ok(&status(program, ada)),
        ("GET", "/api/notice") => ok(&json!(ada.notice)),
        ("POST", "/api/user/login") => login(program, ada, asked),
        _ if path.starts_with("/api/") => match refuse_session(program, ada, asked) {
            Some(refusal) => refusal,
            None => as_user(program, ada, asked).unwrap_or_else(|| no_such_route(asked)),
        },
        _ => no_such_route(asked),
    };
    Some(reply)
}

/// Builds `{"success":true,"message":"","data":…}`, which every program puts around its answers.
fn ok(data: &Value) -> Reply {
    Reply::json(200, &json!({"success": true, "message": "", "data": data}))
}

fn done(message: &str) -> Reply {
    Reply::json(200, &json!({"success": true, "message": message}))
}

fn no(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!({"success": false, "message": message}))
}

/// Builds the answer of the relay's NoRoute handler in gin.
fn no_such_route(asked: &ReceivedRequest) -> Reply {
    let message = format!("Invalid URL ({} {})", asked.method, asked.path());
    let error = json!({"message": message, "type": "invalid_request_error", "param": "", "code": ""});
    Reply::json(404, &json!({"error": error}))
}

/// Returns the start page with the default title, by which detection tells the programs apart.
fn home(program: Program) -> String {
    let title = match program {
        Program::NewApi => "New API",
        Program::AnyRouter => "Any Router",
        Program::OneApi => "One API",
        Program::OneHub => "One Hub",
        Program::DoneHub => "Done Hub",
        _ => "Veloera",
    };
    format!("<!doctype html><html><head><title>{title}</title></head><body><div id=root></div></body></html>")
}

/// Builds the minimum that each program reveals without a session; detection reads these keys.
fn status(program: Program, ada: &Ada) -> Value {
    let mut status = match program {
        Program::OneApi => json!({"version": "v0.6.10", "start_time": 1740134400, "system_name": "One API",
            "display_in_currency": true, "chat_link": "", "oidc": false, "oidc_well_known": ""}),
        Program::OneHub => json!({"version": "v0.14.27", "system_name": "One Hub", "PaymentUSDRate": 7.3,
            "oidc_auth": false, "chat_links": "", "EnableSafe": false}),
        Program::DoneHub => json!({"version": "v1.0.0", "system_name": "Done Hub", "PaymentUSDRate": 7.3,
            "oidc_auth": false, "chat_links": "", "linuxDo_oauth": false, "invite_code_register": false,
            "builtin_chat_enabled": false}),
        Program::Veloera => json!({"version": "v0.4.0", "system_name": "Veloera", "enable_drawing": true,
            "setup": true, "check_in_enabled": true, "docs_link": ""}),
        _ => json!({"version": "v1.0.0", "start_time": 1767225600, "system_name": "Relay",
            "turnstile_check": false, "setup": true, "checkin_enabled": true, "quota_display_type": "USD",
            "enable_drawing": true}),
    };
    status["quota_per_unit"] = json!(ada.quota_per_unit);
    status
}

fn login(program: Program, ada: &Ada, asked: &ReceivedRequest) -> Reply {
    let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    if body["username"] != "ada" || body["password"] != ada.password.as_str() {
        return no(200, "用户名或密码错误，或用户已被封禁");
    }
    let user = json!({"id": ada.id, "username": "ada", "display_name": "Ada", "role": 1, "status": 1,
        "group": "default"});
    let cookie = format!("session={}; Path=/; HttpOnly", ada.cookie);
    let reply = ok(&user).header("set-cookie", &cookie);
    // anyrouter is behind a shield that sets a cookie of its own.
    if program == Program::AnyRouter { reply.header("set-cookie", "acw_tc=1a2b; Path=/") } else { reply }
}

/// Refuses an invalid session in each program's own words; new-api and Veloera also require the user's id in a header.
fn refuse_session(program: Program, ada: &Ada, asked: &ReceivedRequest) -> Option<Reply> {
    let bearer = asked.header("authorization").map(|value| value.trim_start_matches("Bearer "));
    let cookie = format!("session={}", ada.cookie);
    let by_cookie = asked.header("cookie").is_some_and(|line| line.split("; ").any(|pair| pair == cookie));
    if !by_cookie {
        match bearer {
            None => return Some(no(401, "无权进行此操作，未登录且未提供 access token")),
            Some(token) if token != ada.token => return Some(no(200, "无权进行此操作，access token 无效")),
            Some(_) => {}
        }
    }
    let name = match program {
        Program::NewApi | Program::AnyRouter => "New-Api-User",
        Program::Veloera => "Veloera-User",
        _ => return None,
    };
    let Some(shown) = asked.header(name) else {
        return Some(no(401, &format!("无权进行此操作，未提供 {name}")));
    };
    match shown.parse::<i64>() {
        Err(_) => Some(no(401, &format!("无权进行此操作，{name} 格式错误"))),
        Ok(id) if id != ada.id => Some(no(401, &format!("无权进行此操作，{name} 与登录用户不匹配"))),
        Ok(_) => None,
    }
}

fn as_user(program: Program, ada: &mut Ada, asked: &ReceivedRequest) -> Option<Reply> {
    let is_hub = matches!(program, Program::OneHub | Program::DoneHub);
    let path = asked.path();
    Some(match (asked.method.as_str(), path) {
        ("GET", "/api/user/self") => ok(&json!({"id": ada.id, "username": "ada", "display_name": "Ada",
            "role": 1, "status": 1, "email": "", "group": "default", "quota": ada.quota,
            "used_quota": ada.used, "request_count": 42})),
        ("POST", "/api/user/checkin") if matches!(program, Program::NewApi | Program::AnyRouter) => {
            check_in(ada, "今日已签到", "quota_awarded")
        }
        ("POST", "/api/user/check_in") if program == Program::Veloera => {
            check_in(ada, "你今天已经签到过了", "quota")
        }
        ("GET", "/api/user/self/groups") if !is_hub && program != Program::OneApi => {
            let group = |name: &String| (name.clone(), json!({"ratio": 1, "desc": name}));
            ok(&Value::Object(ada.groups.iter().map(group).collect()))
        }
        ("GET", "/api/user_group_map") if is_hub => {
            let group =
                |name: &String| (name.clone(), json!({"id": 1, "symbol": name, "name": name, "ratio": 1}));
            ok(&Value::Object(ada.groups.iter().map(group).collect()))
        }
        ("GET", "/api/user/models") if !is_hub && program != Program::OneApi => ok(&json!(ada.models)),
        ("GET", "/api/user/available_models") if program == Program::OneApi => ok(&json!(ada.models)),
        ("GET", "/api/available_model") if is_hub => {
            let model = |name: &String| {
                (
                    name.clone(),
                    json!({"groups": ["default"], "owned_by": "x",
                "price": {"model": name, "type": "tokens", "channel_type": 1, "input": 1, "output": 1}}),
                )
            };
            ok(&Value::Object(ada.models.iter().map(model).collect::<Map<_, _>>()))
        }
        (_, path) if path.starts_with("/api/token/") => return keys(program, ada, asked),
        ("GET", "/api/log/self") => log(ada, asked),
        _ => return None,
    })
}

/// Credits the check-in award, once; `again` is the refusal of a second check-in, `award` the member that holds the amount.
fn check_in(ada: &mut Ada, again: &str, award: &str) -> Reply {
    if ada.checked_in {
        return no(200, again);
    }
    ada.checked_in = true;
    ada.quota += ada.award;
    let data = json!({award: ada.award, "checkin_date": "2026-03-01"});
    Reply::json(200, &json!({"success": true, "message": "签到成功", "data": data}))
}

/// Lists, creates, reveals and deletes keys. Of the lists, new-api masks the keys and counts pages from 1, one-api and
/// Veloera count from 0 and return plain arrays, the hubs nest the list once more.
fn keys(program: Program, ada: &mut Ada, asked: &ReceivedRequest) -> Option<Reply> {
    let rest = asked.path().strip_prefix("/api/token/")?;
    match (asked.method.as_str(), rest) {
        ("GET", "") => Some(page_of_keys(program, ada, asked)),
        ("POST", "") => {
            let body: Value = serde_json::from_slice(&asked.body).ok()?;
            ada.add_key(body["name"].as_str()?, body["group"].as_str().unwrap_or_default());
            Some(done(""))
        }
        ("POST", "batch/keys") if program == Program::NewApi => {
            let body: Value = serde_json::from_slice(&asked.body).ok()?;
            let wanted =
                |key: &&StubKey| body["ids"].as_array().is_some_and(|ids| ids.contains(&json!(key.id)));
            let keys = ada.keys.iter().filter(wanted).map(|key| (key.id.to_string(), json!(key.key)));
            Some(ok(&json!({"keys": keys.collect::<Map<_, _>>()})))
        }
        ("POST", rest) if matches!(program, Program::NewApi | Program::AnyRouter) => {
            let id: i64 = rest.strip_suffix("/key")?.parse().ok()?;
            let key = ada.keys.iter().find(|key| key.id == id)?;
            Some(Reply::json(200, &json!({"success": true, "data": {"key": key.key}})))
        }
        // gin redirects to the route with a slash; one-api's own pages request that one.
        ("DELETE", rest) if program != Program::OneApi || rest.ends_with('/') => {
            let id: i64 = rest.trim_end_matches('/').parse().ok()?;
            let before = ada.keys.len();
            ada.keys.retain(|key| key.id != id);
            Some(if ada.keys.len() < before { done("") } else { no(200, "record not found") })
        }
        _ => None,
    }
}

fn page_of_keys(program: Program, ada: &Ada, asked: &ReceivedRequest) -> Reply {
    let query = asked.target.split_once('?').map_or("", |(_, query)| query);
    let number = |name: &str| {
        let pair = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        pair.and_then(|value| value.parse::<usize>().ok())
    };
    let is_new = matches!(program, Program::NewApi | Program::AnyRouter);
    // one-api's pages have ten items, whatever size is requested.
    let size = match program {
        Program::OneApi => 10,
        _ => number("size").unwrap_or(10).min(100),
    };
    let page = match program {
        Program::OneApi | Program::Veloera => number("p").unwrap_or(0) + 1,
        Program::OneHub | Program::DoneHub => number("page").unwrap_or(1).max(1),
        _ => number("p").unwrap_or(1).max(1),
    };
    let shown = ada.keys.iter().skip((page - 1) * size).take(size).map(|key| item(key, is_new));
    let items: Vec<Value> = shown.collect();
    ok(&match program {
        Program::OneApi | Program::Veloera => json!(items),
        Program::OneHub | Program::DoneHub => {
            json!({"data": items, "page": page, "size": size, "total_count": ada.keys.len()})
        }
        _ => json!({"page": page, "page_size": size, "total": ada.keys.len(), "items": items}),
    })
}

fn item(key: &StubKey, masked: bool) -> Value {
    let shown = if masked {
        format!("{}**********{}", &key.key[..4], &key.key[key.key.len() - 4..])
    } else {
        key.key.clone()
    };
    json!({"id": key.id, "user_id": 3, "key": shown, "status": if key.enabled { 1 } else { 2 },
        "name": key.name, "expired_time": -1, "remain_quota": 0, "unlimited_quota": true,
        "model_limits_enabled": false, "model_limits": "", "allow_ips": "", "used_quota": 0,
        "group": key.group})
}

/// Lists the credits: one by the system once the check-in has been made.
fn log(ada: &Ada, asked: &ReceivedRequest) -> Reply {
    let is_first = asked.target.contains("p=0&") || asked.target.contains("p=1&");
    let mut items = Vec::new();
    if asked.target.contains("type=4") && is_first && ada.checked_in {
        items.push(json!({"id": 1, "type": 4, "quota": ada.award, "content": "签到奖励"}));
    }
    ok(&json!({"page": 1, "page_size": 100, "total": items.len(), "items": items}))
}
