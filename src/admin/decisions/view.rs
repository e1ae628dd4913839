//! A decision as the admin API shows it: an explanation with the names behind its ids and a reason for every channel,
//! as a code for programs and in words for people.

use serde::Serialize;

use crate::ids::{AccountId, ChannelId, RouteId};
use crate::routing::SelectionReason;
use crate::routing::eligibility::Obstacle;
use crate::routing::explain::{Assessment, Explanation, HealthParts, SelectionStage, explain};
use crate::routing::score::{CostTier, Score};
use crate::routing::{AccountStatus, Channel, Match, Pool, SelectionQuery, Strategy, serving};
use crate::time;

/// The result of a selection for a request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    requested_model: String,
    actual_model: String,
    matched: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    route_id: Option<RouteId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selected_channel_id: Option<ChannelId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selected_account_id: Option<AccountId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selected_label: Option<String>,
    summary: Vec<String>,
    candidates: Vec<Candidate>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    channel_id: ChannelId,
    account_id: AccountId,
    username: String,
    site_name: String,
    token_name: String,
    priority: i64,
    weight: i64,
    eligible: bool,
    recently_failed: bool,
    avoided_by_recent_failure: bool,
    avoided_by_breaker: bool,
    /// The channel's share of the requests, in percent with two decimals.
    probability: f64,
    cooldown_until: Option<String>,
    limited_until: Option<String>,
    reason_code: &'static str,
    reason: String,
}

// === impl Decision ===

impl Decision {
    /// Builds the decision for a model that no enabled route serves.
    pub fn unmatched(model: &str) -> Self {
        Self {
            requested_model: model.to_owned(),
            actual_model: model.to_owned(),
            matched: false,
            route_id: None,
            model_pattern: None,
            selected_channel_id: None,
            selected_account_id: None,
            selected_label: None,
            summary: vec!["No enabled route matches".to_owned()],
            candidates: Vec::new(),
        }
    }

    /// Builds the decision for a request that matches this route. The cost is one walk over the route's channels.
    pub fn of(found: &Match<'_>, query: &SelectionQuery<'_>) -> Self {
        let explanation = explain(found, query);
        let picked = explanation.serving;
        let strategy = found.route.strategy;
        Self {
            requested_model: query.model.to_owned(),
            actual_model: explanation.upstream_model.to_owned(),
            matched: true,
            route_id: Some(found.route.id),
            model_pattern: Some(found.route.pattern.as_str().to_owned()),
            selected_channel_id: picked.map(|channel| channel.id),
            selected_account_id: picked.map(|channel| channel.account.id),
            selected_label: picked.map(|channel| label(channel)),
            summary: summary(found, query, &explanation),
            candidates: explanation.assessments.iter().map(|one| Candidate::new(one, strategy)).collect(),
        }
    }
}

/// Describes the steps from the model name to the channel.
fn summary(found: &Match<'_>, query: &SelectionQuery<'_>, explanation: &Explanation<'_>) -> Vec<String> {
    let route = found.route;
    let mut steps = vec![format!("Matched route: {}", route.pattern.as_str())];
    if found.by_display_name && route.display_name.as_deref() == Some(query.model) {
        steps.push(format!("By its display name: {}", query.model));
    }
    steps.push(format!("Strategy: {}", route.strategy.as_str()));
    let stages = || explanation.assessments.iter().map(|one| one.stage);
    let count = |is: fn(&SelectionStage) -> bool| stages().filter(is).count();
    let breaker = count(|stage| matches!(stage, SelectionStage::BehindBreaker));
    let failed = count(|stage| matches!(stage, SelectionStage::FailedRecently));
    let near_limit = count(|stage| matches!(stage, SelectionStage::NearLimit));
    let picked = explanation.picked.map(|index| &explanation.assessments[index]);
    let Some(picked) = picked else {
        steps.push(format!("None of {} channel(s) can be selected", explanation.assessments.len()));
        return steps;
    };
    let remaining = count(|stage| {
        matches!(
            stage,
            SelectionStage::Weighed { .. } | SelectionStage::InTurn | SelectionStage::Stable { .. }
        )
    });
    steps.push(match route.strategy {
        Strategy::Weighted => {
            format!("Priority P{}: {} available", picked.channel.priority, remaining + breaker + failed)
        }
        _ => format!("Available: {}", remaining + breaker + failed),
    });
    if breaker > 0 {
        steps.push(format!("Avoided: {breaker} behind an open breaker"));
    }
    if near_limit > 0 {
        steps.push(format!("Avoided: {near_limit} near a limit of its account"));
    }
    if failed > 0 {
        steps.push(format!("Avoided: {failed} failed lately"));
    }
    if route.strategy == Strategy::StableFirst {
        let observed = count(|stage| matches!(stage, SelectionStage::Stable { pool: Pool::Observation, .. }));
        steps.push(format!("Primary pool: {}, observation pool: {observed}", remaining - observed));
    }
    if let SelectionStage::Tried(reason) = &picked.stage {
        steps.push(format!("Tried although it cools down: {reason}"));
    }
    let serving = explanation.serving.unwrap_or(picked.channel);
    steps.push(format!("Selected: {} (P{})", label(serving), picked.channel.priority));
    if explanation.upstream_model != query.model {
        steps.push(format!("Forwarded as: {}", explanation.upstream_model));
    }
    steps
}

