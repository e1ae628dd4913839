//! Discovers the models of one account by asking its site with every credential that the account has.
//!
//! ```text
//! api token, access token ──┐
//! managed tokens ───────────┴─▶ each distinct one asked once ─▶ the account's models: all of them together
//!                                                             └▶ each token's models: its own answer
//! ```
//!
//! A token that could not be used keeps its known models. Two lists in a row that do not come in time end the discovery:
//! a site that hangs does so for every credential, and there may be a thousand.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::core::{AddressWalk, Core};
use crate::ids::TokenId;
use crate::jobs::sessions::sendable::sendable_secrets;
use crate::routing::{Site, pool};
use crate::store::accounts::AccountRow;
use crate::store::availability::{Discovered, TokenModelRow};
use crate::store::tokens::TokenRow;
use crate::time::{measured_ms, now_ms};
use crate::upstream::FetchLimits;
use crate::upstream::platforms::{
    self, DISCOVERY_LIMITS, DiscoveryError, DiscoveryKind, SessionModels, SiteClient, bare_key,
};

/// The longest model name the store can index.
const MAX_NAME_CHARS: usize = 191;

/// The most models an account may have from its site: each is a route, or a channel of one. The largest hubs list
/// about a thousand.
pub const MAX_MODELS: usize = 5000;

/// The most models that the tokens of an account may have in all, each counted for every token that offers it: all of
/// them are rows, which are read at every start.
pub const MAX_TOKEN_MODELS: usize = 50_000;

/// The time limit for the discovery of one account, all its credentials together.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The number of lists in a row that do not come in time after which no other is asked for.
const MAX_TIMEOUTS: usize = 2;

/// The result of a discovery.
#[derive(Debug, Default)]
pub struct DiscoveredModels {
    /// The models that any of the credentials offers.
    pub models: ModelSet,
    /// For each managed token that answered, the models of the account that it offers.
    pub of_tokens: Vec<(TokenId, Vec<Discovered>)>,
    /// Managed tokens that got no list, or were not used because the discovery had ended; their known models stay.
    pub failed_tokens: Vec<TokenId>,
    /// The number of models that the managed tokens listed, also of those that the account has no room for.
    listed_by_tokens: usize,
    /// Whether models of tokens were left out because there were more than [`MAX_TOKEN_MODELS`].
    pub is_token_cut: bool,
    /// The number of managed tokens that were used.
    pub tokens_asked: usize,
    /// Whether one of the account's own credentials got a list.
    pub by_credential: bool,
}

/// A set of models with each name once, ignoring case: the first spelling wins. Takes [`MAX_MODELS`] of them at most.
#[derive(Debug, Default)]
pub struct ModelSet {
    models: Vec<Discovered>,
    /// The index of each model by its name in lower case.
    places: HashMap<String, usize>,
    is_cut: bool,
}

