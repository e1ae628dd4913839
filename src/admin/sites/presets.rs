//! Recommended addresses of API vendors, which `detect` recognises and the console offers. A table of data, because
//! vendors change names often.

use crate::platform::Platform;
use crate::site_url::SiteUrl;

/// A vendor's address with the models it is known for.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    /// Stable identifier; a site made from the preset keeps it.
    pub id: &'static str,
    pub label: &'static str,
    pub provider_label: &'static str,
    pub description: &'static str,
    pub platform: Platform,
    pub default_url: &'static str,
    /// Hosts with paths that `detect` recognises, on the default port of either scheme, without a trailing slash.
    detected: &'static [&'static str],
    pub recommended_models: &'static [&'static str],
    pub docs_url: &'static str,
}

/// Returns the preset with this id.
pub fn by_id(id: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.id == id)
}

/// Returns the preset whose host and path are exactly those of `url`; the first in the table wins.
pub fn by_url(url: &SiteUrl) -> Option<&'static Preset> {
    let address = format!("{}{}", url.host(), url.path());
    PRESETS.iter().find(|preset| url.port().is_none() && preset.detected.contains(&address.as_str()))
}

/// Returns the same as [`by_url`]; if the platform is known, also one of its presets whose default address would be
/// stored like `url`.
pub fn by_url_on(url: &SiteUrl, platform: Option<Platform>) -> Option<&'static Preset> {
    let is_wanted = |preset: &&Preset| platform.is_none_or(|platform| preset.platform == platform);
    let stored_alike = || {
        PRESETS.iter().filter(|preset| platform == Some(preset.platform)).find(|preset| {
            SiteUrl::parse(preset.default_url).is_ok_and(|own| own.persisted() == url.persisted())
        })
    };
    by_url(url).filter(is_wanted).or_else(stored_alike)
}

const CODINGPLAN_MODELS: &[&str] = &["qwen3-coder-plus", "qwen3-coder-next", "qwen3.5-plus", "glm-5"];
const ZHIPU_MODELS: &[&str] = &["glm-4.7", "glm-4.6", "glm-4.5", "glm-4.5-air"];
const DEEPSEEK_MODELS: &[&str] = &["deepseek-chat", "deepseek-reasoner"];
const MOONSHOT_MODELS: &[&str] = &["kimi-k2.5", "kimi-k2", "kimi-k2-thinking"];
const MINIMAX_MODELS: &[&str] = &["MiniMax-M2.7", "MiniMax-M2.5", "MiniMax-M2.1"];
const MODELSCOPE_MODELS: &[&str] =
    &["Qwen/Qwen3-32B", "Qwen/Qwen2.5-Coder-32B-Instruct", "deepseek-ai/DeepSeek-V3.2"];
const DOUBAO_MODELS: &[&str] = &["ark-code-latest", "doubao-seed-2.0-code", "doubao-seed-2.0-pro"];

