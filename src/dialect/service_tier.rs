//! Decides which service tier may be asked of an upstream of the responses dialect, and of one of chat by a client of
//! responses: by the tiers that all of them know, and by an operator's rules. Reads the tier by which an answer was served.

use serde_json::Value;

use super::json;

/// The service tiers that every responses upstream takes.
const KNOWN: [&str; 4] = ["auto", "default", "flex", "priority"];

/// The tier by which an upstream served a request, as its answer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedTier {
    Default,
    Flex,
    Priority,
    Scale,
}

impl ServedTier {
    /// Reads the word of an answer of any dialect; `None` for one that is not known.
    pub fn read(word: &str) -> Option<Self> {
        match word {
            // The latter is Anthropic's word.
            "default" | "standard" => Some(Self::Default),
            "flex" => Some(Self::Flex),
            "priority" => Some(Self::Priority),
            "scale" => Some(Self::Scale),
            _ => None,
        }
    }

    /// Returns the word for clients of chat and responses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Flex => "flex",
            Self::Priority => "priority",
            Self::Scale => "scale",
        }
    }

    /// Returns the word for clients of messages, which know fewer tiers.
    pub fn word_of_messages(self) -> &'static str {
        if self == Self::Priority { "priority" } else { "standard" }
    }
}

/// An operator's rules; the first that applies to a request decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierRules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    action: Action,
    tiers: Words,
    models: Words,
    platforms: Words,
    account_types: Words,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The tier stays, known or not.
    Pass,
    /// The request is sent without the tier.
    Filter,
    /// The request is not sent.
    Block,
}

/// Words in lower case; `None` means every word.
type Words = Option<Vec<String>>;

/// The upstream and the account that a request is for.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The identifier of the site's platform.
    pub platform: &'a str,
    /// Whether the upstream is the vendor itself, which may know other tiers than are listed here.
    pub is_vendor: bool,
    /// The model's name at the upstream, and the name that the client asked for.
    pub models: [&'a str; 2],
    /// `apikey`, `session` or `oauth`.
    pub account_type: &'a str,
}

/// The decision about the tier of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierVerdict {
    Kept,
    /// The tier is sent under this name.
    Renamed(&'static str),
    LeftOut,
    Blocked(String),
}

impl TierRules {
    /// Reads a list of `{action, tiers, models, platforms, accountTypes}`, or an object with such a list in `rules`. A
    /// member that is missing or holds `*` means all. The error names the rule (from 1).
    pub fn read(value: &Value) -> Result<Self, String> {
        let rules = value.get("rules").unwrap_or(value).as_array().ok_or("the rules are not a list")?;
        let numbered = rules.iter().enumerate();
        let read = |(at, rule)| Rule::read(rule).map_err(|why| format!("rule {}: {why}", at + 1));
        Ok(Self(numbered.map(read).collect::<Result<_, _>>()?))
    }

    /// Decides about the tier that a body names, if it names one.
    pub fn judge(&self, body: &str, target: Target<'_>) -> TierVerdict {
        let Some(given) = json::member(body, "service_tier").filter(|tier| *tier != "null") else {
            return TierVerdict::Kept;
        };
        let Some(tier) = json::string(given) else { return TierVerdict::LeftOut };
        let renamed = tier == "fast";
        let tier = if renamed { "priority".to_owned() } else { tier };
        let kept = if renamed { TierVerdict::Renamed("priority") } else { TierVerdict::Kept };
        match self.0.iter().find(|rule| rule.concerns(&tier, target)).map(|rule| rule.action) {
            Some(Action::Pass) => kept,
            Some(Action::Filter) => TierVerdict::LeftOut,
            Some(Action::Block) => TierVerdict::Blocked(tier),
            None if target.is_vendor || KNOWN.contains(&tier.as_str()) => kept,
            None => TierVerdict::LeftOut,
        }
    }
}

