//! A stub of a provider whose accounts are connected by a browser login, and of its upstream. It answers as the documented
//! providers do when a program logs in, renews its tokens, lists models and sends requests.
//!
//! It is as strict as they are: a code works once, with its client, redirect and verifier (RFC 7636); so does a refresh
//! token of codex and claude; models and requests need a valid access token.
//!
//! | provider | letter | tokens | account from | further endpoints |
//! |---|---|---|---|---|
//! | codex | A | form, rotating | claims of the id token | `/models` |
//! | claude | B | JSON, rotating | the answer | `/v1/models`, paged |
//! | gemini-cli | C | form with a secret | `/oauth2/v1/userinfo` | projects, onboarding, services |
//! | antigravity | D | form with a secret | `/oauth2/v1/userinfo` | onboarding, `:fetchAvailableModels` |
//!
//! Faults are scripted as on any stub: replies set with [`Upstream::answer`] take precedence.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::percent_decode_str;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::{Gateway, ReceivedRequest, Reply, Setup, Upstream, wire};

/// The client secret that the stubs of Google's providers accept.
const CLIENT_SECRET: &str = "client-secret-of-the-tests-5d2a";

/// A running stub; its port closes when it is dropped.
pub struct Provider {
    pub id: &'static str,
    pub letter: char,
    upstream: Upstream,
    book: Arc<Mutex<Book>>,
}

/// The provider's state, to look at and to change.
pub struct Book {
    pub email: String,
    /// The account of the next login.
    pub account: String,
    pub plan: String,
    /// The lifetime of an access token, in seconds.
    pub lifetime: i64,
    /// The user's projects; `enabled` lists those in which the service is enabled.
    pub projects: Vec<String>,
    pub enabled: Vec<String>,
    /// The project that onboarding returns; `None` for the requested one.
    pub onboarded: Option<String>,
    pub tier: String,
    pub models: Vec<String>,
    /// The number of exchanged codes; `refreshes` counts the renewals.
    pub exchanges: usize,
    pub refreshes: usize,
    /// The valid access tokens; `refresh` lists the refresh tokens.
    pub access: Vec<String>,
    pub refresh: Vec<String>,
    codes: HashMap<String, Agreement>,
    count: usize,
}

/// The consent of a person, which a code stands for.
struct Agreement {
    redirect_uri: String,
    challenge: String,
    state: String,
}

// === impl Provider ===

impl Provider {
    pub const IDS: [&'static str; 4] = ["codex", "claude", "gemini-cli", "antigravity"];

    /// Starts a provider where Ada has an account that reaches these models.
    pub fn start(id: &'static str, models: &[&str]) -> Self {
        let place = Self::IDS.iter().position(|known| *known == id).expect("a provider");
        let book = Arc::new(Mutex::new(Book {
            email: "ada@example.com".to_owned(),
            account: "account-of-ada".to_owned(),
            plan: "plus".to_owned(),
            lifetime: 3600,
            projects: vec!["project-of-ada".to_owned()],
            enabled: vec!["project-of-ada".to_owned()],
            onboarded: None,
            tier: "standard-tier".to_owned(),
            models: models.iter().map(|&model| model.to_owned()).collect(),
            exchanges: 0,
            refreshes: 0,
            access: Vec::new(),
            refresh: Vec::new(),
            codes: HashMap::new(),
            count: 0,
        }));
        let upstream = Upstream::start(models);
        let serving = Arc::clone(&book);
        upstream.serve(move |asked| serving.lock().expect("no panic there").answer(id, asked));
        Self { id, letter: (b'A' + place as u8) as char, upstream, book }
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no panic there")
    }

    /// Returns the variables that make a gateway use this stub instead of the vendor, with any callback port.
    pub fn variables(&self) -> Vec<(String, String)> {
        let url = self.upstream.url();
        let mut variables = vec![
            ("AUTH_URL", format!("{url}/authorize")),
            ("TOKEN_URL", format!("{url}/token")),
            ("BASE_URL", url.clone()),
            ("CALLBACK_PORT", "0".to_owned()),
        ];
        if self.is_google() {
            variables.push(("GOOGLE_BASE_URL", url));
            variables.push(("CLIENT_ID", "client-of-the-tests".to_owned()));
            variables.push(("CLIENT_SECRET", CLIENT_SECRET.to_owned()));
        }
        let letter = self.letter;
        variables.into_iter().map(|(name, value)| (format!("PROVIDER_{letter}_{name}"), value)).collect()
    }

    /// Starts a gateway that uses this stub.
    pub fn gateway(&self) -> Gateway {
        self.setup(Setup::default()).start()
    }

    /// Adds this stub's variables to a setup.
    pub fn setup(&self, setup: Setup) -> Setup {
        self.variables().iter().fold(setup, |setup, (name, value)| setup.with(name, value))
    }

    fn is_google(&self) -> bool {
        self.letter > 'B'
    }

    /// Acts as the browser: the person agrees, and the provider redirects. Returns the address of the redirect.
    #[track_caller]
    pub fn agree(&self, authorization_url: &str) -> String {
        let query = authorization_url.split_once('?').map(|(_, query)| query).expect("a query");
        let query = pairs(query);
        assert_eq!(query["response_type"], "code", "{authorization_url}");
        assert_eq!(query["code_challenge_method"], "S256", "{authorization_url}");
        let mut book = self.book();
        book.count += 1;
        let code = format!("code-{}-{}-of-the-tests", self.id, book.count);
        let (redirect_uri, state) = (query["redirect_uri"].clone(), query["state"].clone());
        let agreement = Agreement {
            redirect_uri: redirect_uri.clone(),
            challenge: query["code_challenge"].clone(),
            state: state.clone(),
        };
        book.codes.insert(code.clone(), agreement);
        format!("{redirect_uri}?code={code}&state={state}")
    }

    /// Ends every access token: the next request with one is refused.
    pub fn end_access(&self) {
        self.book().access.clear();
    }

    /// Revokes everything that was granted: no refresh token works any more.
    pub fn revoke(&self) {
        let mut book = self.book();
        book.access.clear();
        book.refresh.clear();
    }
}

impl Deref for Provider {
    type Target = Upstream;

