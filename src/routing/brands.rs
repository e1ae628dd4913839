//! Finds the brands of a model by its name, and whether one of them is blocked.
//!
//! A name may carry several brands: the vendor's, and that of an aggregator in front of it. Blocking any of them blocks the
//! model.

/// A brand and the keywords that reveal it.
struct Brand {
    name: &'static str,
    /// Another spelling by which the brand may be blocked.
    alias: &'static str,
    /// Keywords separated by blanks. A plain keyword matches anywhere in the name; `^` stands for the start of the name or
    /// of a segment, `=` for a whole segment, `~` for a separate word.
    keywords: &'static str,
}

const fn brand(name: &'static str, alias: &'static str, keywords: &'static str) -> Brand {
    Brand { name, alias, keywords }
}

/// All brands, in the order of display.
#[rustfmt::skip]
static BRANDS: [Brand; 68] = [
    brand("OpenAI", "", "^gpt ^chatgpt ^dall-e ^whisper ^text-embedding ^text-moderation ^davinci ^babbage ^codex-mini ^o1 ^o3 ^o4 ^tts"),
    brand("Anthropic", "", "claude"),
    brand("Google", "", "gemini gemma google/ palm deplot imagen learnlm aqa ^veo"),
    brand("DeepSeek", "", "deepseek =ds-chat"),
    brand("Qwen", "通义千问", "qwen qwq tongyi"),
    brand("Zhipu AI", "智谱 AI", "glm codegeex cogview cogvideo"),
    brand("Meta", "", "llama"),
    brand("Mistral", "", "mistral mixtral codestral pixtral ministral voxtral magistral"),
    brand("Moonshot", "", "moonshot kimi"),
    brand("01.AI", "零一万物", "^yi- ~yi"),
    brand("ERNIE", "文心一言", "ernie eb-"),
    brand("Spark", "讯飞星火", "spark generalv"),
    brand("Hunyuan", "腾讯混元", "hunyuan"),
    brand("Doubao", "豆包", "doubao"),
    brand("MiniMax", "", "minimax abab =mini2.1"),
    brand("Cohere", "", "command c4ai- aya ^embed-"),
    brand("Microsoft", "", "microsoft/ phi- kosmos =phi4"),
    brand("xAI", "", "grok"),
    brand("StepFun", "阶跃星辰", "stepfun ^step- ^step3"),
    brand("Baichuan", "百川智能", "baichuan"),
    brand("AI21 Labs", "", "ai21 jamba"),
    brand("AI2", "", "allenai olmo"),
    brand("Amazon Nova", "", "amazon.nova ^amazon/nova ^nova-"),
    brand("Stability", "", "flux stablediffusion stable-diffusion sdxl ^sd3"),
    brand("NVIDIA", "", "nvidia/ nvclip nemotron nemoretriever neva riva-translate cosmos ^nv-"),
    brand("IBM", "", "ibm/ granite"),
    brand("BAAI", "", "baai/ bge-"),
    brand("ByteDance", "", "bytedance seed-oss kolors kwai ^wan- ^kat-"),
    brand("InternLM", "", "internlm"),
    brand("Midjourney", "", "midjourney ^mj_"),
    brand("DeepL", "", "deepl/ ^deepl-"),
    brand("Jina AI", "", "jina"),
    brand("Relace", "", "relace"),
    brand("Arcee", "", "arcee"),
    brand("AionLabs", "", "aion-labs aionlabs"),
    brand("DeepCogito", "", "deepcogito"),
    brand("Essential AI", "", "essentialai"),
    brand("Inception", "", "inception"),
    brand("Inflection", "", "inflection"),
    brand("Liquid AI", "", "liquid ^lfm-"),
    brand("LongCat", "", "longcat"),
    brand("Morph", "", "morph/ ^morph-"),
    brand("Nous Research", "", "nousresearch"),
    brand("Upstage", "", "upstage"),
    brand("Xiaomi MiMo", "", "xiaomi/mimo xiaomimimo ^mimo-v"),
    brand("Z.ai", "", "^2zai ^z-ai"),
    brand("SenseNova", "", "sensenova"),
    brand("Perplexity", "", "perplexity ^pplx-"),
    brand("OpenRouter", "", "openrouter"),
    brand("Groq", "", "groq"),
    brand("Fireworks", "", "fireworks"),
    brand("DeepInfra", "", "deepinfra"),
    brand("Together AI", "", "together"),
    brand("Replicate", "", "replicate"),
    brand("SambaNova", "", "sambanova"),
    brand("Cerebras", "", "cerebras"),
    brand("Ollama", "", "ollama"),
    brand("ModelScope", "", "modelscope"),
    brand("SiliconCloud", "", "siliconcloud siliconflow"),
    brand("Azure AI", "", "azureai azure-openai azure/openai"),
    brand("AWS Bedrock", "", "bedrock"),
    brand("Vertex AI", "", "vertexai"),
    brand("Google Cloud", "", "googlecloud google-cloud"),
    brand("Baidu AI Cloud", "百度智能云", "baiducloud qianfan"),
    brand("Bailian", "百炼", "bailian dashscope"),
    brand("Alibaba Cloud", "阿里云", "alibabacloud"),
    brand("Volcengine", "火山引擎", "volcengine"),
    brand("Qiniu", "七牛云", "qiniu"),
];

/// The brands that an operator has blocked.
#[derive(Default)]
pub struct BlockedBrands(Vec<&'static Brand>);

/// Returns every brand's name, in the order of display.
pub fn names() -> impl Iterator<Item = &'static str> {
    BRANDS.iter().map(|brand| brand.name)
}

