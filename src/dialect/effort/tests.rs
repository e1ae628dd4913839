use super::*;

fn effort(effort: Effort) -> Reasoning<'static> {
    Reasoning { effort: Some(effort), ..Default::default() }
}

fn budget(tokens: u64) -> Reasoning<'static> {
    Reasoning { budget: Some(tokens), ..Default::default() }
}

fn claude(reasoning: &Reasoning<'_>, model: &str) -> Option<ClaudeThinking> {
    claude_thinking(reasoning, ClaudeModel::of(model), 100_000)
}

#[test]
fn an_effort_is_said_in_the_words_of_every_dialect() {
    use GeminiThinking::{Budget, Level};
    for (word, adaptive, newest, tokens, flash, pro) in [
        ("minimal", "low", "low", 1024, "minimal", "low"),
        ("low", "low", "low", 1024, "low", "low"),
        ("medium", "medium", "medium", 8192, "medium", "medium"),
        ("high", "high", "high", 32768, "high", "high"),
        ("xhigh", "high", "xhigh", 65536, "high", "high"),
        ("max", "max", "max", 65536, "high", "high"),
    ] {
        let reasoning = effort(Effort::parse(word).unwrap());
        let wanted = |effort| Some(ClaudeThinking::Adaptive { effort });
        assert_eq!(claude(&reasoning, "claude-opus-4-6"), wanted(adaptive), "{word}");
        assert_eq!(claude(&reasoning, "claude-opus-4-7"), wanted(newest), "{word}");
        let enabled = ClaudeThinking::Enabled { budget: tokens };
        assert_eq!(claude(&reasoning, "claude-sonnet-4-5"), Some(enabled), "{word}");
        assert_eq!(gemini_thinking(&reasoning, "gemini-x"), Some(Budget(tokens)), "{word}");
        assert_eq!(gemini_thinking(&reasoning, "gemini-3-flash-preview"), Some(Level(flash)), "{word}");
        assert_eq!(gemini_thinking(&reasoning, "gemini-3.1-pro-preview"), Some(Level(pro)), "{word}");
    }
}

#[test]
fn no_effort_means_no_thinking_where_a_model_can_do_without() {
    let off = Reasoning { off: true, effort: Some(Effort::High), ..Default::default() };
    for reasoning in [effort(Effort::None), budget(0), off] {
        for model in ["claude-opus-4-6", "claude-opus-4-7", "claude-sonnet-4-5", "glm-4.6", "m"] {
            assert_eq!(claude(&reasoning, model), Some(ClaudeThinking::Disabled), "{model}");
        }
        for model in ["claude-mythos-preview", "claude-fable-5"] {
            let least = ClaudeThinking::Adaptive { effort: "low" };
            assert_eq!(claude(&reasoning, model), Some(least), "{model}");
        }
        assert_eq!(claude(&reasoning, "claude-3-5-sonnet-20241022"), None);
        let gemini = |model| gemini_thinking(&reasoning, model);
        assert_eq!(gemini("gemini-2.5-flash"), Some(GeminiThinking::Budget(0)));
        assert_eq!(gemini("gemini-2.5-flash-lite"), Some(GeminiThinking::Budget(0)));
        assert_eq!(gemini("gemini-2.5-pro"), Some(GeminiThinking::Budget(128)));
        assert_eq!(gemini("gemini-3-pro-preview"), Some(GeminiThinking::Level("low")));
        assert_eq!(gemini("gemini-3-flash-preview"), Some(GeminiThinking::Level("minimal")));
    }
}

#[test]
fn what_was_not_asked_for_is_not_sent() {
    let nothing = Reasoning::default();
    assert_eq!(claude(&nothing, "claude-opus-4-6"), None);
    assert_eq!(gemini_thinking(&nothing, "gemini-3-pro"), None);
    assert_eq!(gemini_thinking(&nothing, "gemini-2.5-pro"), None);
    assert_eq!((nothing.wanted_effort(), nothing.wanted_budget()), (None, None));
}

#[test]
fn a_budget_becomes_the_nearest_effort() {
    for (tokens, wanted, on_messages) in [
        (0, Effort::None, None),
        (1, Effort::Low, Some("low")),
        (1024, Effort::Low, Some("low")),
        (1025, Effort::Medium, Some("medium")),
        (8192, Effort::Medium, Some("medium")),
        (8193, Effort::High, Some("high")),
        (32768, Effort::High, Some("high")),
        (32769, Effort::XHigh, Some("max")),
    ] {
        assert_eq!(Effort::of_budget(tokens), wanted, "{tokens}");
        let adaptive = on_messages.map(|effort| ClaudeThinking::Adaptive { effort });
        let adaptive = adaptive.or(Some(ClaudeThinking::Disabled));
        assert_eq!(claude(&budget(tokens), "claude-opus-4-7"), adaptive, "{tokens}");
    }
    assert_eq!(claude(&budget(40_000), "m"), Some(ClaudeThinking::Adaptive { effort: "high" }));
}

#[test]
fn of_an_effort_and_a_budget_each_dialect_takes_its_own() {
    let both = Reasoning { effort: Some(Effort::Low), budget: Some(20_000), ..Default::default() };
    assert_eq!(both.wanted_effort(), Some(Effort::Low));
    assert_eq!(claude(&both, "claude-sonnet-4-5"), Some(ClaudeThinking::Enabled { budget: 20_000 }));
    assert_eq!(claude(&both, "claude-opus-4-6"), Some(ClaudeThinking::Adaptive { effort: "low" }));
}

