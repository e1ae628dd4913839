//! How much a model is asked to think, in the words of each dialect.
//!
//! | effort | messages, adaptive | budget | gemini-3 level | from a budget |
//! |---|---|---|---|---|
//! | none | `disabled` | 0 | lowest | 0 |
//! | minimal | low | 1024 | minimal, or low | |
//! | low | low | 1024 | low | ≤ 1024 |
//! | medium | medium | 8192 | medium | ≤ 8192 |
//! | high | high | 32768 | high | ≤ 32768 |
//! | xhigh, max | the same where known, else high | 65536 | high | more: xhigh, on messages max |
//!
//! Chat and responses state an effort, gemini a budget or a level, messages an effort or a budget, depending on the
//! model. What a model takes is known by its name alone ([`ClaudeModel`]): the vendors publish it by name, and there is
//! nothing else to ask between a client and its upstream.

use super::canonical::{Effort, Reasoning};

#[cfg(test)]
mod tests;

/// The smallest thinking budget that the messages API takes, in tokens.
const MIN_BUDGET: u64 = 1024;
/// Members in which OpenAI's clients state the effort, and which some send to gemini too.
pub const OPENAI_WORDS: [&str; 3] = ["reasoning_effort", "reasoning", "reasoning_budget"];

impl Effort {
    /// Reads the word of `reasoning_effort`, `reasoning.effort`, `output_config.effort`; `None` for an unknown word.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];
        all.into_iter().find(|effort| effort.word().eq_ignore_ascii_case(word.trim()))
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// Returns the word on chat and responses, where nothing is above `xhigh`.
    pub fn openai_word(self) -> &'static str {
        self.min(Self::XHigh).word()
    }

    /// Returns the thinking budget that stands for the effort, in tokens.
    pub fn budget(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Minimal | Self::Low => 1024,
            Self::Medium => 8192,
            Self::High => 32768,
            Self::XHigh | Self::Max => 65536,
        }
    }

    /// Returns the effort that comes closest to a budget in tokens.
    pub fn of_budget(tokens: u64) -> Self {
        match tokens {
            0 => Self::None,
            1..=1024 => Self::Low,
            1025..=8192 => Self::Medium,
            8193..=32768 => Self::High,
            _ => Self::XHigh,
        }
    }
}

impl Reasoning<'_> {
    /// Returns the effort that the client asks for, however it says so; an effort that was named counts before a
    /// budget. `None` when the client left it to the model.
    pub fn wanted_effort(&self) -> Option<Effort> {
        if self.off {
            return Some(Effort::None);
        }
        self.effort.or_else(|| self.budget.map(Effort::of_budget))
    }

    /// Returns the effort for a model of chat or responses. `none` is sent only if the client named it or the model is
    /// known to take it: most models there do not think by default, and few know the word.
    pub fn openai_effort(&self, model: &str) -> Option<Effort> {
        let knows_none = || model.contains("gpt-5.") || model.contains("gemini-2.5-flash");
        self.effort.or_else(|| self.wanted_effort().filter(|wanted| *wanted != Effort::None || knows_none()))
    }

    /// Returns the thinking that the client asks for as a budget in tokens; a budget that was named counts before an
    /// effort.
    pub fn wanted_budget(&self) -> Option<u64> {
        if self.off {
            return Some(0);
        }
        self.budget.or_else(|| self.effort.map(Effort::budget))
    }
}

// === messages ===

/// The `thinking` of a request in the messages dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaudeThinking {
    Disabled,
    /// Thinking by effort, with the word for `output_config.effort`.
    Adaptive {
        effort: &'static str,
    },
    Enabled {
        budget: u64,
    },
}

/// Returns the `thinking` to send; `None` sends nothing.
pub fn claude_thinking(
    reasoning: &Reasoning<'_>,
    model: ClaudeModel,
    max_tokens: u64,
) -> Option<ClaudeThinking> {
    let dynamic = reasoning.dynamic.then(|| if model.is_adaptive() { Effort::High } else { Effort::Medium });
    let effort = reasoning.wanted_effort().or(dynamic).filter(|_| model.thinks())?;
    if effort == Effort::None {
        return Some(if model.always_thinks() {
            ClaudeThinking::Adaptive { effort: Effort::Low.word() }
        } else {
            ClaudeThinking::Disabled
        });
    }
    if model.is_adaptive() {
        // A budget beyond every other effort asks for the largest effort there is.
        let unbounded = reasoning.effort.is_none() && effort == Effort::XHigh;
        return Some(ClaudeThinking::Adaptive {
            effort: model.effort_word(if unbounded { Effort::Max } else { effort }),
        });
    }
    let budget = reasoning.wanted_budget().unwrap_or_else(|| effort.budget());
    let budget = budget_within(budget, max_tokens)?;
    Some(ClaudeThinking::Enabled { budget })
}

