use super::*;

/// Returns the classes of a text by their letters: Model, (model) Elsewhere, Protocol, Validation, tImeout,
/// Transient, Credential, Limit.
fn classes_of(text: &ErrorText) -> String {
    [
        (text.is_about_model(), 'M'),
        (text.sends_model_elsewhere(), 'E'),
        (text.is_about_protocol(), 'P'),
        (text.is_about_validation(), 'V'),
        (text.is_timeout(), 'I'),
        (text.is_transient(), 'T'),
        (text.is_about_credential(), 'C'),
        (text.is_about_limit(), 'L'),
    ]
    .into_iter()
    .filter_map(|(is, letter)| is.then_some(letter))
    .collect()
}

#[test]
fn words_of_the_request_are_of_no_class() {
    for (message, request, expected) in [
        ("Invalid value: 'quota exceeded'", r#"{"x":"quota exceeded"}"#, ""),
        ("Invalid value: 'unknown model'", r#"{"x":"Unknown\u0020model"}"#, ""),
        ("x: 'invalid api key', quota exceeded", r#"{"x":"Invalid API key"}"#, "L"),
        ("The model 'x y' is wrong: 'does not exist'", r#"{"x":"does not exist","model":"x y"}"#, ""),
        ("The model `x` does not exist", r#"{"model":"x"}"#, "ME"),
        ("model 'm' not found in 'not found'", r#"{"model":"m","x":"not found"}"#, ""),
        ("当前分组不支持 gpt-9 模型", r#"{"模型":"gpt-9"}"#, "ME"),
        ("a bad value: 不支持的模型", r#"{"x":"不支持的模型"}"#, ""),
        ("value 'validation' of unknown model", r#"{"x":"validation"}"#, "ME"),
    ] {
        let mut text = ErrorText::new(message);
        text.answers(vec![Bytes::from_static(request.as_bytes())]);
        assert_eq!(classes_of(&text), expected, "{message}");
    }
    assert!(ErrorText::new("You exceeded your current quota, please check your plan.").is_used_up());
    assert!(ErrorText::new("x").named(["insufficient_quota"]).is_used_up());
    let mut text = ErrorText::new("limit").named(["rate_limit_exceeded"]);
    text.answers(vec![Bytes::from_static(b"rate_limit_exceeded limit")]);
    assert!(text.is_used_up() && text.is_about_limit(), "the names are the upstream's own");
}

#[test]
fn what_a_text_quotes_may_be_of_the_request() {
    for (message, expected) in [
        ("Conversation with id 'c-1' not found.", true),
        ("it is not 'there': no \"c-1\"", true),
        ("Invalid URL (POST /v1/responses)", false),
        ("unknown path '/v1/x'", false),
        ("it's gone, isn't it", false),
    ] {
        let mut text = ErrorText::new(message);
        text.answers(vec![Bytes::from_static(br#"{"conversation":"c-1"}"#)]);
        assert_eq!(text.quotes_the_request(), expected, "{message}");
    }
}

#[test]
fn every_phrase_is_of_its_class_whatever_its_case() {
    for (texts, expected) in [
        (
            vec![
                "Unsupported model: x",
                "model not supported",
                "This group does not support the model x",
                "it does not support model x",
                "no such model",
                "UNKNOWN MODEL",
                "invalid model",
                "unknown provider for model x",
                "The model `x` does not exist",
                "Model Not Exist",
                "a/b is not a valid model ID",
                "模型不存在，请检查模型代码。",
                "该模型已下线",
                "不支持所选模型",
                "当前分组不支持 gpt-9 模型",
                "模型 gpt-9 暂不支持",
            ],
            "ME",
        ),
        (
            vec![
                "model_not_found",
                "You do not have access to the model x",
                "Project `p` does not have access to model `x`",
                "The requested model 'gpt-4.1' is not supported.",
                "model \"llama3:8b\" not found, try pulling it first",
                "models/gemini-9 is not found for API version v1beta",
                "Model x is currently not available",
                "No endpoints found for a/b.",
                "Model x ratio or price not set, please set or start self-use mode",
                "模型 x 倍率或价格未配置",
                "model 'vision' is not supported",
                "model vision-2 not supported",
            ],
            "E",
        ),
        (
            vec![
                "Unsupported legacy protocol",
                "please use /v1/responses",
                "please use /v1/messages",
                "Please use /v1/chat/completions",
                "this group does not allow /v1/messages dispatch",
                "dispatch not allowed",
                "not allowed to dispatch /v1/chat/completions",
                "dispatch to /v1/messages denied",
                "unsupported endpoint",
                "unsupported path",
                "unknown endpoint",
                "Unrecognized request URL (POST /v1/foo)",
                "no Route matched with those values",
            ],
            "P",
        ),
        (
            vec![
                "Invalid request body",
                "validation failed",
                "missing required field",
                "required parameter: messages",
                "unknown parameter",
                "unrecognized field",
                "unrecognized key",
                "unrecognized parameter",
                "malformed",
                "invalid JSON",
                "cannot parse",
                "Unsupported Media Type",
            ],
            "V",
        ),
        (vec!["Request timed out", "connection timed out", "read timeout", "First byte timeout (3s)"], "IT"),
        (
            vec![
                "502 Bad Gateway",
                "Gateway Time-out",
                "Service Unavailable",
                "temporarily unavailable",
                "system cpu overloaded",
                "connection reset by peer",
                "Connection refused (os error 111)",
                "ECONNRESET",
                "econnrefused",
                "当前模型负载过高，请稍后重试",
                "当前分组上游负载已饱和，请稍后再试",
            ],
            "T",
        ),
        (
            vec![
                "Invalid API key",
                "API key not valid. Please pass a valid API key.",
                "invalid access token",
                "Forbidden",
                "This organization has been disabled.",
                "This credential is only authorized for use with Claude Code and cannot be used for other API requests.",
                "User location is not supported for the API use.",
                "Your organization must be verified to stream this model.",
            ],
            "C",
        ),
        (
            vec![
                "Rate limit reached",
                "Too Many Requests",
                "insufficient quota",
                "Your credit balance is too low to access the API",
                "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
                "Third-party apps now draw from your extra usage, not your plan limits.",
                "You're out of extra usage. Add more at claude.ai/settings/usage and keep going.",
                "用户额度不足",
                "账户余额不足",
                "您的账户已欠费，请充值后重试",
            ],
            "L",
        ),
        (
            vec![
                "timeout must be <= 60",
                "invalid timeout parameter",
                "not found",
                "'max_tokens' is not supported with this model.",
                "Tool use for model x is not supported",
                "Tool use with the selected model gpt-x is not supported",
                "multi-model input is not supported",
                "model_kwargs is not supported",
                "the file for the model was not found",
                "The model parameter top_k is not supported",
                "the model answered that your file was not found",
                "model tools not supported",
                "Model streaming is not supported",
                "model: temperature not supported",
                "",
            ],
            "",
        ),
    ] {
        for text in texts {
            assert_eq!(classes_of(&ErrorText::new(text)), expected, "{text}");
        }
    }
}

#[test]
fn the_name_of_a_model_alone_says_that_it_is_not_there() {
    for (message, kind, expected) in [
        ("model: claude-9", "not_found_error", "E"),
        ("model: claude-9", "invalid_request_error", ""),
        ("model: a temperature is wanted", "not_found_error", ""),
        ("file: claude-9", "not_found_error", ""),
    ] {
        let text = ErrorText::new(message).named([kind]);
        assert_eq!(classes_of(&text), expected, "{message} {kind}");
    }
}
