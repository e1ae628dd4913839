//! The provider names that LiteLLM writes before a model's name (docs.litellm.ai/docs/providers).

use crate::platform::Platform;

/// The providers whose protocol is supported here; the address is empty when `api_base` has to name one.
const SERVED: [(&str, Platform, &str); 17] = [
    ("openai", Platform::OpenAi, "https://api.openai.com"),
    ("text-completion-openai", Platform::OpenAi, "https://api.openai.com"),
    ("anthropic", Platform::Claude, "https://api.anthropic.com"),
    ("gemini", Platform::Gemini, "https://generativelanguage.googleapis.com"),
    ("openrouter", Platform::OpenAi, "https://openrouter.ai/api"),
    ("deepseek", Platform::OpenAi, "https://api.deepseek.com"),
    ("xai", Platform::OpenAi, "https://api.x.ai"),
    ("moonshot", Platform::OpenAi, "https://api.moonshot.ai"),
    ("groq", Platform::OpenAi, "https://api.groq.com/openai"),
    ("mistral", Platform::OpenAi, "https://api.mistral.ai"),
    ("together_ai", Platform::OpenAi, "https://api.together.xyz"),
    ("litellm_proxy", Platform::OpenAi, ""),
    ("hosted_vllm", Platform::OpenAi, ""),
    ("vllm", Platform::OpenAi, ""),
    ("openai_like", Platform::OpenAi, ""),
    ("custom_openai", Platform::OpenAi, ""),
    ("lm_studio", Platform::OpenAi, ""),
];

/// The providers that are not supported here. They are listed so that the text before the slash is recognised
/// as a provider.
const OTHERS: [&str; 14] = [
    "azure",
    "azure_ai",
    "azure_text",
    "bedrock",
    "sagemaker",
    "vertex_ai",
    "vertex_ai_beta",
    "cohere",
    "ollama",
    "ollama_chat",
    "watsonx",
    "replicate",
    "huggingface",
    "databricks",
];

/// The upstream of a model, and the model's name there.
pub(super) struct Upstream<'a> {
    pub platform: Platform,
    pub url: &'static str,
    pub model: &'a str,
}

/// Parses `provider/name`; for a name alone, LiteLLM guesses the provider by its prefix.
pub(super) fn find<'a>(model: &'a str, custom: Option<&str>) -> Result<Upstream<'a>, String> {
    let (provider, name) = match (custom, model.split_once('/')) {
        (Some(provider), Some((written, name))) if written == provider => (provider, name),
        (Some(provider), _) => (provider, model),
        (None, Some((provider, name))) => (provider, name),
        (None, None) if model.starts_with("claude-") => ("anthropic", model),
        (None, None) => ("openai", model),
    };
    let served = SERVED.iter().find(|(known, ..)| *known == provider);
    match served {
        Some((_, platform, url)) => Ok(Upstream { platform: *platform, url, model: name }),
        None if OTHERS.contains(&provider) => Err(format!("the provider {provider} is not supported here")),
        None => Err("an unknown provider".to_owned()),
    }
}
