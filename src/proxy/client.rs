//! Identifies the client from what it says about itself: the family of its protocol, its session, and the application,
//! which is only for the log.
//!
//! | family | on | recognised by |
//! |---|---|---|
//! | `claude_code` | messages | `metadata.user_id` of its form, its session header, or all four of its headers |
//! | `codex` | responses, chat | `originator` or `User-Agent` of an official application, else what only Codex sends |
//! | `gemini_cli` | `/v1internal:` | the path |
//! | `generic` | | everything else |
//!
//! `x-stainless-*` and `openai-beta` come from ordinary SDKs and mean nothing here. The headers are walked once; a
//! generic client costs no allocation. Nothing here proves anything: it decides labels and preferences, never what a
//! caller may do.

use std::borrow::Cow;
use std::sync::Arc;

use hyper::HeaderMap;
use serde_json::Value;

use crate::dialect::{Dialect, json};

/// The maximum length of a session id, in bytes; longer ones are not used, because they would only fill memory and the log.
const MAX_SESSION_BYTES: usize = 256;
/// The maximum length of an application's name, in characters; longer ones are ignored.
const MAX_NAME_CHARS: usize = 120;

/// The official Codex applications: the prefix of their `originator` or `User-Agent`, their id, their name.
const CODEX_APPS: [(&str, &str, &str); 8] = [
    ("codex_cli_rs", "codex_cli_rs", "Codex CLI"),
    ("codex_vscode", "codex_vscode", "Codex for VS Code"),
    ("codex_app", "codex_app", "Codex App"),
    ("codex_chatgpt_desktop", "codex_chatgpt_desktop", "Codex Desktop"),
    ("codex desktop", "codex_chatgpt_desktop", "Codex Desktop"),
    ("codex_atlas", "codex_atlas", "Codex Atlas"),
    ("codex_exec", "codex_exec", "Codex Exec"),
    ("codex_sdk_ts", "codex_sdk_ts", "Codex SDK"),
];

/// The family of a client's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    ClaudeCode,
    Codex,
    GeminiCli,
    Generic,
}

/// How certain a label is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confidence {
    /// The client names itself.
    Exact,
    /// The client looks like it.
    Heuristic,
    Unknown,
}

/// An application, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientApp {
    pub(super) id: Cow<'static, str>,
    pub(super) name: Cow<'static, str>,
}

/// What a request says about its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) family: Family,
    pub(super) confidence: Confidence,
    pub(super) app: Option<ClientApp>,
    /// The id of the conversation, or of the process that leads it.
    pub(super) session: Option<Arc<str>>,
    /// Whether it sends `anthropic-version`.
    pub(super) names_version: bool,
}

/// The headers that may tell something; of repeated headers the first that is not empty.
#[derive(Default)]
struct ClientMarks<'h> {
    user_agent: &'h str,
    originator: &'h str,
    /// In order of precedence.
    sessions: [&'h str; 4],
    claude_session: &'h str,
    self_report: &'h str,
    title: &'h str,
    referer: &'h str,
    app: &'h str,
    has_turn_state: bool,
    has_anthropic_beta: bool,
    has_anthropic_version: bool,
}

// === impl Family ===

impl Family {
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude_code",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini_cli",
            Self::Generic => "generic",
        }
    }
}

// === impl Confidence ===

impl Confidence {
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Heuristic => "heuristic",
            Self::Unknown => "unknown",
        }
    }
}

// === impl Client ===

impl Client {
    /// Identifies the client from a request's head and the user that its body names (`metadata.user_id` on messages).
    pub(super) fn detect(path: &str, dialect: Dialect, headers: &HeaderMap, user: Option<&str>) -> Self {
        let marks = ClientMarks::of(headers);
        let known = if path.starts_with("/v1internal:") {
            Some(Self::of_family(
                Family::GeminiCli,
                Confidence::Exact,
                Some(("gemini_cli", "Gemini CLI")),
                None,
            ))
        } else if dialect == Dialect::Messages {
            marks.claude_code(user)
        } else if matches!(dialect, Dialect::Responses | Dialect::Chat) {
            marks.codex()
        } else {
            None
        };
        let mut client = known.unwrap_or(Self {
            family: Family::Generic,
            confidence: Confidence::Unknown,
            app: None,
            session: None,
            names_version: false,
        });
        client.names_version = marks.has_anthropic_version;
        if let Some((app, confidence)) = marks.application() {
            client.app = Some(app);
            if client.family == Family::Generic {
                client.confidence = confidence;
            }
        }
        client
    }

    fn of_family(
        family: Family,
        confidence: Confidence,
        app: Option<(&'static str, &'static str)>,
        session: Option<Arc<str>>,
    ) -> Self {
        let app = app.map(|(id, name)| ClientApp { id: id.into(), name: name.into() });
        Self { family, confidence, app, session, names_version: false }
    }
}

// === impl ClientMarks ===

