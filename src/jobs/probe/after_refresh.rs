//! The probe that a site may want after each discovery of its models: asks for one of them or for all, and switches off
//! those that are not served, or not fast enough.
//!
//! An inconclusive answer (a time-out, 429, 5xx) switches nothing off: it says nothing about the model, nor about the
//! next one, which is still asked for. After two questions in a row that got no answer, the probe ends.

use std::sync::Arc;

use super::ask::{Question, Trouble, probe};
use super::result::{Detail, PostProbe};
use super::target::credential;
use super::verdict::{ProbeVerdict, is_conversational};
use crate::core::Core;
use crate::routing::Credential;
use crate::store;
use crate::store::Store;
use crate::store::accounts::{self, AccountRow, Health, HealthSource, HealthState};
use crate::store::availability::{self, ProbeRecord};
use crate::store::sites::{ProbedModels, SiteRow};
use crate::store::snapshot::site_of_account;
use crate::store::tokens::{self, TokenRow};
use crate::time::now_ms;

/// The number of questions in a row without an answer after which no other model is asked for.
const MAX_UNANSWERED: usize = 2;

/// The models to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeScope {
    /// One model, or all that take part in conversations.
    pub models: ProbedModels,
    /// The name of the one model, in any case. Where it is unknown, the first model that takes part in conversations is
    /// asked for, or else the first of the list.
    pub model: String,
    /// The longest latency that counts as served, in milliseconds; 0 for any.
    pub threshold_ms: i64,
}

/// A step of a probe, reported to its observer.
pub enum ProbeStep<'p> {
    /// The number of known models, and those that are tried.
    Begins {
        known: usize,
        chosen: &'p [&'p String],
    },
    Tried(&'p Detail),
    SwitchedOff(&'p str),
}

// === impl ProbeScope ===

impl ProbeScope {
    /// Returns the setting of a site; `None` where the probe is switched off.
    pub fn of(site: &SiteRow) -> Option<Self> {
        site.post_refresh_probe_enabled.then(|| Self {
            models: site.post_refresh_probe_scope,
            model: site.post_refresh_probe_model.trim().to_owned(),
            threshold_ms: site.post_refresh_probe_latency_threshold_ms,
        })
    }

    fn models_to_probe<'m>(&self, models: &'m [String]) -> Vec<&'m String> {
        if self.models == ProbedModels::All {
            return models.iter().filter(|model| is_conversational(model)).collect();
        }
        let named = models.iter().find(|model| model.eq_ignore_ascii_case(&self.model));
        let first = || models.iter().find(|model| is_conversational(model)).or(models.first());
        named.or_else(first).into_iter().collect()
    }
}

/// Asks for the models, one after the other, and switches off those that are not served. The routes follow with the
/// next rebuild.
pub async fn run(
    core: &Arc<Core>,
    site: &SiteRow,
    account: &AccountRow,
    models: &[String],
    scope: &ProbeScope,
) -> store::Result<PostProbe> {
    run_seen(core, site, account, models, scope, |_| {}).await
}

/// Does what [`run`] does, and reports each step to `seen`.
pub async fn run_seen(
    core: &Arc<Core>,
    site: &SiteRow,
    account: &AccountRow,
    models: &[String],
    scope: &ProbeScope,
    mut seen: impl FnMut(ProbeStep<'_>),
) -> store::Result<PostProbe> {
    let settings = core.settings.load_full();
    let reached = site_of_account(site, account, &core.live, settings.system_proxy_url.as_deref());
    let credential = credential_of(&core.store, account).await?;
    let chosen = scope.models_to_probe(models);
    seen(ProbeStep::Begins { known: models.len(), chosen: &chosen });
    let mut details = Vec::new();
    let mut unanswered = 0;
    for model in chosen {
        let Some(credential) = &credential else { break };
        if unanswered == MAX_UNANSWERED {
            break;
        }
        let is_login = account.oauth_provider.is_some();
        let question = Question { site: &reached, credential, is_login, model };
        let probed = probe(core, question, core.config.jobs.probe_timeout).await;
        unanswered = if probed.trouble == Some(Trouble::Unanswered) { unanswered + 1 } else { 0 };
        let is_slow = scope.threshold_ms > 0 && probed.latency_ms.is_some_and(|ms| ms > scope.threshold_ms);
        let (status, reason) = match probed.verdict {
            ProbeVerdict::Supported if is_slow => {
                (ProbeVerdict::Unsupported, Some(format!("slower than {} ms", scope.threshold_ms)))
            }
            verdict => (verdict, probed.reason),
        };
        let detail = Detail { model_name: model.clone(), status, latency_ms: probed.latency_ms, reason };
        seen(ProbeStep::Tried(&detail));
        details.push(detail);
    }
    let refused: Vec<&Detail> =
        details.iter().filter(|detail| detail.status == ProbeVerdict::Unsupported).collect();
    if !refused.is_empty() {
        switch_off(&core.store, site, account, &refused).await?;
        refused.iter().for_each(|detail| seen(ProbeStep::SwitchedOff(&detail.model_name)));
    }
    Ok(PostProbe { scope: scope.models, probed: details.len(), unsupported: refused.len(), details })
}

/// Returns the credential that an account's models are asked for with; `None` where the account has no usable one.
pub async fn credential_of(store: &Store, account: &AccountRow) -> store::Result<Option<Credential>> {
    let tokens = tokens::of_account(store, account.id).await?;
    let tokens: Vec<TokenRow> = tokens.into_iter().filter(TokenRow::is_usable).collect();
    Ok(credential(account, &tokens))
}

async fn switch_off(
    store: &Store,
    site: &SiteRow,
    account: &AccountRow,
    refused: &[&Detail],
) -> store::Result<()> {
    let at = now_ms();
    for detail in refused {
        let checked = ProbeRecord { available: false, latency_ms: detail.latency_ms, at };
        availability::check(store, account.id, &detail.model_name, checked).await?;
    }
    let names: Vec<String> = refused.iter().map(|detail| detail.model_name.clone()).collect();
    availability::disable_models(store, site.id, &names).await?;
    let names = names.join(", ");
    let why = refused.iter().find_map(|detail| detail.reason.as_deref()).unwrap_or_default();
    log::warn!("site \"{}\" does not serve {names}; switched off there: {why}", site.name);
    let reason = format!("not served: {names}: {why}");
    accounts::set_health(
        store,
        account.id,
        &Health::now(HealthState::Unhealthy, &reason, HealthSource::PostRefreshProbe),
    )
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_model_is_chosen_by_name_in_any_case_else_the_first_that_talks() {
        let models = ["Embedding-1", "m-a", "M-B", "text-embedding-3"].map(str::to_owned);
        let chosen = |which, model: &str| {
            let scope = ProbeScope { models: which, model: model.to_owned(), threshold_ms: 0 };
            scope.models_to_probe(&models).into_iter().cloned().collect::<Vec<_>>()
        };
        assert_eq!(chosen(ProbedModels::Single, "m-b"), ["M-B"]);
        assert_eq!(chosen(ProbedModels::Single, "unknown"), ["m-a"]);
        assert_eq!(chosen(ProbedModels::Single, ""), ["m-a"]);
        assert_eq!(chosen(ProbedModels::Single, "embedding-1"), ["Embedding-1"]);
        assert_eq!(chosen(ProbedModels::All, "m-b"), ["m-a", "M-B"]);
        let any = ProbeScope { models: ProbedModels::Single, model: String::new(), threshold_ms: 0 };
        assert_eq!(any.models_to_probe(&models[3..]), [&models[3]]);
        assert!(any.models_to_probe(&[]).is_empty());
    }
}