/// Fits a budget to the messages API: at least 1024 tokens and less than `max_tokens`, of which a budget that is too
/// large gets 80 %. `None` when that leaves too little to think with.
pub fn budget_within(budget: u64, max_tokens: u64) -> Option<u64> {
    let budget = budget.max(MIN_BUDGET);
    if budget < max_tokens {
        return Some(budget);
    }
    // In this order nothing overflows; the division loses less than a token.
    Some(max_tokens / 5 * 4 + max_tokens % 5 * 4 / 5).filter(|budget| *budget >= MIN_BUDGET)
}

/// The abilities of a model at a messages endpoint, as far as its name tells.
///
/// After Anthropic's public documentation ("Models overview", "Adaptive thinking", "Effort",
/// "Structured outputs", "Migration guide"):
///
/// | from | |
/// |---|---|
/// | 3.7 | thinks, with a budget |
/// | 4.5 | answers in the form of a JSON schema |
/// | 4.6 | thinks adaptively; knows the effort `max` |
/// | 4.7 | refuses budgets, and any temperature, top_p and top_k; shows its thinking only when asked; knows `xhigh` |
/// | Fable, Mythos | the same, and thinking cannot be switched off |
///
/// A name of another vendor's family is taken for a model that thinks with a budget, as those vendors' messages
/// endpoints document it. A name that does not tell the model is an alias, most likely of a current model: it thinks
/// adaptively, and is not sent what only some current models take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaudeModel {
    family: Family,
    /// Major version times 100, plus minor; 0 where the name has none.
    version: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Opus,
    Sonnet,
    Haiku,
    Fable,
    Mythos,
    /// Claude models from before there were families.
    Early,
    Unknown,
    /// A model of another vendor.
    Foreign,
}

/// The beginnings of model names that are not Claude's.
const FOREIGN: [&str; 21] = [
    "glm", "kimi", "moonshot", "minimax", "deepseek", "qwen", "qwq", "mimo", "doubao", "longcat", "step",
    "ernie", "hunyuan", "gpt", "codex", "gemini", "gemma", "grok", "llama", "mistral", "devstral",
];

impl ClaudeModel {
    /// Reads a model's name, with anything that a reseller put before or after it (`us.anthropic.claude-opus-4-6-v1:0`,
    /// `anthropic/claude-4.7-opus`).
    pub fn of(model: &str) -> Self {
        let name = model.to_ascii_lowercase();
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        if !words.clone().any(|word| word == "claude") {
            let foreign = words.any(|word| FOREIGN.iter().any(|family| word.starts_with(family)));
            return Self { family: if foreign { Family::Foreign } else { Family::Unknown }, version: 0 };
        }
        let words: Vec<&str> = words.skip_while(|word| *word != "claude").skip(1).collect();
        let number = |word: &&str| word.parse::<u32>().ok().filter(|_| word.len() <= 2);
        let at = words.iter().position(|word| number(word).is_some());
        let major = at.and_then(|at| number(&words[at]));
        let minor = at.and_then(|at| words.get(at + 1)).and_then(number);
        let version = major.map_or(0, |major| major * 100 + minor.unwrap_or(0));
        let family = words.iter().find_map(|word| match *word {
            "opus" => Some(Family::Opus),
            "sonnet" => Some(Family::Sonnet),
            "haiku" => Some(Family::Haiku),
            "fable" => Some(Family::Fable),
            "mythos" => Some(Family::Mythos),
            "instant" | "v1" | "v2" => Some(Family::Early),
            _ => None,
        });
        let early = || if (1..300).contains(&version) { Family::Early } else { Family::Unknown };
        Self { family: family.unwrap_or_else(early), version }
    }

    /// Whether the name states at least this version; families without versions are newer than all.
    fn is_since(self, version: u32) -> bool {
        match self.family {
            Family::Fable | Family::Mythos => true,
            Family::Opus | Family::Sonnet | Family::Haiku => self.version >= version,
            Family::Early | Family::Unknown | Family::Foreign => false,
        }
    }

    /// Whether the name does not tell which model it is.
    fn is_alias(self) -> bool {
        match self.family {
            Family::Unknown => true,
            Family::Opus | Family::Sonnet | Family::Haiku => self.version == 0,
            Family::Fable | Family::Mythos | Family::Early | Family::Foreign => false,
        }
    }

    pub fn thinks(self) -> bool {
        self.is_since(307) || self.is_alias() || self.family == Family::Foreign
    }

    /// Whether it takes `thinking: {"type":"adaptive"}` with `output_config.effort` instead of a budget.
    pub fn is_adaptive(self) -> bool {
        self.is_since(406) || self.is_alias()
    }

    /// Whether it refuses `thinking: {"type":"disabled"}`.
    fn always_thinks(self) -> bool {
        matches!(self.family, Family::Fable | Family::Mythos)
    }