impl Rule {
    fn read(rule: &Value) -> Result<Self, String> {
        let action = match rule["action"].as_str().map(str::trim).map(str::to_lowercase).as_deref() {
            Some("pass") => Action::Pass,
            Some("filter") => Action::Filter,
            Some("block") => Action::Block,
            _ => return Err("`action` is not pass, filter or block".to_owned()),
        };
        let words = |member: &str| match &rule[member] {
            Value::Null => Ok(None),
            Value::Array(words) => {
                let words: Option<Vec<String>> =
                    words.iter().map(|word| Some(word.as_str()?.trim().to_lowercase())).collect();
                let words = words.ok_or_else(|| format!("`{member}` has values that are not strings"))?;
                Ok(Some(words).filter(|words| !words.iter().any(|word| word == "*")))
            }
            _ => Err(format!("`{member}` is not a list")),
        };
        Ok(Self {
            action,
            tiers: words("tiers")?,
            models: words("models")?,
            platforms: words("platforms")?,
            account_types: words("accountTypes")?,
        })
    }

    fn concerns(&self, tier: &str, target: Target<'_>) -> bool {
        let holds = |words: &Words, word: &str| {
            words.as_ref().is_none_or(|words| words.iter().any(|own| *own == word.to_lowercase()))
        };
        holds(&self.tiers, tier)
            && target.models.iter().any(|model| holds(&self.models, model))
            && holds(&self.platforms, target.platform)
            && holds(&self.account_types, target.account_type)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TARGET: Target<'_> =
        Target { platform: "new-api", is_vendor: false, models: ["up-1", "GPT-x"], account_type: "apikey" };

    fn judged(rules: &Value, tier: &Value, target: Target<'_>) -> TierVerdict {
        let body = json!({"model": "m", "service_tier": tier}).to_string();
        TierRules::read(rules).expect("good rules").judge(&body, target)
    }

    #[test]
    fn without_rules_a_tier_nobody_knows_is_for_the_vendor_alone() {
        let vendor = Target { is_vendor: true, ..TARGET };
        for (tier, elsewhere, at_the_vendor) in [
            (json!("fast"), TierVerdict::Renamed("priority"), TierVerdict::Renamed("priority")),
            (json!("flex"), TierVerdict::Kept, TierVerdict::Kept),
            (json!("scale"), TierVerdict::LeftOut, TierVerdict::Kept),
            (json!(null), TierVerdict::Kept, TierVerdict::Kept),
            (json!(5), TierVerdict::LeftOut, TierVerdict::LeftOut),
        ] {
            assert_eq!(judged(&json!([]), &tier, TARGET), elsewhere, "{tier}");
            assert_eq!(judged(&json!([]), &tier, vendor), at_the_vendor, "{tier}");
        }
        assert_eq!(TierRules::default().judge("{}", TARGET), TierVerdict::Kept);
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let blocked = || TierVerdict::Blocked("priority".to_owned());
        for (rules, verdict) in [
            (json!([{"action": "block", "tiers": ["priority"]}]), blocked()),
            (json!({"rules": [{"action": "Block", "tiers": ["*"]}]}), blocked()),
            (json!([{"action": "filter", "models": ["gpt-x"]}, {"action": "block"}]), TierVerdict::LeftOut),
            (
                json!([{"action": "pass", "platforms": ["new-api"]}, {"action": "block"}]),
                TierVerdict::Renamed("priority"),
            ),
            (json!([{"action": "block", "models": ["gpt-*"]}]), TierVerdict::Renamed("priority")),
            (json!([{"action": "block", "tiers": ["flex"]}]), TierVerdict::Renamed("priority")),
            (json!([{"action": "block", "accountTypes": ["session"]}]), TierVerdict::Renamed("priority")),
        ] {
            assert_eq!(judged(&rules, &json!("fast"), TARGET), verdict, "{rules}");
        }
        let passed = json!([{"action": "pass", "tiers": ["scale"]}]);
        assert_eq!(judged(&passed, &json!("scale"), TARGET), TierVerdict::Kept);
    }

    #[test]
    fn what_is_no_rule_is_refused_by_place() {
        for (rules, named) in [
            (json!({}), "list"),
            (json!([{"action": "block"}, {"tiers": []}]), "rule 2: `action`"),
            (json!([{"action": "pass", "tiers": "x"}]), "rule 1: `tiers`"),
            (json!([{"action": "pass", "models": [1]}]), "`models`"),
        ] {
            let error = TierRules::read(&rules).expect_err("refused");
            assert!(error.contains(named), "{rules}: {error}");
        }
    }
}
