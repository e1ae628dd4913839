//! Tells by a name whether a header or a member of an object holds a credential.

/// Whether a member's name says that it holds a credential, as `refreshToken` and `id_token` do; `tokenExpiresAt` does
/// not.
pub fn is_member(name: &str) -> bool {
    const ENDS: [&str; 13] = [
        "token",
        "secret",
        "password",
        "passwd",
        "cipher",
        "cookie",
        "apikey",
        "accesskey",
        "privatekey",
        "authorization",
        "credential",
        "credentials",
        "providerdata", // the tokens of an OAuth login
    ];
    let name: String = name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether a header's name, in lower case, suggests a credential. It guesses widely: a value that is masked in vain does
/// no harm.
pub fn is_header(name: &str) -> bool {
    const WITHIN: [&str; 10] =
        ["auth", "cookie", "secret", "token", "key", "pass", "credential", "session", "signature", "bearer"];
    const PARTS: [&str; 8] = ["access", "jwt", "pat", "pin", "pw", "pwd", "sid", "sig"];
    WITHIN.iter().any(|word| name.contains(word)) || name.split(['-', '_']).any(|part| PARTS.contains(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_credentials_are_known() {
        for name in [
            "refreshToken",
            "id_token",
            "x-api-key",
            "client_secret",
            "Set-Cookie",
            "privateKey",
            "db.passwd",
        ] {
            assert!(is_member(name), "{name}");
        }
        for name in ["tokenExpiresAt", "max_tokens", "keyboard", ""] {
            assert!(!is_member(name), "{name}");
        }
        for name in ["x-gate-secret", "authorization", "x-session", "x-sig", "pat"] {
            assert!(is_header(name), "{name}");
        }
        for name in ["user-agent", "x-pattern", "accept"] {
            assert!(!is_header(name), "{name}");
        }
    }
}