    fn deref(&self) -> &Upstream {
        &self.upstream
    }
}

// === impl Book ===

impl Book {
    fn answer(&mut self, id: &str, asked: &ReceivedRequest) -> Option<Reply> {
        let is_google = matches!(id, "gemini-cli" | "antigravity");
        if asked.path() == "/token" {
            return Some(self.token(id, asked));
        }
        if !self.is_let_in(asked) {
            let error = json!({"error": {"code": 401, "status": "UNAUTHENTICATED", "type": "authentication_error",
                "message": "Invalid authentication credentials"}});
            return Some(Reply::json(401, &error));
        }
        match (id, asked.path()) {
            ("codex", "/models") => {
                let models = self.models.iter().map(|slug| json!({"slug": slug}));
                Some(Reply::json(200, &json!({"models": models.collect::<Vec<_>>()})))
            }
            ("codex", "/responses") => Some(codex(&asked.json())),
            ("claude", "/v1/models") => Some(self.page_of_models(asked)),
            (_, path) if is_google => self.google(path, asked),
            _ => None,
        }
    }

    fn is_let_in(&self, asked: &ReceivedRequest) -> bool {
        let token = asked.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        token.is_some_and(|token| self.access.iter().any(|known| known == token))
    }

    fn token(&mut self, id: &str, asked: &ReceivedRequest) -> Reply {
        let text = String::from_utf8_lossy(&asked.body).into_owned();
        let sent = match id {
            "claude" => serde_json::from_str(&text).unwrap_or(Value::Null),
            _ => json!(pairs(&text)),
        };
        let refuse =
            |code: &str, why: &str| Reply::json(400, &json!({"error": code, "error_description": why}));
        if matches!(id, "gemini-cli" | "antigravity") && sent["client_secret"] != CLIENT_SECRET {
            return refuse("invalid_client", "The client is unknown");
        }
        match sent["grant_type"].as_str() {
            Some("authorization_code") => {
                let code = sent["code"].as_str().unwrap_or_default();
                let Some(agreement) = self.codes.remove(code) else {
                    return refuse("invalid_grant", "The code is unknown or was used");
                };
                let verifier = sent["code_verifier"].as_str().unwrap_or_default();
                let is_right = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()))
                    == agreement.challenge
                    && sent["redirect_uri"] == agreement.redirect_uri
                    && (id != "claude" || sent["state"] == agreement.state);
                if !is_right {
                    return refuse("invalid_grant", "The code is for another login");
                }
                self.exchanges += 1;
            }
            Some("refresh_token") => {
                let token = sent["refresh_token"].as_str().unwrap_or_default();
                let Some(place) = self.refresh.iter().position(|known| known == token) else {
                    return refuse("invalid_grant", "The grant is revoked");
                };
                if matches!(id, "codex" | "claude") {
                    self.refresh.remove(place);
                }
                self.refreshes += 1;
            }
            _ => return refuse("unsupported_grant_type", "What is this?"),
        }
        let is_first = sent["grant_type"] == "authorization_code";
        self.count += 1;
        let access = format!("access-{id}-{}-of-the-tests", self.count);
        let refresh = format!("refresh-{id}-{}-of-the-tests", self.count);
        self.access.push(access.clone());
        let mut answer = json!({"access_token": access, "token_type": "Bearer", "expires_in": self.lifetime});
        if is_first || matches!(id, "codex" | "claude") {
            self.refresh.push(refresh.clone());
            answer["refresh_token"] = json!(refresh);
        }
        match id {
            "codex" => answer["id_token"] = json!(self.id_token()),
            "claude" => {
                answer["account"] = json!({"uuid": self.account, "email_address": self.email});
                answer["organization"] = json!({"uuid": "organization-of-ada", "name": "Ada's"});
            }
            _ => answer["scope"] = json!("openid https://www.googleapis.com/auth/cloud-platform"),
        }
        Reply::json(200, &answer)
    }

    /// Builds the claims as OpenAI does, without a real signature.
    pub fn id_token(&self) -> String {
        let claims = json!({"email": self.email, "https://api.openai.com/auth": {
            "chatgpt_account_id": self.account, "chatgpt_plan_type": self.plan}});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.c2lnbmF0dXJl", part(&json!({"alg": "RS256"})), part(&claims))
    }

    /// Lists two models per page.
    fn page_of_models(&self, asked: &ReceivedRequest) -> Reply {
        let query = pairs(asked.target.split_once('?').map_or("", |(_, query)| query));
        let after = query.get("after_id").and_then(|id| self.models.iter().position(|model| model == id));
        let from = after.map_or(0, |place| place + 1);
        let page: Vec<&String> = self.models.iter().skip(from).take(2).collect();
        let has_more = from + page.len() < self.models.len();
        let items: Vec<Value> = page.iter().map(|id| json!({"type": "model", "id": id})).collect();
        Reply::json(200, &json!({"data": items, "has_more": has_more, "last_id": page.last()}))
    }

    fn google(&self, path: &str, asked: &ReceivedRequest) -> Option<Reply> {
        let json = |value: &Value| Some(Reply::json(200, value));
        match path {
            "/oauth2/v1/userinfo" => json(&json!({"id": "1", "email": self.email, "verified_email": true})),
            "/v1/projects" => {
                let projects =
                    self.projects.iter().map(|id| json!({"projectId": id, "lifecycleState": "ACTIVE"}));
                json(&json!({"projects": projects.collect::<Vec<_>>()}))
            }
            "/v1internal:loadCodeAssist" => json(&json!({"allowedTiers": [
                {"id": "other-tier"}, {"id": self.tier, "isDefault": true}]})),
            "/v1internal:onboardUser" => {
                let asked_for = asked.json()["cloudaicompanionProject"].clone();
                let project = self.onboarded.as_ref().map_or(asked_for, |own| json!({"id": own}));
                json(&json!({"done": true, "response": {"cloudaicompanionProject": project}}))
            }
            "/v1internal:fetchAvailableModels" => {
                let models = self.models.iter().map(|id| (id.clone(), json!({"displayName": id})));
                json(&json!({"models": models.collect::<serde_json::Map<_, _>>()}))
            }
            "/v1internal:generateContent" => json(&json!({"response": content()})),
            "/v1internal:streamGenerateContent" => {
                Some(Reply::events([wire::data(&json!({"response": content()}))]))
            }
            "/v1internal:countTokens" => json(&json!({"totalTokens": 42})),
            path => {
                let (project, call) = path.strip_prefix("/v1/projects/")?.split_once("/services/")?;
                let is_enabled = self.enabled.iter().any(|enabled| enabled == project);
                match call {
                    "cloudaicompanion.googleapis.com" => {
                        json(&json!({"state": if is_enabled { "ENABLED" } else { "DISABLED" }}))
                    }
                    "cloudaicompanion.googleapis.com:enable" => json(&json!({"done": true})),
                    _ => None,
                }
            }
        }
    }
}