impl BlockedBrands {
    /// Finds the brands with these names, ignoring case and extra blanks; unknown names block nothing.
    pub fn of(names: &[String]) -> Self {
        let blocked: Vec<String> = names.iter().map(|name| folded(name)).collect();
        let is_blocked = |name: &str| !name.is_empty() && blocked.contains(&folded(name));
        Self(BRANDS.iter().filter(|brand| is_blocked(brand.name) || is_blocked(brand.alias)).collect())
    }

    /// Returns whether the model is of a blocked brand.
    pub fn block(&self, model: &str) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let name = ModelName::new(model);
        self.0.iter().any(|brand| brand.has(&name))
    }
}

/// A model's name, prepared for the search for brands.
struct ModelName {
    /// The name in lower case.
    whole: String,
    /// The name with and without its wrappers and pattern marks, and its parts between `/`, `:`, `,` and blanks without
    /// theirs.
    segments: Vec<String>,
}

impl ModelName {
    fn new(model: &str) -> Self {
        let whole = model.trim().to_lowercase();
        let bare = unwrapped(&whole);
        let mut segments = vec![whole.clone(), bare.to_owned()];
        for part in bare.split(['/', ':', ',']) {
            let part = unwrapped(part);
            segments.push(part.to_owned());
            segments.extend(part.split_whitespace().map(str::to_owned));
        }
        segments.retain(|segment| !segment.is_empty());
        Self { whole, segments }
    }
}

impl Brand {
    fn has(&self, name: &ModelName) -> bool {
        let segments = || name.segments.iter();
        self.keywords.split(' ').any(|keyword| match keyword.split_at(1) {
            ("^", start) => segments().any(|segment| segment.starts_with(start)),
            ("=", word) => segments().any(|segment| segment == word),
            ("~", word) => has_word(&name.whole, word, |c| "/:_-".contains(c) || c.is_whitespace()),
            _ => name.whole.contains(keyword),
        }) || [self.name, self.alias]
            .into_iter()
            .filter(|name| !name.is_empty())
            .any(|own| has_word(&name.whole, &own.to_lowercase(), |c| !c.is_alphanumeric()))
    }
}

/// Removes what may stand before a name (`re:`, `^`, `[relay]`, `【relay】`) and a `$` after it.
fn unwrapped(name: &str) -> &str {
    let mut bare = name.trim();
    loop {
        let inner = ["re:", "^"].iter().find_map(|mark| bare.strip_prefix(mark)).or_else(|| {
            [('[', ']'), ('【', '】')]
                .into_iter()
                .find_map(|(open, close)| bare.strip_prefix(open)?.split_once(close).map(|(_, rest)| rest))
        });
        match inner.or_else(|| bare.strip_suffix('$')) {
            Some(inner) => bare = inner.trim(),
            None => return bare,
        }
    }
}

/// Returns whether `word` occurs in `text` with an end or a separator on both sides.
fn has_word(text: &str, word: &str, is_separator: impl Fn(char) -> bool) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        before.is_none_or(&is_separator) && after.is_none_or(&is_separator)
    })
}

/// Converts to lower case, trims, and collapses inner blanks.
fn folded(name: &str) -> String {
    name.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brands_of(model: &str) -> Vec<&'static str> {
        let name = ModelName::new(model);
        BRANDS.iter().filter(|brand| brand.has(&name)).map(|brand| brand.name).collect()
    }

    #[test]
    fn a_model_carries_the_brands_of_its_vendor_and_of_those_it_comes_through() {
        for (model, brands) in [
            ("openrouter/anthropic/claude-x", &["Anthropic", "OpenRouter"][..]),
            ("bedrock/us.amazon.nova-pro", &["Amazon Nova", "AWS Bedrock"]),
            ("azureai/gpt-4o", &["OpenAI", "Azure AI"]),
            ("GPT-4o", &["OpenAI"]),
            ("[relay] gpt-4o", &["OpenAI"]),
            ("【官方】o3-mini", &["OpenAI"]),
            ("re:^gpt-4.*$", &["OpenAI"]),
            ("[a]vendor/[b]o1", &["OpenAI"]),
            ("not-gpt", &[]),
            ("proto1", &[]),
            ("yi-large", &["01.AI"]),
            ("relay/yi", &["01.AI"]),
            ("yield-1", &[]),
            ("phi4", &["Microsoft"]),
            ("phi4x", &[]),
            ("mini2.1", &["MiniMax"]),
            ("deepseek-chat", &["DeepSeek"]),
            ("qwen3-coder", &["Qwen"]),
            ("通义千问-max", &["Qwen"]),
            ("meta/some-model", &["Meta"]),
            ("metal-1", &[]),
            ("xai/new", &["xAI"]),
            ("together ai/model", &["Together AI"]),
            ("stabilityx", &[]),
            ("", &[]),
            ("house-model", &[]),
        ] {
            assert_eq!(brands_of(model), brands, "{model}");
        }
    }

    #[test]
    fn brands_are_blocked_under_either_spelling_whatever_the_case() {
        for name in ["Qwen", " qwen ", "通义千问", "QWEN"] {
            assert!(BlockedBrands::of(&[name.to_owned()]).block("qwen3-coder"), "{name}");
        }
        let blocked = BlockedBrands::of(&["azure   AI".to_owned(), "nobody".to_owned(), String::new()]);
        assert!(blocked.block("azureai/gpt-4o"));
        assert!(!blocked.block("gpt-4o"));
        assert!(!BlockedBrands::default().block("gpt-4o"));
    }

    #[test]
    fn every_brand_has_one_name() {
        let mut seen = std::collections::HashSet::new();
        for brand in &BRANDS {
            assert!(seen.insert(folded(brand.name)), "{}", brand.name);
            assert!(brand.alias.is_empty() || seen.insert(folded(brand.alias)), "{}", brand.alias);
        }
        assert_eq!(names().next(), Some("OpenAI"));
    }
}