/// Asks with the account's own credentials, then with its managed tokens, until two lists in a row do not come in time.
/// `site_client` is the client of an account that has a session. Fails with the first failure when no credential reaches
/// a model, or when lists do not come in time and none of the account's tokens has one.
pub async fn discover(
    core: &Core,
    site: &Site,
    account: &AccountRow,
    tokens: &[TokenRow],
    site_client: Option<&SiteClient>,
) -> Result<DiscoveredModels, DiscoveryError> {
    let mut found = DiscoveredModels::default();
    let mut failure = None;
    // Each credential is used once: a managed token may be the account's own key.
    let mut answers: HashMap<&str, Option<ModelSet>> = HashMap::new();
    let own = sendable_secrets([&account.api_token, &account.access_token])
        .into_iter()
        .map(|secret| (None, secret));
    let managed = tokens.iter().filter(|token| token.is_usable());
    let managed = managed.filter_map(|row| Some((Some(row.id), row.token.as_ref()?.expose().trim())));
    let (mut timeouts, mut late, deadline) = (0, None, Instant::now() + TIMEOUT);
    for (token, credential) in own.chain(managed) {
        if found.is_full() {
            found.skip(token);
            continue;
        }
        let answer = match answers.entry(bare_key(credential)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if timeouts == MAX_TIMEOUTS || Instant::now() >= deadline => {
                found.skip(token);
                continue;
            }
            Entry::Vacant(new) => {
                let session = site_client.filter(|client| token.is_none() && client.is_session(credential));
                let listing = timeout_at(deadline, list(core, site, credential, session, deadline));
                let listed = listing.await.unwrap_or_else(|_elapsed| Err(too_late()));
                let timeout = listed.as_ref().err().filter(|error| error.kind == DiscoveryKind::Timeout);
                timeouts = if timeout.is_some() { timeouts + 1 } else { 0 };
                late = late.or(timeout.cloned());
                new.insert(listed.map_err(|error| failure = failure.take().or(Some(error))).ok())
            }
        };
        found.tokens_asked += usize::from(token.is_some());
        match answer {
            Some(listed) => found.add(token, listed),
            None => found.failed_tokens.extend(token),
        }
    }
    if found.models.is_empty() {
        let message = "the account has no usable credential";
        return Err(failure.unwrap_or_else(|| DiscoveryError::new(DiscoveryKind::Unauthorized, message)));
    }
    match late {
        // Its tokens are what the account is routed by.
        Some(late) if found.of_tokens.is_empty() && !found.failed_tokens.is_empty() => Err(late),
        Some(_) => {
            log::warn!("the models of account {} were not listed in time for each of its keys", account.id);
            Ok(found)
        }
        None => Ok(found),
    }
}

fn too_late() -> DiscoveryError {
    let message = format!("no model lists within {} s", TIMEOUT.as_secs());
    DiscoveryError::new(DiscoveryKind::Timeout, message)
}

/// Lists the models that one credential reaches. Where the credential is the account's session and gets no list as a
/// key, the account's client asks for what its user may use; where that needs a key of the user, the key is used at the
/// addresses that requests go to.
async fn list(
    core: &Core,
    site: &Site,
    credential: &str,
    session: Option<&SiteClient>,
    deadline: Instant,
) -> Result<ModelSet, DiscoveryError> {
    let began = Instant::now();
    let names = match (ask(core, site, credential, deadline).await, session) {
        (Err(error), Some(session)) if error.kind != DiscoveryKind::Timeout => {
            match session.models_of_session(&core.client).await {
                Ok(SessionModels::Listed(names)) if names.is_empty() => {
                    let message = "the site lists no models";
                    return Err(DiscoveryError::new(DiscoveryKind::EmptyModels, message));
                }
                Ok(SessionModels::Listed(names)) => names,
                Ok(SessionModels::ByKey(key)) => ask(core, site, key.expose(), deadline).await?,
                Err(_less_telling) => return Err(error),
            }
        }
        (listed, _) => listed?,
    };
    let listed = ModelSet::of(&names, measured_ms(began.elapsed()));
    if listed.models.is_empty() && !names.is_empty() {
        let message = format!(
            "the names of all {} listed models have more than {MAX_NAME_CHARS} characters",
            names.len()
        );
        return Err(DiscoveryError::new(DiscoveryKind::EmptyModels, message));
    }
    Ok(listed)
}

// === impl DiscoveredModels ===

impl DiscoveredModels {
    /// Builds the result from a list that the account's own credential got.
    pub fn of_names(names: &[String], latency_ms: i64) -> Self {
        let mut found = Self::default();
        found.add(None, &ModelSet::of(names, latency_ms));
        found
    }

    /// Adds the models that the account's own credential, or one of its tokens, reaches.
    fn add(&mut self, token: Option<TokenId>, listed: &ModelSet) {
        self.models.is_cut |= listed.is_cut;
        for model in &listed.models {
            self.models.add(&model.model_name, model.latency_ms);
        }
        match token {
            Some(id) => {
                let models = listed.models.iter().filter(|model| self.models.has(&model.model_name));
                let mut models: Vec<Discovered> = models.cloned().collect();
                let room = MAX_TOKEN_MODELS.saturating_sub(self.listed_by_tokens);
                self.listed_by_tokens += listed.models.len();
                self.is_token_cut |= models.len() > room;
                models.truncate(room);
                self.of_tokens.push((id, models));
            }
            None => self.by_credential = true,
        }
    }