/// Answers as Codex's upstream: it accepts what Codex itself sends, and nothing else.
fn codex(body: &Value) -> Reply {
    let known =
        ["model", "instructions", "input", "tools", "tool_choice", "parallel_tool_calls", "reasoning"];
    let more = ["store", "stream", "include", "service_tier", "prompt_cache_key", "text", "client_metadata"];
    let unknown = body.as_object().and_then(|members| {
        members.keys().find(|name| !known.contains(&name.as_str()) && !more.contains(&name.as_str()))
    });
    let refusal = match unknown {
        Some(name) => format!("Unsupported parameter: {name}"),
        None if !body["input"].is_array() => "Input must be a list".to_owned(),
        None if body["instructions"].as_str().is_none_or(str::is_empty) => {
            "Instructions are required".to_owned()
        }
        None if body["store"] != false => "Store must be set to false".to_owned(),
        None if body["stream"] != true => "Stream must be set to true".to_owned(),
        None => {
            let model = body["model"].as_str().unwrap_or_default();
            return Reply::events(wire::response_events(model));
        }
    };
    Reply::json(400, &json!({ "detail": refusal }))
}

/// Builds an answer of a gemini model.
fn content() -> Value {
    json!({"candidates": [{"index": 0, "finishReason": "STOP",
            "content": {"role": "model", "parts": [{"text": wire::TEXT}]}}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}})
}

/// Parses a query or a form into decoded names and values.
fn pairs(text: &str) -> HashMap<String, String> {
    let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}
