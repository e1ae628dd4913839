//! `GET /api/openapi.json`: every route of the service in OpenAPI 3.1, for people and their tools.
//!
//! Method, path, path parameters and authentication come from the router; summaries, requests and responses from the
//! descriptions of [`super::schema`]. `docs/openapi.json` is the same document. Tests keep the three in agreement: they
//! fail for a route without a description, a description without a route, and an outdated file.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::errors::{ADMIN_ERROR, Result};
use super::schema::{Answer, FILE, JSON, Member, Object, Operation, Shape, has, may, op};
use super::{
    accounts, announcements, auth, backup, channels, checkins, client_schema, decisions, events, health,
    keys, logs, metrics, models, oauth, playground, routes, search, settings, sites, stats, tasks, tokens,
    update_center,
};
use crate::admin::Admin;
use crate::http::{self, Access, Endpoint, Request, Response};

/// The description of this route itself.
static OPERATIONS: &[Operation] = &[op("GET /api/openapi.json", "This description").gives(Shape::Any)];

/// The name of the admin API's security scheme.
const OPERATORS: &str = "admin";
/// The name of the shared path parameter for a row's id.
const ROW: &str = "row";
/// The descriptions of responses.
const DONE: &str = "Done";
const FAILED: &str = "Failed";

/// `GET /api/openapi.json`
pub async fn get(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    Ok(http::json(StatusCode::OK, &description(admin.endpoints())))
}

/// Builds the document, with its members sorted by name.
pub fn description<'a>(endpoints: impl Iterator<Item = &'a Endpoint>) -> Value {
    let mut document = Document::default();
    let mut paths: BTreeMap<String, Value> = BTreeMap::new();
    for endpoint in endpoints {
        let methods = paths.entry(openapi_path(endpoint.path)).or_insert_with(|| json!({}));
        methods[endpoint.method.as_str().to_lowercase()] = document.operation(endpoint);
    }
    for error in [&ADMIN_ERROR, &TOO_MANY, &PROXY_ERROR] {
        document.reference(error);
    }
    let mut responses = share_answers(&mut paths);
    responses.extend(REFUSALS.iter().map(|refusal| refusal.response()));
    responses.insert(OF_CLIENTS.to_owned(), refused_client());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Switchyard",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Many upstream AI sites, each with accounts, behind one address.",
        },
        "security": [{ OPERATORS: [] }],
        "paths": paths,
        "components": {
            "parameters": { ROW: row_id() },
            "securitySchemes": {
                OPERATORS: { "type": "http", "scheme": "bearer", "description": "AUTH_TOKEN" },
                "client": { "type": "http", "scheme": "bearer", "description": "PROXY_TOKEN or a downstream key" },
            },
            "responses": responses,
            "schemas": document.schemas,
        },
    })
}

/// The document's schemas, each added when it is first referred to.
#[derive(Default)]
struct Document {
    schemas: BTreeMap<&'static str, Value>,
}

impl Document {
    fn operation(&mut self, endpoint: &Endpoint) -> Value {
        let name = name_of(endpoint);
        let known = operations().find(|operation| operation.route == name);
        let mut shown = json!({
            "operationId": operation_id(endpoint),
            "tags": [tag(endpoint)],
            "summary": known.map(|operation| operation.summary),
            "responses": self.responses(endpoint, known),
        });
        match endpoint.access {
            Access::Public => shown["security"] = json!([]),
            Access::Proxy => shown["security"] = json!([{ "client": [] }]),
            // The document's own security applies.
            Access::Admin => {}
        }
        let mut parameters = path_parameters(endpoint);
        for member in known.map_or(&[][..], |operation| operation.query) {
            parameters.push(self.parameter(member, "query"));
        }
        for member in known.map_or(&[][..], |operation| operation.headers) {
            parameters.push(self.parameter(member, "header"));
        }
        if !parameters.is_empty() {
            shown["parameters"] = parameters.into();
        }
        if let Some(body) = self.request_body(known) {
            shown["requestBody"] = body;
        }
        shown
    }