    /// Whether its thinking comes without text unless `thinking.display` asks for it.
    pub fn hides_thinking(self) -> bool {
        self.is_since(407)
    }

    /// Whether it refuses any temperature, top_p and top_k.
    pub fn refuses_sampling(self) -> bool {
        self.is_since(407)
    }

    /// Whether it takes `output_config.format` with a schema.
    pub fn knows_schemas(self) -> bool {
        self.is_since(405)
    }

    /// Whether it takes `strict` on a tool. There is no other form for this, so `strict` is also sent where the name
    /// does not tell.
    pub fn takes_strict_tools(self) -> bool {
        self.is_since(405) || self.is_alias()
    }

    fn effort_word(self, effort: Effort) -> &'static str {
        let knows_xhigh = self.is_since(407)
            && self.family != Family::Haiku
            && (self.family, self.version) != (Family::Mythos, 0);
        match effort {
            Effort::None | Effort::Minimal | Effort::Low => "low",
            Effort::XHigh if knows_xhigh => "xhigh",
            Effort::Max if self.is_since(406) => "max",
            Effort::Medium => "medium",
            Effort::High | Effort::XHigh | Effort::Max => "high",
        }
    }

    /// Returns the most tokens it may answer with, for requests that do not say: the API requires a number.
    pub fn max_tokens(self) -> u64 {
        match (self.family, self.version) {
            (Family::Fable | Family::Mythos, _) => 128_000,
            (Family::Opus, 406..) => 128_000,
            (Family::Opus | Family::Sonnet | Family::Haiku, 405..) => 64_000,
            (Family::Opus, 400..) => 32_000,
            (Family::Sonnet, 307..) => 64_000,
            (Family::Opus | Family::Sonnet | Family::Haiku, 300..305) | (Family::Early, _) => 4_096,
            _ => 8_192,
        }
    }
}

// === gemini ===

/// The thinking in gemini's `thinkingConfig`, beside `includeThoughts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeminiThinking {
    /// `thinkingLevel`
    Level(&'static str),
    /// `thinkingBudget`
    Budget(u64),
}

/// Returns the number behind `gemini` in a model's name, wherever it stands (`gemini-2.5-pro`,
/// `models/gemini-4-flash`); `None` where the name has no generation (`gemini-flash-latest`, a hub's own).
fn gemini_generation(name: &str) -> Option<u32> {
    let (_, rest) = name.split_once("gemini")?;
    let digits = rest.get(rest.find(|letter: char| letter.is_ascii_digit())?..)?;
    digits.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Whether a model that Google serves may be gemini of the third generation or later, which wants the signatures of its
/// calls back and can search beside functions. A name without a generation is taken for a current model.
pub fn may_be_third_gemini(model: &str) -> bool {
    let name = model.to_ascii_lowercase();
    let is_other = ["gemma", "claude", "gpt", "learnlm"].iter().any(|other| name.contains(other));
    !is_other && gemini_generation(&name).is_none_or(|generation| generation >= 3)
}

/// Whether a model is one of OpenAI's reasoning models, which take no stop sequences ("Reasoning models").
pub fn reasons_at_openai(model: &str) -> bool {
    let name = model.to_ascii_lowercase();
    let name = name.rsplit_once('/').map_or(name.as_str(), |(_, name)| name);
    ["o1", "o3", "o4", "gpt-5"].iter().any(|family| name.starts_with(family)) && !name.contains("chat")
}

/// Returns the thinking to ask of a gemini model; `None` leaves it to the model.
///
/// Ranges and levels follow Google's public documentation ("Thinking"): 2.5 Pro takes 128 to 32768 and cannot be
/// switched off, 2.5 Flash 0 to 24576, 2.5 Flash-Lite 0 or 512 to 24576; from 3 on there are levels, of which only
/// Flash models have `minimal`. All of them take a budget, so a budget is sent where the name does not tell.
pub fn gemini_thinking(reasoning: &Reasoning<'_>, model: &str) -> Option<GeminiThinking> {
    let name = model.to_ascii_lowercase();
    if gemini_generation(&name).is_some_and(|generation| generation >= 3) {
        let least = if name.contains("flash") { "minimal" } else { "low" };
        return Some(GeminiThinking::Level(match reasoning.wanted_effort()? {
            Effort::None | Effort::Minimal => least,
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High | Effort::XHigh | Effort::Max => "high",
        }));
    }
    let budget = reasoning.wanted_budget()?;
    let is = |family: &str| name.split_once("gemini-").is_some_and(|(_, rest)| rest.starts_with(family));
    Some(GeminiThinking::Budget(if is("2.5-pro") {
        budget.clamp(128, 32768)
    } else if is("2.5-flash-lite") && budget > 0 {
        budget.clamp(512, 24576)
    } else if is("2.5-flash") {
        budget.min(24576)
    } else {
        budget
    }))
}