impl<'h> ClientMarks<'h> {
    fn of(headers: &'h HeaderMap) -> Self {
        let mut marks = Self::default();
        for (name, value) in headers {
            let slot = match name.as_str() {
                "user-agent" => &mut marks.user_agent,
                "originator" => &mut marks.originator,
                "session_id" => &mut marks.sessions[0],
                "session-id" => &mut marks.sessions[1],
                "conversation_id" => &mut marks.sessions[2],
                "conversation-id" => &mut marks.sessions[3],
                "x-claude-code-session-id" => &mut marks.claude_session,
                "x-openai-client-user-agent" => &mut marks.self_report,
                "x-title" => &mut marks.title,
                "referer" => &mut marks.referer,
                "x-app" => &mut marks.app,
                "x-codex-turn-state" => {
                    marks.has_turn_state = true;
                    continue;
                }
                "anthropic-beta" => {
                    marks.has_anthropic_beta = true;
                    continue;
                }
                "anthropic-version" => {
                    marks.has_anthropic_version = true;
                    continue;
                }
                _ => continue,
            };
            if slot.is_empty() {
                *slot = value.to_str().unwrap_or_default().trim();
            }
        }
        marks
    }

    fn claude_code(&self, user: Option<&str>) -> Option<Client> {
        let in_body = user.and_then(claude_session);
        let by_headers = self
            .user_agent
            .strip_prefix("claude-cli/")
            .is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
            && self.has_anthropic_beta
            && self.has_anthropic_version
            && self.app == "cli";
        let session = in_body.or_else(|| session(self.claude_session));
        if session.is_none() && !by_headers {
            return None;
        }
        let app = Some(("claude_code", "Claude Code"));
        Some(Client::of_family(Family::ClaudeCode, Confidence::Exact, app, session))
    }

    fn codex(&self) -> Option<Client> {
        let session = self.sessions.into_iter().find_map(session);
        let official = CODEX_APPS.iter().find(|(prefix, _, _)| {
            begins_with(self.originator, prefix) || begins_with(self.user_agent, prefix)
        });
        if let Some(&(_, id, name)) = official {
            return Some(Client::of_family(Family::Codex, Confidence::Exact, Some((id, name)), session));
        }
        let looks_like_it = begins_with(self.user_agent, "codex ")
            || begins_with(self.originator, "codex_")
            || self.has_turn_state
            || session.is_some();
        looks_like_it.then(|| Client::of_family(Family::Codex, Confidence::Heuristic, None, session))
    }

    /// Returns the name that the application gives itself, or else the one that its headers reveal.
    fn application(&self) -> Option<(ClientApp, Confidence)> {
        if let Some(name) = self_reported_name(self.self_report) {
            let app = ClientApp { id: slug(&name).into(), name: name.into() };
            return Some((app, Confidence::Exact));
        }
        let known = |id: &'static str, name: &'static str| {
            Some((ClientApp { id: id.into(), name: name.into() }, Confidence::Heuristic))
        };
        let titled = |title: &str| self.title.eq_ignore_ascii_case(title);
        if begins_with(self.user_agent, "opencode/") || titled("opencode") {
            known("opencode", "OpenCode")
        } else if titled("cherry studio") || self.referer.contains("cherry-ai.com") {
            known("cherry_studio", "Cherry Studio")
        } else if begins_with(self.user_agent, "openclaw/") {
            known("openclaw", "OpenClaw")
        } else {
            None
        }
    }
}

fn begins_with(text: &str, lower_case_prefix: &str) -> bool {
    text.as_bytes()
        .get(..lower_case_prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(lower_case_prefix.as_bytes()))
}

fn session(text: &str) -> Option<Arc<str>> {
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_SESSION_BYTES).then(|| Arc::from(text))
}

/// Reads the session from Claude Code's user: `user_<64 hex>_account_…_session_<uuid>`, or with newer versions a JSON
/// object that has a `session_id`.
fn claude_session(user: &str) -> Option<Arc<str>> {
    if user.starts_with('{') {
        return session(&json::string(json::member(user, "session_id")?)?);
    }
    let rest = user.strip_prefix("user_")?;
    let (hash, rest) = rest.split_at_checked(64)?;
    let (account, id) = rest.rsplit_once("_session_")?;
    let is_hash = hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hash && account.starts_with("_account_") && is_uuid(id)).then(|| Arc::from(id))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Reads a name from JSON with a `client`, `name` or `app`, or from a short plain text.
fn self_reported_name(report: &str) -> Option<String> {
    let name = if report.starts_with('{') {
        let report: Value = serde_json::from_str(report).ok()?;
        ["client", "name", "app"]
            .iter()
            .find_map(|key| report[*key].as_str().map(str::trim).map(str::to_owned))?
    } else {
        report.to_owned()
    };
    let fits = (1..=MAX_NAME_CHARS).contains(&name.chars().count());
    (fits && !slug(&name).is_empty()).then_some(name)
}

/// Turns a name into an id: lower case, each run of other characters than letters and digits replaced by `_`.
fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests;