    fn parameter(&mut self, member: &Member, place: &str) -> Value {
        let mut shown = json!({ "name": member.name, "in": place, "schema": self.schema(&member.shape) });
        if member.is_required {
            shown["required"] = true.into();
        }
        if !member.about.is_empty() {
            shown["description"] = member.about.into();
        }
        shown
    }

    fn request_body(&mut self, known: Option<&Operation>) -> Option<Value> {
        if let Some(body) = known.and_then(|operation| operation.body) {
            let is_required = body.all_members().iter().any(|(_, member)| member.is_required);
            let schema = self.reference(body);
            let media = known.map_or(&[JSON][..], |operation| operation.media);
            let media = media.iter().map(|media| ((*media).to_owned(), json!({ "schema": schema })));
            let mut content = Value::Object(media.collect());
            if known.is_some_and(|operation| operation.takes_file) {
                content[FILE] = json!({ "schema": { "type": "string" } });
            }
            let mut shown = json!({ "content": content });
            if is_required {
                shown["required"] = true.into();
            }
            return Some(shown);
        }
        None
    }

    fn responses(&mut self, endpoint: &Endpoint, known: Option<&Operation>) -> Value {
        if endpoint.access == Access::Proxy {
            let mut done = json!({ "description": DONE });
            if let Some(answer) = known.and_then(|operation| operation.gives) {
                done["content"] = self.content(answer);
            }
            let refused = format!("#/components/responses/{OF_CLIENTS}");
            return json!({ "2XX": done, "default": { "$ref": refused } });
        }
        let mut responses = Map::new();
        for refusal in REFUSALS.iter().filter(|refusal| refusal.concerns(endpoint, known)) {
            let reference = format!("#/components/responses/{}", refusal.status);
            responses.insert(refusal.status.to_string(), json!({ "$ref": reference }));
        }
        let given = known.and_then(|operation| operation.gives).map(|answer| ("200", answer));
        let also = known.map_or(&[][..], |operation| operation.also);
        for (status, answer) in given.into_iter().chain(also.iter().copied()) {
            let description = if status.starts_with('2') { DONE } else { FAILED };
            let response = json!({ "description": description, "content": self.content(answer) });
            responses.insert(status.to_owned(), response);
        }
        responses.into()
    }

    fn content(&mut self, answer: Answer) -> Value {
        match answer {
            Answer::Json(shape) => json!({ "application/json": { "schema": self.schema(&shape) } }),
            Answer::JsonOr(shape, media) => {
                let mut content = self.content(Answer::Json(shape));
                for media in media {
                    content[media] = json!({ "schema": { "type": "string" } });
                }
                content
            }
            Answer::Events => json!({ "text/event-stream": { "schema": { "type": "string" } } }),
            Answer::Text(media_type) => json!({ media_type: { "schema": { "type": "string" } } }),
        }
    }

    /// Returns a reference to an object's schema, and adds the schema to the document.
    fn reference(&mut self, object: &'static Object) -> Value {
        if !self.schemas.contains_key(object.name) {
            self.schemas.insert(object.name, Value::Null);
            let schema = self.object(object);
            self.schemas.insert(object.name, schema);
        }
        json!({ "$ref": format!("#/components/schemas/{}", object.name) })
    }

    fn object(&mut self, object: &'static Object) -> Value {
        let (included, members) = object.parts();
        let required: Vec<_> =
            members.iter().filter(|(_, member)| member.is_required).map(|(name, _)| name.clone()).collect();
        let mut properties = Map::new();
        for (name, member) in members {
            let mut schema = self.schema(&member.shape);
            if !member.about.is_empty() {
                schema["description"] = member.about.into();
            }
            properties.insert(name, schema);
        }
        let mut shown = json!({ "type": "object", "properties": properties });
        if !required.is_empty() {
            shown["required"] = required.into();
        }
        if object.is_open {
            shown["additionalProperties"] = true.into();
        }
        if included.is_empty() {
            return shown;
        }
        let mut parts: Vec<Value> = included.into_iter().map(|object| self.reference(object)).collect();
        parts.push(shown);
        json!({ "allOf": parts })
    }