#[test]
fn a_budget_leaves_room_for_the_answer() {
    for (budget, max_tokens, wanted) in [
        (8192, 8193, Some(8192)),
        (8192, 8192, Some(6553)),
        (32768, 4000, Some(3200)),
        (1, 4000, Some(1024)),
        (1024, 1280, Some(1024)),
        (2000, 1280, Some(1024)),
        (2000, 1279, None),
        (1024, 1024, None),
        (1024, 0, None),
        (u64::MAX, u64::MAX, Some(u64::MAX / 5 * 4)),
    ] {
        assert_eq!(budget_within(budget, max_tokens), wanted, "{budget} of {max_tokens}");
    }
    let thinking = claude_thinking(&effort(Effort::High), ClaudeModel::of("claude-sonnet-4-5"), 1000);
    assert_eq!(thinking, None);
}

#[test]
fn gemini_budgets_stay_within_the_models_range() {
    for (model, tokens, wanted) in [
        ("gemini-2.5-pro", 65536, 32768),
        ("gemini-2.5-pro", 1, 128),
        ("models/gemini-2.5-flash", 65536, 24576),
        ("gemini-2.5-flash", 1, 1),
        ("gemini-2.5-flash-lite", 1, 512),
        ("gemini-2.5-flash-lite", 65536, 24576),
        ("m", 65536, 65536),
    ] {
        let wanted = Some(GeminiThinking::Budget(wanted));
        assert_eq!(gemini_thinking(&budget(tokens), model), wanted, "{model} {tokens}");
    }
    assert_eq!(gemini_thinking(&budget(5000), "gemini-3-pro"), Some(GeminiThinking::Level("medium")));
}

#[test]
fn one_reading_tells_the_generation_of_gemini() {
    for (model, generation, may_be_third) in [
        ("gemini-2.5-pro", Some(2), false),
        ("models/Gemini-2.0-flash", Some(2), false),
        ("gemini-flash-2.5", Some(2), false),
        ("gemini-3-pro-preview", Some(3), true),
        ("google/gemini-3.1-pro", Some(3), true),
        ("gemini-4-flash", Some(4), true),
        ("gemini-12-pro", Some(12), true),
        ("gemini-flash-latest", None, true),
        ("the-hubs-own", None, true),
        ("gemma-3-27b-it", None, false),
        ("claude-opus-4-8", None, false),
    ] {
        assert_eq!(gemini_generation(&model.to_ascii_lowercase()), generation, "{model}");
        assert_eq!(may_be_third_gemini(model), may_be_third, "{model}");
    }
    let high = effort(Effort::High);
    assert_eq!(gemini_thinking(&high, "gemini-4-flash"), Some(GeminiThinking::Level("high")));
    assert_eq!(gemini_thinking(&high, "gemini-flash-latest"), Some(GeminiThinking::Budget(32768)));
}

#[test]
fn a_models_name_tells_what_it_takes() {
    // Name; whether it thinks, does so adaptively, hides its text and refuses sampling, takes schemas; tokens.
    for (model, thinks, adaptive, newest, schemas, tokens) in [
        ("claude-2.1", false, false, false, false, 4096),
        ("claude-instant-1.2", false, false, false, false, 4096),
        ("claude-3-opus-20240229", false, false, false, false, 4096),
        ("claude-3-5-sonnet-20241022", false, false, false, false, 8192),
        ("us.anthropic.claude-3-5-haiku-20241022-v1:0", false, false, false, false, 8192),
        ("claude-3-7-sonnet-latest", true, false, false, false, 64_000),
        ("claude-opus-4-20250514", true, false, false, false, 32_000),
        ("claude-opus-4-1-20250805", true, false, false, false, 32_000),
        ("claude-sonnet-4-20250514", true, false, false, false, 64_000),
        ("claude-sonnet-4-5@20250929", true, false, false, true, 64_000),
        ("claude-opus-4-5-20251101", true, false, false, true, 64_000),
        ("claude-haiku-4-5-20251001", true, false, false, true, 64_000),
        ("anthropic/claude-sonnet-4.6", true, true, false, true, 64_000),
        ("anthropic.claude-opus-4-6-v1", true, true, false, true, 128_000),
        ("anthropic/claude-4.7-opus", true, true, true, true, 128_000),
        ("Claude-Opus-4-7", true, true, true, true, 128_000),
        ("claude-opus-5", true, true, true, true, 128_000),
        ("claude-sonnet-5", true, true, true, true, 64_000),
        ("claude-haiku-5-5", true, true, true, true, 64_000),
        ("claude-fable-5", true, true, true, true, 128_000),
        ("claude-mythos-preview", true, true, true, true, 128_000),
        ("claude-latest", true, true, false, false, 8192),
        ("m", true, true, false, false, 8192),
        ("glm-4.6", true, false, false, false, 8192),
        ("zai-org/GLM-4.6", true, false, false, false, 8192),
        ("kimi-k2-thinking", true, false, false, false, 8192),
    ] {
        let name = ClaudeModel::of(model);
        assert_eq!(name.thinks(), thinks, "{model}");
        assert_eq!(name.is_adaptive(), adaptive, "{model}");
        assert_eq!(name.hides_thinking(), newest, "{model}");
        assert_eq!(name.refuses_sampling(), newest, "{model}");
        assert_eq!(name.knows_schemas(), schemas, "{model}");
        assert_eq!(name.max_tokens(), tokens, "{model}");
    }
}

#[test]
fn efforts_are_read_in_any_case_and_written_in_known_words() {
    for word in ["none", "minimal", "low", "medium", "high", "xhigh", "max"] {
        assert_eq!(Effort::parse(word).unwrap().word(), word);
        assert_eq!(Effort::parse(&word.to_uppercase()), Effort::parse(word));
    }
    assert_eq!(Effort::parse("enormous"), None);
    assert_eq!(Effort::Max.openai_word(), "xhigh");
    assert_eq!(Effort::Minimal.openai_word(), "minimal");
}