/// All presets, in the order in which they are matched and listed.
pub const PRESETS: &[Preset] = &[
    Preset {
        id: "codingplan-openai",
        label: "Alibaba Cloud Coding Plan (OpenAI format)",
        provider_label: "Alibaba Cloud",
        description: "Coding plan of Model Studio, chat completions",
        platform: Platform::OpenAi,
        default_url: "https://coding.dashscope.aliyuncs.com/v1",
        detected: &["coding.dashscope.aliyuncs.com/v1"],
        recommended_models: CODINGPLAN_MODELS,
        docs_url: "https://help.aliyun.com/zh/model-studio/",
    },
    Preset {
        id: "codingplan-claude",
        label: "Alibaba Cloud Coding Plan (Claude format)",
        provider_label: "Alibaba Cloud",
        description: "Coding plan of Model Studio, messages",
        platform: Platform::Claude,
        default_url: "https://coding.dashscope.aliyuncs.com/apps/anthropic",
        detected: &["coding.dashscope.aliyuncs.com/apps/anthropic"],
        recommended_models: CODINGPLAN_MODELS,
        docs_url: "https://help.aliyun.com/zh/model-studio/",
    },
    Preset {
        id: "zhipu-coding-plan-openai",
        label: "Zhipu Coding Plan (OpenAI format)",
        provider_label: "Zhipu",
        description: "GLM coding plan, chat completions",
        platform: Platform::OpenAi,
        default_url: "https://open.bigmodel.cn/api/coding/paas/v4",
        detected: &["open.bigmodel.cn/api/coding/paas/v4"],
        recommended_models: ZHIPU_MODELS,
        docs_url: "https://docs.bigmodel.cn/",
    },
    Preset {
        id: "zhipu-coding-plan-claude",
        label: "Zhipu Coding Plan (Claude format)",
        provider_label: "Zhipu",
        description: "GLM coding plan, messages",
        platform: Platform::Claude,
        default_url: "https://open.bigmodel.cn/api/anthropic",
        // The same address also serves keys outside the plan, so it can only be chosen by hand.
        detected: &[],
        recommended_models: ZHIPU_MODELS,
        docs_url: "https://docs.bigmodel.cn/",
    },
    Preset {
        id: "deepseek-openai",
        label: "DeepSeek (OpenAI format)",
        provider_label: "DeepSeek",
        description: "DeepSeek platform, chat completions",
        platform: Platform::OpenAi,
        default_url: "https://api.deepseek.com/v1",
        detected: &["api.deepseek.com", "api.deepseek.com/v1"],
        recommended_models: DEEPSEEK_MODELS,
        docs_url: "https://api-docs.deepseek.com/",
    },
    Preset {
        id: "deepseek-claude",
        label: "DeepSeek (Claude format)",
        provider_label: "DeepSeek",
        description: "DeepSeek platform, messages",
        platform: Platform::Claude,
        default_url: "https://api.deepseek.com/anthropic",
        detected: &["api.deepseek.com/anthropic"],
        recommended_models: DEEPSEEK_MODELS,
        docs_url: "https://api-docs.deepseek.com/",
    },
    Preset {
        id: "moonshot-openai",
        label: "Moonshot (OpenAI format)",
        provider_label: "Moonshot AI",
        description: "Kimi platform, chat completions",
        platform: Platform::OpenAi,
        default_url: "https://api.moonshot.cn/v1",
        detected: &["api.moonshot.cn", "api.moonshot.cn/v1"],
        recommended_models: MOONSHOT_MODELS,
        docs_url: "https://platform.moonshot.cn/docs",
    },
    Preset {
        id: "moonshot-claude",
        label: "Moonshot (Claude format)",
        provider_label: "Moonshot AI",
        description: "Kimi platform, messages",
        platform: Platform::Claude,
        default_url: "https://api.moonshot.cn/anthropic",
        detected: &["api.moonshot.cn/anthropic"],
        recommended_models: MOONSHOT_MODELS,
        docs_url: "https://platform.moonshot.cn/docs",
    },
    Preset {
        id: "minimax-openai",
        label: "MiniMax (OpenAI format)",
        provider_label: "MiniMax",
        description: "MiniMax platform, chat completions",
        platform: Platform::OpenAi,
        default_url: "https://api.minimaxi.com/v1",
        detected: &["api.minimaxi.com", "api.minimaxi.com/v1"],
        recommended_models: MINIMAX_MODELS,
        docs_url: "https://platform.minimaxi.com/document",
    },
    Preset {
        id: "minimax-claude",
        label: "MiniMax (Claude format)",
        provider_label: "MiniMax",
        description: "MiniMax platform, messages",
        platform: Platform::Claude,
        default_url: "https://api.minimaxi.com/anthropic",
        detected: &["api.minimaxi.com/anthropic"],
        recommended_models: MINIMAX_MODELS,
        docs_url: "https://platform.minimaxi.com/document",
    },
    Preset {
        id: "modelscope-openai",
        label: "ModelScope (OpenAI format)",
        provider_label: "ModelScope",
        description: "ModelScope inference, chat completions",
        platform: Platform::OpenAi,
        default_url: "https://api-inference.modelscope.cn/v1",
        detected: &["api-inference.modelscope.cn/v1"],
        recommended_models: MODELSCOPE_MODELS,
        docs_url: "https://modelscope.cn/docs/model-service/API-Inference/intro",
    },
    Preset {
        id: "modelscope-claude",
        label: "ModelScope (Claude format)",
        provider_label: "ModelScope",
        description: "ModelScope inference, messages",
        platform: Platform::Claude,
        default_url: "https://api-inference.modelscope.cn",
        detected: &["api-inference.modelscope.cn"],
        recommended_models: MODELSCOPE_MODELS,
        docs_url: "https://modelscope.cn/docs/model-service/API-Inference/intro",
    },
    Preset {
        id: "doubao-coding-openai",
        label: "Doubao Coding Plan (OpenAI format)",
        provider_label: "Volcano Engine",
        description: "Ark coding plan, chat completions",
        platform: Platform::OpenAi,
        default_url: "https://ark.cn-beijing.volces.com/api/coding/v3",
        detected: &["ark.cn-beijing.volces.com/api/coding/v3"],
        recommended_models: DOUBAO_MODELS,
        docs_url: "https://www.volcengine.com/docs/82379",
    },
];