    fn schema(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Any => json!({}),
            Shape::Text => json!({ "type": "string" }),
            Shape::Time => json!({ "type": "string", "format": "date-time" }),
            Shape::Id => json!({ "type": "integer", "minimum": 1 }),
            Shape::Integer => json!({ "type": "integer" }),
            Shape::Count => json!({ "type": "integer", "minimum": 0 }),
            Shape::Number => json!({ "type": "number" }),
            Shape::Boolean => json!({ "type": "boolean" }),
            Shape::Is(value) => json!({ "type": "boolean", "const": value }),
            Shape::OneOf(texts) => json!({ "type": "string", "enum": texts }),
            Shape::OrNull(shape) => self.or_null(shape),
            Shape::List(items) => json!({ "type": "array", "items": self.schema(items) }),
            Shape::Map(values) => {
                json!({ "type": "object", "additionalProperties": self.schema(values) })
            }
            Shape::Of(object) => self.reference(object),
            Shape::Either(shapes) => {
                let shapes: Vec<Value> = shapes.iter().map(|shape| self.schema(shape)).collect();
                json!({ "anyOf": shapes })
            }
        }
    }

    fn or_null(&mut self, shape: &Shape) -> Value {
        let mut schema = self.schema(shape);
        if schema.get("enum").is_none()
            && let Some(kind) = schema.get("type").cloned()
        {
            schema["type"] = json!([kind, "null"]);
            return schema;
        }
        json!({ "anyOf": [schema, { "type": "null" }] })
    }
}

/// A refusal that many routes have in common.
struct Refusal {
    status: u16,
    about: &'static str,
    shape: &'static Object,
}

const fn refusal(status: u16, about: &'static str) -> Refusal {
    Refusal { status, about, shape: &ADMIN_ERROR }
}

static REFUSALS: &[Refusal] = &[
    refusal(400, "A field, an id or the body is invalid"),
    refusal(401, "The admin token is missing"),
    refusal(403, "The admin token is wrong, or may not be used from this address"),
    refusal(404, "No row has this id"),
    refusal(408, "The request body arrived too slowly"),
    refusal(409, "A row with these values exists already, or the current state does not allow the change"),
    refusal(413, "The request body is too large"),
    refusal(415, "The request body is not JSON"),
    refusal(422, "A row that this needs does not exist or is not active"),
    Refusal {
        status: 429,
        about: "Too many requests; `Retry-After` gives the seconds to wait",
        shape: &TOO_MANY,
    },
    refusal(500, "Internal error; the service log gives the cause"),
    refusal(502, "A site failed"),
    refusal(503, "The service is busy or stopping: send the request again"),
    refusal(507, "The disk is full"),
];

static TOO_MANY: Object = Object::new(
    "TooManyRequests",
    &[
        may("success", Shape::Is(false)),
        may("message", Shape::Text),
        may("error", Shape::Text),
        may("statusCode", Shape::Integer),
        may("retryAfter", Shape::Count).about("In seconds"),
    ],
);
static PROXY_ERROR: Object = Object::open("ProxyError", &[has("error", Shape::Any)]);
/// The name of the response for refused and failed client requests, whatever the status.
const OF_CLIENTS: &str = "client";

fn refused_client() -> Value {
    let schema = json!({ "$ref": format!("#/components/schemas/{}", PROXY_ERROR.name) });
    json!({ "description": "The request was refused or failed", "content": { JSON: { "schema": schema } } })
}

// === impl Refusal ===

impl Refusal {
    fn response(&self) -> (String, Value) {
        let schema = json!({ "$ref": format!("#/components/schemas/{}", self.shape.name) });
        let content = json!({ "application/json": { "schema": schema } });
        (self.status.to_string(), json!({ "description": self.about, "content": content }))
    }

