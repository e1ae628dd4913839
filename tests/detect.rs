//! Detection of a platform from an address: presets, hints in the URL, and an honest "unknown".

use serde_json::json;

use crate::support::{Gateway, Upstream};

fn detect(gateway: &Gateway, url: &str) -> serde_json::Value {
    gateway.admin().post("/api/sites/detect", &json!({"url": url})).expect(200)
}

#[test]
fn an_address_that_names_its_vendor_needs_no_network() {
    let gateway = Gateway::start();
    for (url, platform) in [
        ("https://api.openai.com", "openai"),
        ("api.openai.com/v1/chat/completions?x=1", "openai"),
        ("https://chatgpt.com/backend-api/codex", "codex"),
        ("https://api.anthropic.com", "claude"),
        ("https://anthropic.com/v1", "claude"),
        ("https://generativelanguage.googleapis.com", "gemini"),
        ("https://europe.googleapis.com/v1beta/openai", "gemini"),
        ("https://cloudcode-pa.googleapis.com", "gemini-cli"),
        ("https://daily-cloudcode-pa.googleapis.com", "antigravity"),
        ("https://daily-cloudcode-pa.sandbox.googleapis.com", "antigravity"),
        ("https://antigravity.example", "antigravity"),
        ("http://127.0.0.1:8317", "cliproxyapi"),
        ("http://localhost:8317/", "cliproxyapi"),
        ("https://anyrouter.example", "anyrouter"),
        ("https://my-donehub.example", "done-hub"),
        ("https://one-hub.example", "one-hub"),
        ("https://veloera.example", "veloera"),
        ("https://sub2api.example", "sub2api"),
    ] {
        assert_eq!(detect(&gateway, url)["platform"], platform, "{url}");
    }
}

#[test]
fn an_official_preset_is_recognised_by_host_and_path() {
    let gateway = Gateway::start();
    for (url, preset, platform) in [
        ("https://api.deepseek.com", "deepseek-openai", "openai"),
        ("https://api.deepseek.com/v1", "deepseek-openai", "openai"),
        ("https://api.deepseek.com/anthropic", "deepseek-claude", "claude"),
        ("https://api.moonshot.cn/v1/", "moonshot-openai", "openai"),
        ("https://api.minimaxi.com/anthropic", "minimax-claude", "claude"),
        ("https://coding.dashscope.aliyuncs.com/v1", "codingplan-openai", "openai"),
        ("https://coding.dashscope.aliyuncs.com/apps/anthropic", "codingplan-claude", "claude"),
        ("https://open.bigmodel.cn/api/coding/paas/v4", "zhipu-coding-plan-openai", "openai"),
        ("https://api-inference.modelscope.cn", "modelscope-claude", "claude"),
        ("https://api-inference.modelscope.cn/v1", "modelscope-openai", "openai"),
        ("https://ark.cn-beijing.volces.com/api/coding/v3", "doubao-coding-openai", "openai"),
    ] {
        let found = detect(&gateway, url);
        assert_eq!(found["initializationPresetId"], preset, "{url}");
        assert_eq!(found["platform"], platform, "{url}");
    }
}

#[test]
fn a_preset_answers_the_address_that_its_site_will_have() {
    let gateway = Gateway::start();
    for (url, stored) in [
        ("https://api.deepseek.com/anthropic", "https://api.deepseek.com/anthropic"),
        ("https://open.bigmodel.cn/api/coding/paas/v4/", "https://open.bigmodel.cn/api/coding/paas/v4"),
        ("https://api-inference.modelscope.cn/v1", "https://api-inference.modelscope.cn"),
    ] {
        let mut found = detect(&gateway, url);
        assert_eq!(found["url"], stored);
        // The result of a detection can be sent to create a site, and is shown again.
        found["name"] = json!("a preset");
        let site = gateway.create_site(&found);
        for field in ["url", "platform", "initializationPresetId"] {
            assert_eq!(site[field], found[field], "{field}");
        }
    }
}

#[test]
fn the_answer_has_the_address_as_it_would_be_stored() {
    let gateway = Gateway::start();
    let found = detect(&gateway, " API.openai.com/v1/ ");
    assert_eq!(found["url"], "https://api.openai.com");
    assert!(found.get("initializationPresetId").is_none(), "left out when there is none: {found}");
}

#[test]
fn a_vendor_named_in_a_query_or_a_path_is_no_hint() {
    let silent = Upstream::start(&[]);
    let gateway = Gateway::start();
    for tail in ["/?next=https://api.openai.com", "/api.anthropic.com", "/#veloera"] {
        let found = detect(&gateway, &format!("{}{tail}", silent.url()));
        assert!(found["error"].is_string(), "{tail}: {found}");
        assert!(found.get("platform").is_none(), "{tail}: {found}");
    }
}

#[test]
fn an_address_that_nobody_knows_is_said_to_be_unknown() {
    let silent = Upstream::start(&[]);
    let gateway = Gateway::start();
    let found = detect(&gateway, &silent.url());
    assert_eq!(found["error"], "Could not detect platform");
    // Creating such a site without a platform gives the same error, and creates nothing.
    let created = gateway.admin().post("/api/sites", &json!({"name": "n", "url": silent.url()})).expect(200);
    assert!(created["error"].is_string(), "{created}");
    assert_eq!(gateway.admin().get("/api/sites").expect(200), json!([]));
}

#[test]
fn an_address_that_is_none_is_a_bad_request() {
    let gateway = Gateway::start();
    for body in [json!({}), json!({"url": ""}), json!({"url": "  "}), json!({"url": 7}), json!({"url": null})]
    {
        let error = gateway.admin().post("/api/sites/detect", &body).expect(400);
        assert!(error["error"].as_str().is_some_and(|text| text.contains("url")), "{body}: {error}");
    }
}

#[test]
fn a_site_without_a_platform_gets_the_detected_one() {
    let gateway = Gateway::start();
    for (url, platform) in [("https://api.openai.com", "openai"), ("https://my-veloera.example", "veloera")] {
        let site = gateway.create_site(&json!({"name": "n", "url": url, "platform": " "}));
        assert_eq!(site["platform"], platform);
    }
}

#[test]
fn the_presets_are_listed_with_what_is_recommended() {
    let gateway = Gateway::start();
    let list = gateway.admin().get("/api/sites/presets").expect(200);
    let presets = list["presets"].as_array().expect("presets");
    assert_eq!(presets.len(), 13);
    let deepseek = presets.iter().find(|preset| preset["id"] == "deepseek-openai").expect("in the list");
    assert_eq!(deepseek["platform"], "openai");
    assert_eq!(deepseek["defaultUrl"], "https://api.deepseek.com/v1");
    assert_eq!(deepseek["recommendedModels"], json!(["deepseek-chat", "deepseek-reasoner"]));
    for preset in presets {
        for field in ["id", "label", "providerLabel", "platform", "defaultUrl"] {
            assert!(preset[field].is_string(), "{field}: {preset}");
        }
    }
}