#[cfg(test)]
mod tests {
    use crate::admin::sites::presets::*;

    #[test]
    fn with_a_platform_a_preset_is_also_known_by_the_address_it_is_stored_under() {
        let openai = Some(Platform::OpenAi);
        for (typed, platform, id) in [
            ("https://coding.dashscope.aliyuncs.com", openai, Some("codingplan-openai")),
            ("https://coding.dashscope.aliyuncs.com", None, None),
            ("https://coding.dashscope.aliyuncs.com", Some(Platform::Claude), None),
            ("https://api.deepseek.com/v1", openai, Some("deepseek-openai")),
            ("https://api.deepseek.com/anthropic", openai, None),
            (
                "https://open.bigmodel.cn/api/anthropic",
                Some(Platform::Claude),
                Some("zhipu-coding-plan-claude"),
            ),
        ] {
            let url = SiteUrl::parse(typed).expect(typed);
            assert_eq!(by_url_on(&url, platform).map(|preset| preset.id), id, "{typed} {platform:?}");
        }
    }

    #[test]
    fn a_preset_is_recognised_by_exact_host_and_path() {
        for (typed, id) in [
            ("https://api.deepseek.com", Some("deepseek-openai")),
            ("https://api.deepseek.com/v1/", Some("deepseek-openai")),
            ("api.deepseek.com/anthropic", Some("deepseek-claude")),
            ("https://coding.dashscope.aliyuncs.com/v1", Some("codingplan-openai")),
            ("https://coding.dashscope.aliyuncs.com", None),
            ("https://open.bigmodel.cn/api/anthropic", None),
            ("https://api-inference.modelscope.cn/", Some("modelscope-claude")),
            ("https://api.deepseek.com.evil.example/v1", None),
            ("https://api.deepseek.com:8443/v1", None),
            ("http://api.deepseek.com/v1", Some("deepseek-openai")),
            ("https://relay.example.com/?next=https://api.deepseek.com/v1", None),
        ] {
            let url = SiteUrl::parse(typed).expect(typed);
            assert_eq!(by_url(&url).map(|preset| preset.id), id, "{typed}");
        }
    }

    #[test]
    fn ids_are_unique_and_end_in_their_format() {
        for (index, preset) in PRESETS.iter().enumerate() {
            assert!(PRESETS[..index].iter().all(|earlier| earlier.id != preset.id), "{}", preset.id);
            assert_eq!(by_id(preset.id), Some(preset));
            let suffix = if preset.platform == Platform::Claude { "-claude" } else { "-openai" };
            assert!(preset.id.ends_with(suffix), "{}", preset.id);
            assert!(SiteUrl::parse(preset.default_url).is_ok(), "{}", preset.id);
        }
    }
}