    /// Returns the number of models that the tokens have in all.
    pub fn token_models(&self) -> usize {
        self.of_tokens.iter().map(|(_, models)| models.len()).sum()
    }

    /// Returns the tokens that have known models and got no list, each once. `known` is sorted by token.
    pub fn not_listed(&self, known: &[TokenModelRow]) -> Vec<TokenId> {
        let listed: HashSet<TokenId> = self.of_tokens.iter().map(|(id, _)| *id).collect();
        let mut others: Vec<TokenId> = known.iter().map(|row| row.token_id).collect();
        others.dedup();
        others.retain(|id| !listed.contains(id));
        others
    }

    /// Whether the tokens have listed as many models as they may have.
    fn is_full(&self) -> bool {
        self.listed_by_tokens >= MAX_TOKEN_MODELS
    }

    /// Leaves out a token that is not used any more. Where there is no room for its models, it has none.
    fn skip(&mut self, token: Option<TokenId>) {
        if self.is_full() {
            self.is_token_cut |= token.is_some();
            self.of_tokens.extend(token.map(|id| (id, Vec::new())));
        } else {
            self.failed_tokens.extend(token);
        }
    }
}

// === impl ModelSet ===

impl ModelSet {
    /// Builds the set of one list. Skips names that are too long for the store, and logs the first of them.
    fn of(names: &[String], latency_ms: i64) -> Self {
        let mut listed = Self::default();
        let mut skipped: Option<(&str, usize)> = None;
        for name in names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
            if listed.is_cut {
                break;
            }
            if name.chars().count() > MAX_NAME_CHARS {
                skipped = Some(skipped.map_or((name, 1), |(first, count)| (first, count + 1)));
            } else {
                listed.add(name, Some(latency_ms));
            }
        }
        if let Some((first, count)) = skipped {
            let start: String = first.chars().take(40).collect();
            log::warn!(
                "{count} model(s) are skipped because their names have more than {MAX_NAME_CHARS} \
                 characters: \"{start}…\""
            );
        }
        listed
    }

    /// Adds a name; a known one keeps the lower latency.
    fn add(&mut self, name: &str, latency_ms: Option<i64>) {
        let is_full = self.models.len() >= MAX_MODELS;
        match self.places.entry(name.to_lowercase()) {
            Entry::Occupied(place) => {
                let model = &mut self.models[*place.get()];
                model.latency_ms = model.latency_ms.min(latency_ms);
            }
            Entry::Vacant(_) if is_full => self.is_cut = true,
            Entry::Vacant(place) => {
                place.insert(self.models.len());
                self.models.push(Discovered { model_name: name.to_owned(), latency_ms });
            }
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.places.contains_key(&name.to_lowercase())
    }

    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// Whether models were left out because there were too many.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the models in the order in which they were listed.
    pub fn models(&self) -> &[Discovered] {
        &self.models
    }

    pub fn into_names(self) -> Vec<String> {
        self.models.into_iter().map(|model| model.model_name).collect()
    }
}

/// Lists the models by asking the addresses of the site in the pool's order until one answers. A refusal is an answer.
/// An address that others follow is waited for during half of the time until the deadline at most.
pub async fn ask(
    core: &Core,
    site: &Site,
    credential: &str,
    deadline: Instant,
) -> Result<Vec<String>, DiscoveryError> {
    let unusable = |message: String| DiscoveryError::new(DiscoveryKind::Unknown, message);
    if let Some(reason) = &site.misconfigured {
        return Err(unusable(reason.to_string()));
    }
    let mut addresses = AddressWalk::new(&core.store, &site.endpoints, now_ms());
    let mut listed = Err(unusable("no available endpoint".to_owned()));
    while let Some(endpoint) = addresses.next_address() {
        let share = addresses.share(deadline.saturating_duration_since(Instant::now()));
        let limits = FetchLimits { timeout: DISCOVERY_LIMITS.timeout.min(share), ..DISCOVERY_LIMITS };
        let (base, headers) = (&endpoint.base, &site.custom_headers);
        listed = platforms::list_models(&core.client, base, site.platform, credential, headers, limits).await;
        if ends_walk(&mut addresses, &listed) {
            break;
        }
    }
    listed
}