    /// Whether a route may answer with this refusal.
    fn concerns(&self, endpoint: &Endpoint, known: Option<&Operation>) -> bool {
        let has_body = endpoint.method != Method::GET;
        let has_own = |also: &[(&str, _)]| also.iter().any(|(status, _)| *status == "4XX");
        match self.status {
            401 | 403 => endpoint.access == Access::Admin,
            _ if known.is_some_and(|operation| has_own(operation.also)) => false,
            400 | 500 | 503 => true,
            429 => endpoint.path != "/api/desktop/health",
            404 if endpoint.path.contains('{') => true,
            408 | 413 | 415 | 507 if has_body => true,
            status => known.is_some_and(|operation| operation.refusals.contains(&status)),
        }
    }
}

fn operations() -> impl Iterator<Item = &'static Operation> {
    RESOURCES.iter().copied().chain([OPERATIONS]).flatten()
}

/// The descriptions of the admin resources and the client routes.
static RESOURCES: &[&[Operation]] = &[
    accounts::schema::OPERATIONS,
    announcements::schema::OPERATIONS,
    auth::schema::OPERATIONS,
    backup::schema::OPERATIONS,
    channels::schema::OPERATIONS,
    checkins::schema::OPERATIONS,
    client_schema::OPERATIONS,
    decisions::schema::OPERATIONS,
    events::schema::OPERATIONS,
    health::schema::OPERATIONS,
    keys::schema::OPERATIONS,
    logs::schema::OPERATIONS,
    metrics::schema::OPERATIONS,
    models::schema::OPERATIONS,
    oauth::schema::OPERATIONS,
    playground::schema::OPERATIONS,
    routes::schema::OPERATIONS,
    search::schema::OPERATIONS,
    settings::schema::OPERATIONS,
    sites::schema::OPERATIONS,
    stats::schema::OPERATIONS,
    tasks::schema::OPERATIONS,
    tokens::schema::OPERATIONS,
    update_center::schema::OPERATIONS,
];

fn path_parameters(endpoint: &Endpoint) -> Vec<Value> {
    let path = openapi_path(endpoint.path);
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters = names.map(|name| {
        // Ids of tasks, playground jobs and update tasks are not row ids.
        let is_row = name == "id"
            && endpoint.access == Access::Admin
            && !["/api/tasks", "/api/test", "/api/update-center"].iter().any(|named| path.starts_with(named));
        if is_row {
            return json!({ "$ref": format!("#/components/parameters/{ROW}") });
        }
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
    });
    parameters.collect()
}

/// Builds the path parameter for a row's id.
fn row_id() -> Value {
    json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "integer", "minimum": 1 } })
}

/// Replaces responses that several routes share by references; returns the shared responses under the names of their
/// objects.
fn share_answers(paths: &mut BTreeMap<String, Value>) -> Map<String, Value> {
    let mut answers: BTreeMap<String, Vec<&mut Value>> = BTreeMap::new();
    let operations = paths.values_mut().filter_map(Value::as_object_mut).flat_map(Map::values_mut);
    for answer in
        operations.filter_map(|operation| operation["responses"].as_object_mut()).flat_map(Map::values_mut)
    {
        let schema = answer["content"][JSON]["schema"]["$ref"].as_str();
        if let Some(name) = schema.and_then(|path| path.rsplit('/').next()) {
            let name =
                if answer["description"] == DONE { name.to_owned() } else { format!("{name}.{FAILED}") };
            answers.entry(name).or_default().push(answer);
        }
    }
    let mut shared = Map::new();
    for (name, answers) in answers {
        // Responses that may also be files are not shared.
        let (alike, _) = answers.into_iter().partition::<Vec<_>, _>(|answer| {
            answer["content"].as_object().is_some_and(|content| content.len() == 1)
        });
        if alike.len() < 2 {
            continue;
        }
        let reference = json!({ "$ref": format!("#/components/responses/{name}") });
        for answer in alike {
            shared.insert(name.clone(), std::mem::replace(answer, reference.clone()));
        }
    }
    shared
}

