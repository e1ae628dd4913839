//! Reads what a token tells about its account: the claims of a JSON Web Token (RFC 7519).
//!
//! The signature is not checked. The token came from the provider itself, over a connection of ours, or from an
//! operator who could as well have typed the claims.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::grant::Identity;
use crate::time::Millis;

/// The longest text that an indexed column holds, in characters.
const MAX_CHARS: usize = 191;
/// The longest token that is read, in bytes.
const MAX_TOKEN: usize = 64 * 1024;
/// The claim that holds what OpenAI says of the account.
const OPENAI: &str = "https://api.openai.com/auth";

/// The claims of a token; empty where it is no JSON Web Token.
#[derive(Clone, Debug, Default)]
pub struct Claims(Value);

// === impl Claims ===

impl Claims {
    /// Reads the claims of a token, whoever signed them.
    pub fn of(token: &str) -> Self {
        let payload = token.split('.').nth(1).filter(|_| token.len() <= MAX_TOKEN);
        let bytes = payload.and_then(|payload| URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok());
        Self(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }

    /// Returns a claim of OpenAI about the account, as it came.
    pub fn of_openai(&self, name: &str) -> Option<&Value> {
        self.0.get(OPENAI)?.get(name)
    }

    /// Returns when the token ends.
    pub fn expires_at(&self) -> Option<Millis> {
        let seconds = self.0.get("exp")?.as_f64().filter(|seconds| (0.0..1e11).contains(seconds))?;
        Some((seconds * 1000.0) as Millis)
    }

    /// Returns the identity of the account that a token of Codex is for.
    pub fn identity(&self) -> Identity {
        Identity {
            account_key: self.of_openai("chatgpt_account_id").and_then(clean),
            email: self.0.get("email").and_then(clean),
            plan_type: self.of_openai("chatgpt_plan_type").and_then(clean),
            ..Identity::default()
        }
    }
}

/// Returns a provider's text in a form that can be stored and shown: trimmed, without control characters. `None` when
/// it is blank or longer than a key.
pub fn clean(value: &Value) -> Option<String> {
    let text: String = value.as_str()?.chars().filter(|c| !c.is_control()).collect();
    let text = text.trim();
    (!text.is_empty() && text.chars().count() <= MAX_CHARS).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(claims: &Value) -> String {
        format!("eyJhbGciOiJub25lIn0.{}.sig", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn claims_say_whose_account_it_is() {
        let claims = json!({"email": " ada@example.com\n", OPENAI: {"chatgpt_account_id": "acc-1", "chatgpt_plan_type": "plus"}});
        let identity = Claims::of(&token(&claims)).identity();
        assert_eq!(identity.account_key.as_deref(), Some("acc-1"));
        assert_eq!(identity.email.as_deref(), Some("ada@example.com"));
        assert_eq!(identity.plan_type.as_deref(), Some("plus"));
    }

    #[test]
    fn what_is_no_token_says_nothing() {
        for text in ["", "a", "a.b.c", "a..c", &token(&json!([1])), &token(&json!({"email": 7}))] {
            assert_eq!(Claims::of(text).identity(), Identity::default(), "{text}");
        }
    }

    #[test]
    fn a_text_that_no_key_can_hold_is_none() {
        assert_eq!(clean(&json!("a\u{7}\u{1b}[31mb")).as_deref(), Some("a[31mb"));
        for value in [json!(" \n"), json!("x".repeat(192)), json!(1), json!(null)] {
            assert_eq!(clean(&value), None, "{value}");
        }
    }
}