fn label(channel: &Channel) -> String {
    format!("{} @ {} / {}", username(channel), channel.account.site.name, token_name(channel))
}

fn username(channel: &Channel) -> String {
    let name = channel.account.username.as_deref().filter(|name| !name.is_empty());
    name.map_or_else(|| format!("account-{}", channel.account.id), str::to_owned)
}

fn token_name(channel: &Channel) -> &str {
    channel.token_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("default")
}

// === impl Candidate ===

impl Candidate {
    fn new(one: &Assessment<'_>, strategy: Strategy) -> Self {
        let channel = one.channel;
        let (reason_code, reason) = reason(one, strategy);
        // The obstacle of a route unit is reported for its first member.
        let cooling =
            if one.obstacles.is_empty() { channel } else { serving(channel).first().unwrap_or(channel) };
        Self {
            channel_id: channel.id,
            account_id: channel.account.id,
            username: username(channel),
            site_name: channel.account.site.name.clone(),
            token_name: token_name(channel).to_owned(),
            priority: channel.priority,
            weight: channel.weight,
            eligible: one.obstacles.is_empty() || matches!(one.stage, SelectionStage::Tried(_)),
            recently_failed: one.failed_recently,
            avoided_by_recent_failure: matches!(one.stage, SelectionStage::FailedRecently),
            avoided_by_breaker: matches!(one.stage, SelectionStage::BehindBreaker),
            cooldown_until: cooling.live.cooldown_until().map(time::iso),
            limited_until: cooling.live.limited_until().map(time::iso),
            probability: (one.share * 10_000.0).round() / 100.0,
            reason_code,
            reason,
        }
    }
}

/// Returns the code of the first thing that decides about a channel, and all of them in words.
fn reason(one: &Assessment<'_>, strategy: Strategy) -> (&'static str, String) {
    let percent = one.share * 100.0;
    let (code, words) = reason_of_stage(one, strategy, percent);
    let is_in_use = matches!(
        one.stage,
        SelectionStage::Weighed { .. } | SelectionStage::InTurn | SelectionStage::Stable { .. }
    );
    if one.near_limit && is_in_use {
        (
            "near_limit",
            format!("a limit of its account is nearly used up, and no other channel can serve; {words}"),
        )
    } else {
        (code, words)
    }
}