/// Records the answer of an address with it. Returns whether the other addresses are not asked.
pub fn ends_walk(addresses: &mut AddressWalk<'_>, listed: &Result<Vec<String>, DiscoveryError>) -> bool {
    match listed {
        Ok(_) => addresses.answered(),
        Err(error) if error.lacks_proxy => {}
        Err(error) if error.status.is_none_or(pool::rotates) => {
            addresses.failed(&error.message);
            return false;
        }
        Err(error) => addresses.refused(&error.message),
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::jobs::models::discovery::*;

    fn listed(names: &[&str], latency_ms: i64) -> ModelSet {
        ModelSet::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), latency_ms)
    }

    fn seen(models: &[Discovered]) -> Vec<(&str, Option<i64>)> {
        models.iter().map(|model| (model.model_name.as_str(), model.latency_ms)).collect()
    }

    #[test]
    fn names_are_trimmed_and_the_first_spelling_wins() {
        let mut found = DiscoveredModels::default();
        found.add(None, &listed(&[" gpt-4o ", "GPT-4o", "", "o3"], 40));
        found.add(Some(TokenId::new(7)), &listed(&["O3", "claude"], 10));
        assert_eq!(
            seen(found.models.models()),
            [("gpt-4o", Some(40)), ("o3", Some(10)), ("claude", Some(10))]
        );
        assert_eq!(seen(&found.of_tokens[0].1), [("O3", Some(10)), ("claude", Some(10))]);
    }

    #[test]
    fn names_that_no_column_holds_are_skipped() {
        let names = ["x".repeat(191), "y".repeat(192)];
        assert_eq!(listed(&[&names[0], &names[1]], 0).models().len(), 1);
    }

    #[test]
    fn an_account_has_the_first_models_of_a_list_without_end() {
        let names: Vec<String> = (0..MAX_MODELS + 2).map(|number| format!("m-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut found = DiscoveredModels::default();
        found.add(None, &listed(&names[..MAX_MODELS], 1));
        assert!(!found.models.is_cut());
        found.add(Some(TokenId::new(7)), &listed(&names[1..], 1));
        assert!(found.models.is_cut());
        assert_eq!(found.models.models().len(), MAX_MODELS);
        let of_token = &found.of_tokens[0].1;
        assert_eq!(of_token.len(), MAX_MODELS - 1, "a token has no model that its account has not");
        assert!(listed(&names, 1).is_cut());
    }

    #[test]
    fn the_tokens_of_an_account_have_a_bounded_number_of_models_in_all() {
        let names: Vec<String> = (0..MAX_MODELS).map(|number| format!("m-{number}")).collect();
        let listed = ModelSet::of(&names, 1);
        let mut found = DiscoveredModels::default();
        let token = |number: i64| Some(TokenId::new(number));
        found.add(token(1), &ModelSet::of(&names[..7], 1));
        (2..=10).for_each(|number| found.add(token(number), &listed));
        assert!(!found.is_full() && !found.is_token_cut);
        found.add(token(11), &listed);
        assert!(found.is_full() && found.is_token_cut);
        assert_eq!((found.token_models(), found.of_tokens[10].1.len()), (MAX_TOKEN_MODELS, MAX_MODELS - 7));
        // No room is left: further tokens lose what they had.
        found.skip(token(12));
        assert_eq!((found.of_tokens[11].1.len(), found.failed_tokens.len()), (0, 0));
    }
}
