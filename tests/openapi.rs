//! The description of the API: it lists what the service answers, and how to authenticate.

use serde_json::{Value, json};

use crate::support::{Gateway, Request};

const PATH: &str = "/api/openapi.json";

#[test]
fn the_description_is_for_admins() {
    let gateway = Gateway::start();
    gateway.anyone().get(PATH).expect(401);
    gateway.client().get(PATH).expect(403);
    let description = gateway.admin().get(PATH).expect(200);
    assert_eq!(description["openapi"], "3.1.0");
    assert_eq!(description["info"]["title"], "Switchyard");
}

#[test]
fn an_operation_tells_what_it_is_for_and_who_may_use_it() {
    let description = Gateway::start().admin().get(PATH).expect(200);
    assert_eq!(description["security"], json!([{"admin": []}]), "where an operation says nothing else");
    let operation = |path: &str, method: &str| description["paths"][path][method].clone();
    for (path, method, security) in [
        ("/api/desktop/health", "get", json!([])),
        ("/api/settings/runtime", "put", Value::Null),
        ("/v1/chat/completions", "post", json!([{"client": []}])),
        ("/v1/models/{model}", "get", json!([{"client": []}])),
    ] {
        assert_eq!(operation(path, method)["security"], security, "{path}");
    }
    let logs = operation("/api/stats/proxy-logs", "get");
    let names: Vec<_> =
        logs["parameters"].as_array().expect("parameters").iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["limit", "offset", "status", "search", "client", "siteId", "from", "to", "view"]);
    let site = operation("/api/sites/{id}", "put");
    assert_eq!(site["parameters"], json!([{"$ref": "#/components/parameters/row"}]));
    let id = json!({"name": "id", "in": "path", "required": true,
        "schema": {"type": "integer", "minimum": 1}});
    assert_eq!(description["components"]["parameters"]["row"], id);
    assert!(site["requestBody"]["content"]["application/json"].is_object());
}

#[test]
fn the_routes_for_clients_tell_what_the_gateway_reads_and_let_everything_else_pass() {
    let description = Gateway::start().admin().get(PATH).expect(200);
    let resolved = |value: &Value| -> Value {
        let path = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        path.map_or_else(|| value.clone(), |path| description.pointer(path).cloned().unwrap_or_default())
    };
    let mut requests = 0;
    for (path, methods) in description["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            if operation["security"] != json!([{"client": []}]) {
                continue;
            }
            let bodies = operation["requestBody"]["content"].as_object();
            let cancels = path.ends_with("/cancel");
            assert_eq!(bodies.is_some(), method == "post" && !cancels, "{method} {path}");
            for body in bodies.into_iter().flat_map(|bodies| bodies.values()) {
                let schema = resolved(&body["schema"]);
                assert_eq!(schema["additionalProperties"], true, "{path}: {schema}");
                requests += 1;
            }
            let is_socket = operation["summary"].as_str().is_some_and(|text| text.contains("426"));
            let answer = resolved(&operation["responses"]["2XX"]);
            assert_eq!(answer["content"].is_object(), !is_socket, "{method} {path}");
        }
    }
    assert!(requests > 30, "{requests}");
    let chat = resolved(
        &description["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"],
    );
    assert_eq!(chat["required"], json!(["model", "messages"]));
}

#[test]
fn the_description_stays_small_enough_to_be_read_in_a_change() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
    let length = std::fs::metadata(file).expect("docs/openapi.json").len();
    assert!(length < 300_000, "{length} bytes");
}

/// Every described path and method, requested without a token, is known: neither 404 nor 405.
#[test]
fn everything_described_is_served() {
    let gateway = Gateway::start();
    let description = gateway.admin().get(PATH).expect(200);
    let mut count = 0;
    for (path, methods) in description["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            assert!(
                operation["summary"].as_str().is_some_and(|summary| !summary.is_empty()),
                "{method} {path}"
            );
            let target = path.replace("{id}", "1").replace("{vendor}", "v").replace("{model}", "m");
            let answer = gateway.anyone().send(Request::new(&method.to_uppercase(), &target));
            let expected = if operation["security"] == Value::Array(Vec::new()) { 200 } else { 401 };
            assert_eq!(answer.status, expected, "{method} {path}");
            count += 1;
        }
    }
    assert!(count > 80, "{count}");
}
