//! Detects the platform behind an address: from presets first, then from host and path alone, then from the site's own
//! answers ([`detect`](crate::upstream::platforms::detect)). Only the parsed host and path count, so a vendor's name
//! inside a query proves nothing.

use std::sync::Arc;

use super::presets;
use super::presets::Preset;
use crate::core::Core;
use crate::platform::{Address, Platform};
use crate::routing::{BaseUrl, OutboundProxy};
use crate::site_url::SiteUrl;
use crate::upstream::platforms;

/// The result of detecting an address.
#[derive(Debug, PartialEq, Eq)]
pub struct Detected {
    pub platform: Platform,
    pub preset: Option<&'static Preset>,
}

/// Detects the platform of an address from its text or from what answers there, asked through `proxy`, else through the
/// system proxy if there is one; within eight seconds.
///
/// # Errors
/// Fails if that proxy cannot be used: nothing is asked another way. The message is for people.
pub async fn detect(core: &Core, url: &SiteUrl, proxy: Option<&str>) -> Result<Option<Detected>, String> {
    if let Some(detected) = by_address(url) {
        return Ok(Some(detected));
    }
    let settings = core.settings.load();
    let proxy = proxy.or(settings.system_proxy_url.as_deref()).filter(|text| !text.trim().is_empty());
    let proxy = proxy.map(OutboundProxy::parse).transpose();
    let proxy = proxy.map_err(|problem| format!("the outbound proxy is invalid: {problem}"))?;
    let base = BaseUrl::parse(&url.persisted(), proxy.map(Arc::new))?;
    let found = platforms::detect(&core.client, &base).await;
    Ok(found.map(|platform| Detected { platform, preset: None }))
}

/// Detects the platform without asking anybody; `None` if host and path do not show it.
pub fn by_address(url: &SiteUrl) -> Option<Detected> {
    if let Some(preset) = presets::by_url(url) {
        return Some(Detected { platform: preset.platform, preset: Some(preset) });
    }
    let address = Address { host: url.host(), port: url.port(), path: url.path() };
    Platform::at(&address).map(|platform| Detected { platform, preset: None })
}

#[cfg(test)]
mod tests {
    use crate::admin::sites::detect::*;

    #[test]
    fn host_and_path_alone_tell_the_platform() {
        for (typed, platform) in [
            ("https://api.openai.com/v1", Some(Platform::OpenAi)),
            ("https://chatgpt.com/backend-api/codex", Some(Platform::Codex)),
            ("https://chatgpt.com/backend-api/codex/x", Some(Platform::Codex)),
            ("https://chatgpt.com/backend-api/codexes", None),
            ("https://chatgpt.com", None),
            ("https://api.anthropic.com", Some(Platform::Claude)),
            ("https://anthropic.com/v1", Some(Platform::Claude)),
            ("https://anthropic.com", None),
            ("https://generativelanguage.googleapis.com", Some(Platform::Gemini)),
            ("https://gemini.google.com/x", Some(Platform::Gemini)),
            ("https://eu-x.googleapis.com/v1beta/openai", Some(Platform::Gemini)),
            ("https://eu-x.googleapis.com", None),
            ("https://evilgoogleapis.com/v1beta/openai", None),
            ("https://cloudcode-pa.googleapis.com", Some(Platform::GeminiCli)),
            ("http://127.0.0.1:8317", Some(Platform::CliProxyApi)),
            ("http://localhost:8317/v1", Some(Platform::CliProxyApi)),
            ("http://localhost:8318", None),
            ("https://my.anyrouter.top", Some(Platform::AnyRouter)),
            ("https://done-hub.example.com", Some(Platform::DoneHub)),
            ("https://donehub.example.com", Some(Platform::DoneHub)),
            ("https://one-hub.example.com", Some(Platform::OneHub)),
            ("https://demo.veloera.example", Some(Platform::Veloera)),
            ("https://sub2api.example", Some(Platform::Sub2Api)),
            ("https://evil.example.com/?next=https://api.openai.com", None),
            ("https://evil.example.com/veloera", None),
            ("https://evil.example.com/@api.openai.com", None),
            ("https://api.openai.com.evil.example/", None),
        ] {
            let url = SiteUrl::parse(typed).expect(typed);
            assert_eq!(by_address(&url).map(|detected| detected.platform), platform, "{typed}");
        }
    }

    #[test]
    fn a_preset_wins_over_the_hint() {
        let url = SiteUrl::parse("https://api.deepseek.com/v1").expect("a valid address");
        let detected = by_address(&url).expect("recognised");
        assert_eq!(detected.preset.map(|preset| preset.id), Some("deepseek-openai"));
        assert_eq!(detected.platform, Platform::OpenAi);
    }
}