/// Builds the operation id, such as `getApiSitesById` for `GET /api/sites/{id}`.
fn operation_id(endpoint: &Endpoint) -> String {
    let mut id = endpoint.method.as_str().to_lowercase();
    for part in openapi_path(endpoint.path).split(['/', '-', ':', '.', '_']) {
        let name = part.strip_prefix('{').map(|name| name.trim_end_matches('}'));
        id += if name.is_some() { "By" } else { "" };
        let mut letters = name.unwrap_or(part).chars();
        id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        id.extend(letters);
    }
    id
}

/// Returns the resource's tag: the first segment behind `/api/`; all client routes have the tag `proxy`.
fn tag(endpoint: &Endpoint) -> &'static str {
    let path: &'static str = endpoint.path;
    match path.strip_prefix("/api/") {
        Some(rest) => rest.split('/').next().unwrap_or(rest),
        None if endpoint.access == Access::Proxy => "proxy",
        None => "service",
    }
}

fn name_of(endpoint: &Endpoint) -> String {
    format!("{} {}", endpoint.method, openapi_path(endpoint.path))
}

/// Writes the path as OpenAPI does: a parameter for the rest of the path looks like any other.
fn openapi_path(path: &str) -> String {
    path.replace("{*", "{")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::http::Route;
    use crate::{admin, proxy};

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");

    #[test]
    fn every_route_is_described_and_nothing_else_is() {
        let (admin, proxy) = (admin::table_of_routes(), proxy::routes());
        let routes = admin.iter().map(Route::endpoint).chain(proxy.iter().map(Route::endpoint));
        let routes: BTreeSet<String> = routes.map(name_of).collect();
        let described: BTreeSet<String> = operations().map(|operation| operation.route.to_owned()).collect();
        assert_eq!(described.len(), operations().count(), "a route is described twice");
        let undescribed: Vec<_> = routes.difference(&described).collect();
        let unserved: Vec<_> = described.difference(&routes).collect();
        assert!(
            undescribed.is_empty(),
            "{undescribed:?} has no description: add `op(…)` to the OPERATIONS of its resource in src/admin, or for /v1 to \
             those in src/admin/client_schema.rs; then run `make openapi`"
        );
        assert!(unserved.is_empty(), "{unserved:?} is described in OPERATIONS and not served: take it out");
    }

    #[test]
    fn operation_ids_and_the_names_of_objects_are_unique() {
        let mut ids = BTreeSet::new();
        for route in admin::table_of_routes() {
            let id = operation_id(route.endpoint());
            assert!(ids.insert(id.clone()), "{id}");
        }
        assert!(ids.contains("putApiSitesById"), "{ids:?}");
    }

    /// Writes one line for each operation and each schema, so that a diff shows which of them changed.
    fn write(value: &Value, depth: usize, text: &mut String) {
        let Some(members) = value.as_object().filter(|_| depth < 3) else {
            *text += &value.to_string();
            return;
        };
        for (index, (name, value)) in members.iter().enumerate() {
            let before = if index == 0 { "{" } else { "," };
            *text += &format!("{before}\n{}{}: ", "  ".repeat(depth + 1), json!(name));
            write(value, depth + 1, text);
        }
        *text += &if members.is_empty() { "{}".to_owned() } else { format!("\n{}}}", "  ".repeat(depth)) };
    }

    #[test]
    fn the_file_in_docs_is_what_is_served() {
        let (admin, proxy) = (admin::table_of_routes(), proxy::routes());
        let routes = admin.iter().map(Route::endpoint).chain(proxy.iter().map(Route::endpoint));
        let mut text = String::new();
        write(&description(routes), 0, &mut text);
        text.push('\n');
        if std::env::var_os("RENEW_OPENAPI").is_some() {
            std::fs::write(FILE, &text).expect("docs/openapi.json is written");
        }
        let is_same = std::fs::read_to_string(FILE).is_ok_and(|file| file == text);
        assert!(
            is_same,
            "docs/openapi.json is not what the code describes: run `make openapi` and commit it"
        );
    }
}
