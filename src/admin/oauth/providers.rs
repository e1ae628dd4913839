//! `GET /api/oauth/providers`: the providers that offer logins, and what they require.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::admin::Admin;
use crate::admin::bucket;
use crate::admin::errors::Result;
use crate::admin::guard;
use crate::http::{self, Request, Response};
use crate::platform::OAuthProvider;

/// Lists the providers in order, with what an operator should know before a login.
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    guard(&admin, &request, &bucket::OAUTH_PROVIDERS_READ)?;
    let has_proxy = admin.core.settings.load().system_proxy_url.is_some();
    let providers: Vec<Value> = OAuthProvider::ALL.iter().map(|provider| view(&admin, *provider)).collect();
    let body = json!({"defaults": {"systemProxyConfigured": has_proxy}, "providers": providers});
    Ok(http::json(StatusCode::OK, &body))
}

fn view(admin: &Admin, provider: OAuthProvider) -> Value {
    let profile = provider.profile();
    let missing = &admin.core.config.oauth.of(provider).missing;
    let mut view = json!({
        "provider": profile.id,
        "label": profile.label,
        "platform": profile.platform.id(),
        "enabled": missing.is_empty(),
        "loginType": "oauth",
        "requiresProjectId": profile.requires_project_id,
        "supportsDirectAccountRouting": true,
        "supportsCloudValidation": true,
        "supportsNativeProxy": true,
        "notice": notice(provider),
    });
    if !missing.is_empty() {
        view["missingVariables"] = json!(missing);
        view["disabledReason"] = not_set(missing).into();
    }
    view
}

/// Builds the reason why a provider cannot be used: the variables that are not set.
pub(super) fn not_set(missing: &[String]) -> String {
    let verb = if missing.len() == 1 { "is" } else { "are" };
    format!("{} {verb} not set", missing.join(" and "))
}

fn notice(provider: OAuthProvider) -> String {
    let (label, vendor) = match provider {
        OAuthProvider::Codex => ("ChatGPT", "OpenAI"),
        OAuthProvider::Claude => ("Claude", "Anthropic"),
        OAuthProvider::GeminiCli => ("Gemini CLI", "Google"),
        OAuthProvider::Antigravity => ("Antigravity", "Google"),
    };
    format!(
        "{vendor}'s terms may restrict the use of its {label} login by programs other than its own, and such use may cost \
         the account. Read them before you log in; an API key has no such restriction."
    )
}