fn reason_of_stage(one: &Assessment<'_>, strategy: Strategy, percent: f64) -> (&'static str, String) {
    match &one.stage {
        SelectionStage::Tried(reason) => {
            let code =
                if matches!(reason, SelectionReason::LastResort) { "last_resort" } else { "half_open" };
            (code, reason.to_string())
        }
        SelectionStage::NotEligible => {
            let code = one.obstacles.first().map_or("not_eligible", code);
            (code, one.obstacles.iter().map(words).collect::<Vec<_>>().join("; "))
        }
        SelectionStage::LaterPriority => {
            ("lower_priority", "channels of a more preferred priority are available".into())
        }
        SelectionStage::NearLimit => {
            ("near_limit", "a limit of its account is nearly used up; other channels are tried first".into())
        }
        SelectionStage::BehindBreaker => {
            ("breaker_open", "its site or model keeps failing; other channels are tried first".into())
        }
        SelectionStage::FailedRecently => {
            ("recent_failure", "failed recently; other channels are tried first".into())
        }
        SelectionStage::Weighed { score, health } => {
            ("candidate", weighed(one.channel, score, *health, percent))
        }
        SelectionStage::InTurn => match percent {
            0.0 => ("waiting", format!("{}: other channels have gone unused for longer", strategy.as_str())),
            _ => ("next", format!("{}: unused for the longest time", strategy.as_str())),
        },
        SelectionStage::Stable { pool, effective, site_channels, conditions, health } => {
            let (code, pool) = match pool {
                Pool::Observation => ("observed", "observation"),
                Pool::Primary if one.share > 0.0 => ("candidate", "primary"),
                Pool::Primary => ("not_leading", "primary"),
            };
            let text = format!(
                "stable_first ({pool} pool, success={:.1}%, {}, load={:.2}, channels of the site={site_channels}, \
                 p={percent:.1}%)",
                effective * 100.0,
                health_text(*health),
                conditions.load,
            );
            (code, text)
        }
    }
}

fn weighed(channel: &Channel, score: &Score, health: HealthParts, percent: f64) -> String {
    let tier = match score.tier {
        CostTier::Observed => "observed",
        CostTier::Configured => "configured",
        CostTier::Catalog => "catalog",
        CostTier::Fallback => "fallback",
    };
    format!(
        "weighted (W={}, cost={tier}:{:.6}, site weight={:.2}, {}, load={:.2}, history={:.2}, \
         channels of the site={}, p={percent:.1}%)",
        channel.weight,
        score.cost,
        score.site_weight,
        health_text(health),
        score.conditions.load,
        score.history,
        score.site_channels,
    )
}

fn health_text(health: HealthParts) -> String {
    format!("health={:.2} (site {:.2}, model {:.2})", health.site * health.model, health.site, health.model)
}

fn code(obstacle: &Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Disabled => "channel_disabled",
        Obstacle::AlreadyTried => "already_tried",
        Obstacle::AccountStatus(_) => "account_unusable",
        Obstacle::SiteDisabled => "site_disabled",
        Obstacle::SourceModel => "other_model",
        Obstacle::Surface => "surface_not_offered",
        Obstacle::SiteExcluded => "site_excluded",
        Obstacle::CredentialExcluded => "credential_excluded",
        Obstacle::NoCredential => "token_unusable",
        Obstacle::FailedRecently => "failed_recently",
        Obstacle::Cooling { .. } => "cooling",
        Obstacle::HalfOpen { .. } => "half_open",
    }
}

fn words(obstacle: &Obstacle) -> String {
    let text = match obstacle {
        Obstacle::Disabled => "the channel is disabled",
        Obstacle::AlreadyTried => "tried already in this request",
        Obstacle::AccountStatus(AccountStatus::Disabled) => "the account is disabled",
        Obstacle::AccountStatus(AccountStatus::Expired) => "the account's session has expired",
        Obstacle::AccountStatus(AccountStatus::Unhealthy) => "the account is unhealthy",
        Obstacle::AccountStatus(_) => "the account is not active",
        Obstacle::SiteDisabled => "the site is disabled",
        Obstacle::SourceModel => "serves another model",
        Obstacle::Surface => "the upstream does not offer this kind of request",
        Obstacle::SiteExcluded => "the key excludes the site",
        Obstacle::CredentialExcluded => "the key excludes the credential",
        Obstacle::NoCredential => "no usable credential",
        Obstacle::FailedRecently => {
            "failed recently, and another member of the unit has failed in this request"
        }
        Obstacle::Cooling { until } => return format!("cooling until {}", time::iso(*until)),
        Obstacle::HalfOpen { until } => {
            let until = time::iso(*until);
            return format!(
                "half-open until {until}, its provider's word: for one trial at a time, and when no other can serve"
            );
        }
    };
    text.to_owned()
}
