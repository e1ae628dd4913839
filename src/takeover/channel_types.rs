//! The meaning of the numbers in `channels.type`: an upstream's protocol, and its address where none is set.
//!
//! The two programs differ in numbers above 25. Addresses are those to which this gateway appends the paths of
//! the protocol: new-api and one-api append `/api/v3/…` for Volcengine and `/api/paas/v4/…` for Zhipu by
//! themselves.
//!
//! Sources: `constant/channel.go` of github.com/QuantumNous/new-api, `relay/channeltype/` of
//! github.com/songquanpeng/one-api.

use super::taken::Kind;
use crate::platform::Platform;

/// A type of upstream that is supported here.
#[derive(Clone, Copy)]
pub(super) struct ChannelType {
    pub name: &'static str,
    pub platform: Platform,
    /// Empty when the operator has to provide one.
    pub url: &'static str,
    /// The path that is appended to an address without one.
    pub path: &'static str,
}

/// Returns the upstream type of a number, or the name of one that is not supported here.
pub(super) fn find(program: Kind, number: i64) -> Result<ChannelType, &'static str> {
    let known = |name, platform, url| Ok(ChannelType { name, platform, url, path: "" });
    let below = |name, url, path| Ok(ChannelType { name, platform: Platform::OpenAi, url, path });
    let openai = |name, url| known(name, Platform::OpenAi, url);
    match number {
        1 => return openai("OpenAI", "https://api.openai.com"),
        3 => return Err("Azure OpenAI"),
        8 => return openai("Custom", ""),
        14 => return known("Anthropic", Platform::Claude, "https://api.anthropic.com"),
        15 => return Err("Baidu Wenxin"),
        16 => return Err("Zhipu's older protocol"),
        17 => return Err("Alibaba DashScope's own protocol"),
        18 => return Err("iFlytek Spark"),
        20 => return openai("OpenRouter", "https://openrouter.ai/api"),
        24 => return known("Gemini", Platform::Gemini, "https://generativelanguage.googleapis.com"),
        25 => return openai("Moonshot", "https://api.moonshot.cn"),
        33 => return Err("AWS Bedrock"),
        _ => {}
    }
    if program == Kind::NewApi {
        match number {
            26 => below("Zhipu v4", "https://open.bigmodel.cn", "/api/paas/v4"),
            35 => openai("MiniMax", "https://api.minimax.chat"),
            40 => openai("SiliconFlow", "https://api.siliconflow.cn"),
            41 => Err("Google Vertex AI"),
            43 => openai("DeepSeek", "https://api.deepseek.com"),
            45 => below("Volcengine", "https://ark.cn-beijing.volces.com", "/api/v3"),
            48 => openai("xAI", "https://api.x.ai"),
            57 => Ok(ChannelType {
                name: "Codex",
                platform: Platform::Codex,
                url: "https://chatgpt.com",
                path: "/backend-api/codex",
            }),
            2 | 5 => Err("Midjourney"),
            36 => Err("Suno"),
            50..=52 => Err("a video service"),
            _ => Err("a protocol that is not supported here"),
        }
    } else {
        match number {
            27 => openai("MiniMax", "https://api.minimax.chat"),
            36 => openai("DeepSeek", "https://api.deepseek.com"),
            40 => below("Doubao", "https://ark.cn-beijing.volces.com", "/api/v3"),
            42 => Err("Google Vertex AI"),
            44 => openai("SiliconFlow", "https://api.siliconflow.cn"),
            45 => openai("xAI", "https://api.x.ai"),
            50 => openai("OpenAI-compatible", ""),
            51 => below(
                "Gemini's OpenAI protocol",
                "https://generativelanguage.googleapis.com",
                "/v1beta/openai",
            ),
            _ => Err("a protocol that is not supported here"),
        }
    }
}

/// Names of subscriptions that new-api accepts in place of an address.
const PLANS: [(&str, &str); 4] = [
    ("glm-coding-plan", "https://open.bigmodel.cn/api/coding/paas/v4"),
    ("glm-coding-plan-international", "https://api.z.ai/api/coding/paas/v4"),
    ("kimi-coding-plan", "https://api.kimi.com/coding/v1"),
    ("doubao-coding-plan", "https://ark.cn-beijing.volces.com/api/coding/v3"),
];

impl ChannelType {
    /// Returns the address of a channel: its own, else that of its type.
    pub fn address(&self, own: Option<&str>) -> String {
        let address = own.unwrap_or(self.url).trim_end_matches('/');
        if let Some((_, plan)) = PLANS.iter().find(|(name, _)| *name == address) {
            return (*plan).to_owned();
        }
        let path = address.split_once("://").map_or(address, |(_, rest)| rest).split_once('/');
        let needs_path = path.is_none() && !address.is_empty();
        if needs_path { format!("{address}{}", self.path) } else { address.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_its_address_where_none_is_written() {
        for (program, number, own, expected) in [
            (Kind::NewApi, 1, None, "https://api.openai.com"),
            (Kind::NewApi, 14, None, "https://api.anthropic.com"),
            (Kind::NewApi, 24, None, "https://generativelanguage.googleapis.com"),
            (Kind::NewApi, 26, None, "https://open.bigmodel.cn/api/paas/v4"),
            (Kind::NewApi, 43, None, "https://api.deepseek.com"),
            (Kind::NewApi, 45, None, "https://ark.cn-beijing.volces.com/api/v3"),
            (Kind::NewApi, 48, None, "https://api.x.ai"),
            (Kind::NewApi, 57, None, "https://chatgpt.com/backend-api/codex"),
            (Kind::NewApi, 57, Some("https://chatgpt.com/"), "https://chatgpt.com/backend-api/codex"),
            (Kind::NewApi, 26, Some("glm-coding-plan"), "https://open.bigmodel.cn/api/coding/paas/v4"),
            (Kind::NewApi, 25, Some("kimi-coding-plan"), "https://api.kimi.com/coding/v1"),
            (Kind::NewApi, 45, Some("doubao-coding-plan"), "https://ark.cn-beijing.volces.com/api/coding/v3"),
            (Kind::OneApi, 27, None, "https://api.minimax.chat"),
            (Kind::OneApi, 36, None, "https://api.deepseek.com"),
            (Kind::OneApi, 40, None, "https://ark.cn-beijing.volces.com/api/v3"),
            (Kind::OneApi, 44, None, "https://api.siliconflow.cn"),
            (Kind::OneApi, 50, None, ""),
            (Kind::OneApi, 40, Some("https://ark.example/"), "https://ark.example/api/v3"),
            (Kind::OneApi, 40, Some("https://ark.example/api/v9"), "https://ark.example/api/v9"),
            (Kind::NewApi, 1, Some("https://one.example/"), "https://one.example"),
        ] {
            let of_type = find(program, number).unwrap_or_else(|what| panic!("{number}: {what}"));
            assert_eq!(of_type.address(own), expected, "{number}");
        }
        for (program, number) in
            [(Kind::NewApi, 3), (Kind::NewApi, 36), (Kind::OneApi, 42), (Kind::OneApi, 57)]
        {
            assert!(find(program, number).is_err(), "{number}");
        }
    }
}
