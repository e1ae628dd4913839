use super::*;

const UUID: &str = "0190c0de-1234-4abc-8def-0123456789ab";

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

fn detect(dialect: Dialect, pairs: &[(&'static str, &str)], user: Option<&str>) -> Client {
    Client::detect(dialect.path(), dialect, &headers(pairs), user)
}

fn told(client: &Client) -> (&str, &str, Option<&str>, Option<&str>) {
    let app = client.app.as_ref().map(|app| app.id.as_ref());
    (client.family.id(), client.confidence.id(), app, client.session.as_deref())
}

#[test]
fn claude_code_is_known_by_its_user_id_or_by_all_of_its_headers() {
    let hash = "a1".repeat(32);
    let old = format!("user_{hash}_account__session_{UUID}");
    let with_account = format!("user_{hash}_account_{UUID}_session_{UUID}");
    let json = format!("{{\"device_id\":\"d\",\"session_id\":\"{UUID}\"}}");
    let cli = [
        ("user-agent", "claude-cli/2.0.14 (external, cli)"),
        ("anthropic-beta", "claude-code-20250219"),
        ("anthropic-version", "2023-06-01"),
        ("x-app", "cli"),
    ];
    let known = ("claude_code", "exact", Some("claude_code"));
    for (pairs, user, session) in [
        (&[][..], Some(old.as_str()), Some(UUID)),
        (&[], Some(&with_account), Some(UUID)),
        (&[], Some(&json), Some(UUID)),
        (&[("x-claude-code-session-id", "s-1")], None, Some("s-1")),
        (&cli, None, None),
        (&cli, Some("user_1"), None),
    ] {
        let client = detect(Dialect::Messages, pairs, user);
        assert_eq!(told(&client), (known.0, known.1, known.2, session), "{pairs:?} {user:?}");
    }
    for (pairs, user) in [
        (&cli[..3], None),
        (&cli[1..], None),
        (&[("user-agent", "claude-cli/beta")][..], None),
        (&[], Some("user_1")),
        (&[], Some(&old[..old.len() - 1])),
        (&[], Some("{\"session_id\":5}")),
        (&[], Some("{\"session_id\":")),
    ] {
        let client = detect(Dialect::Messages, pairs, user);
        assert_eq!(client.family, Family::Generic, "{pairs:?} {user:?}");
    }
    assert_eq!(detect(Dialect::Chat, &[], Some(&old)).family, Family::Generic, "another surface");
}

#[test]
fn codex_is_known_by_its_applications() {
    for (name, value, id) in [
        ("originator", "codex_cli_rs", "codex_cli_rs"),
        ("originator", "Codex_VSCode", "codex_vscode"),
        ("user-agent", "codex_cli_rs/0.63.0 (Debian 13; x86_64)", "codex_cli_rs"),
        ("user-agent", "codex_app/1.0", "codex_app"),
        ("user-agent", "codex_chatgpt_desktop/1.0", "codex_chatgpt_desktop"),
        ("user-agent", "Codex Desktop/26.1", "codex_chatgpt_desktop"),
        ("user-agent", "codex_atlas/1", "codex_atlas"),
        ("user-agent", "codex_exec/0.63.0", "codex_exec"),
        ("originator", "codex_sdk_ts", "codex_sdk_ts"),
    ] {
        for dialect in [Dialect::Responses, Dialect::Chat] {
            let client = detect(dialect, &[(name, value)], None);
            assert_eq!(told(&client), ("codex", "exact", Some(id), None), "{value}");
        }
        assert_eq!(detect(Dialect::Embeddings, &[(name, value)], None).family, Family::Generic);
    }
}

#[test]
fn what_only_codex_sends_makes_it_likely() {
    for (name, value, session) in [
        ("user-agent", "codex something", None),
        ("originator", "codex_new_thing", None),
        ("x-codex-turn-state", "t", None),
        ("session_id", " s-1 ", Some("s-1")),
        ("conversation-id", "c-1", Some("c-1")),
    ] {
        let client = detect(Dialect::Responses, &[(name, value)], None);
        assert_eq!(told(&client), ("codex", "heuristic", None, session), "{name}");
    }
}

#[test]
fn the_first_of_the_session_headers_counts() {
    let all = [("conversation-id", "4"), ("conversation_id", "3"), ("session-id", "2"), ("session_id", "1")];
    for count in 1..=4 {
        let client = detect(Dialect::Responses, &all[..count], None);
        assert_eq!(client.session.as_deref(), Some(all[count - 1].1));
    }
    let long = "x".repeat(257);
    assert_eq!(detect(Dialect::Responses, &[("session_id", &long)], None).session, None);
}

#[test]
fn ordinary_sdks_are_not_taken_for_codex() {
    let sdk = [
        ("x-stainless-lang", "python"),
        ("openai-beta", "assistants=v2"),
        ("user-agent", "OpenAI/Python 2.1"),
    ];
    for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Messages] {
        let client = detect(dialect, &sdk, Some("user-7"));
        assert_eq!(told(&client), ("generic", "unknown", None, None));
    }
}

#[test]
fn gemini_cli_is_known_by_its_paths() {
    let client = Client::detect("/v1internal:generateContent", Dialect::Gemini, &HeaderMap::new(), None);
    assert_eq!(told(&client), ("gemini_cli", "exact", Some("gemini_cli"), None));
    let client = Client::detect("/v1beta/models/m:generateContent", Dialect::Gemini, &HeaderMap::new(), None);
    assert_eq!(client.family, Family::Generic);
}

#[test]
fn an_application_is_known_by_its_word_or_its_marks() {
    let report = "x-openai-client-user-agent";
    let long = "n".repeat(121);
    for (name, value, told) in [
        (report, "{\"client\":\"My Tool\",\"name\":\"x\"}", Some(("my_tool", "My Tool", "exact"))),
        (report, "{\"name\":\"Zed\"}", Some(("zed", "Zed", "exact"))),
        (report, "{\"app\":\" Raycast \"}", Some(("raycast", "Raycast", "exact"))),
        (report, "Some Editor/1.2", Some(("some_editor_1_2", "Some Editor/1.2", "exact"))),
        (report, "{\"lang\":\"python\",\"publisher\":\"openai\"}", None),
        (report, "{broken", None),
        (report, "///", None),
        (report, &long, None),
        ("user-agent", "opencode/1.0.3", Some(("opencode", "OpenCode", "heuristic"))),
        ("x-title", "Cherry Studio", Some(("cherry_studio", "Cherry Studio", "heuristic"))),
        ("referer", "https://cherry-ai.com", Some(("cherry_studio", "Cherry Studio", "heuristic"))),
        ("user-agent", "OpenClaw/3", Some(("openclaw", "OpenClaw", "heuristic"))),
        ("user-agent", "curl/8", None),
    ] {
        let client = detect(Dialect::Chat, &[(name, value)], None);
        assert_eq!(client.family, Family::Generic, "{value}");
        let app = client.app.as_ref().map(|app| (app.id.as_ref(), app.name.as_ref(), client.confidence.id()));
        assert_eq!(app, told, "{value}");
    }
    let codex = detect(Dialect::Chat, &[("originator", "codex_exec"), (report, "Wrapper")], None);
    assert_eq!(super::tests::told(&codex), ("codex", "exact", Some("wrapper"), None), "its own word wins");
}
