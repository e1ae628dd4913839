//! The fields of a channel as an operator sends them, and whether its route can take the channel.
//!
//! A channel presents one of its account's tokens, or without one the account's own credential. If no token is named,
//! an account that serves by tokens uses its default token.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use super::schema;
use crate::admin::input::{Fields, Invalid, MAX_KEY_CHARS, Patch};
use crate::admin::routes::fill::{ChannelKey, channel_key, key_of};
use crate::admin::routes::input::usable_pattern;
use crate::admin::routes::view::{RouteIndex, is_exact};
use crate::admin::schema::Object;
use crate::ids::{AccountId, ChannelId, TokenId};
use crate::jobs::rebuild_rows::serves_by;
use crate::routing::ModelPattern;
use crate::routing::pattern::alias_equal;
use crate::routing::rebuild::{Credential, ServesBy};
use crate::store;
use crate::store::Store;
use crate::store::accounts::AccountRow;
use crate::store::availability::{self, TokenModelRow};
use crate::store::route_edits::ChannelPatch;
use crate::store::routes::{ChannelRow, DEFAULT_PRIORITY, DEFAULT_WEIGHT, NewChannel, RouteRow};

/// The fields of a channel that were sent.
#[derive(Debug)]
pub struct ChannelInput {
    token_id: Patch<TokenId>,
    source_model: Patch<String>,
    priority: Option<i64>,
    weight: Option<i64>,
    enabled: Option<bool>,
}

/// The reason why a channel is not added.
#[derive(Debug, PartialEq, Eq)]
pub enum ChannelRefusal {
    /// The route already has this channel.
    Duplicate,
    Invalid(Invalid),
}

/// A route whose channels are added or changed, with the data needed to check them.
pub struct ChannelEditor<'a> {
    route_index: &'a RouteIndex,
    route: &'a RouteRow,
    /// Available models by token.
    models: HashMap<TokenId, Vec<String>>,
    taken: HashSet<ChannelKey>,
}

impl From<Invalid> for ChannelRefusal {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

// === impl ChannelRefusal ===

impl ChannelRefusal {
    /// Returns the message for the person who sent the channel.
    pub fn into_message(self) -> String {
        match self {
            Self::Duplicate => {
                "The route has a channel with this account, token and source model already".to_owned()
            }
            Self::Invalid(invalid) => invalid.to_string(),
        }
    }
}

// === impl ChannelInput ===

impl ChannelInput {
    pub fn read(fields: &Fields) -> Result<Self, Invalid> {
        Ok(Self {
            token_id: fields.nullable_id("tokenId")?,
            source_model: match fields.nullable_text("sourceModel")? {
                Some(Some(text)) => Some(source_model(text)?),
                cleared_or_absent => cleared_or_absent.map(|_| None),
            },
            priority: fields.truncated("priority")?,
            weight: fields.truncated("weight")?,
            enabled: fields.bool("enabled")?,
        })
    }
}

/// Reads the name or pattern of a model; `None` if it is blank.
fn source_model(text: &str) -> Result<Option<String>, Invalid> {
    let text = text.trim();
    if text.chars().count() > MAX_KEY_CHARS {
        return Err(Invalid::field("sourceModel", "string of at most 191 characters"));
    }
    if text.is_empty() { Ok(None) } else { usable_pattern("sourceModel", text).map(Some) }
}

/// Reads the `updates` of a batch: channel ids and their new priorities.
pub fn priorities(fields: &Fields) -> Result<Vec<(ChannelId, i64)>, Invalid> {
    let invalid = || Invalid::field("updates", "non-empty array of {id, priority}");
    let items = objects(fields, "updates", &schema::PRIORITY).ok_or_else(invalid)?;
    let read = |item: Fields| {
        let id = item.truncated("id")?.filter(|id| *id > 0).map(ChannelId::new);
        let id = id.ok_or_else(|| Invalid::field("id", "positive number"))?;
        let priority = item.truncated("priority")?;
        Ok((id, priority.ok_or_else(|| Invalid::field("priority", "number"))?))
    };
    items.map(|item| read(item).map_err(|invalid: Invalid| invalid.within("updates"))).collect()
}

/// Reads a list of objects; `None` if the list is empty or has an item of another type.
pub fn objects(
    fields: &Fields,
    name: &str,
    described: &'static Object,
) -> Option<impl Iterator<Item = Fields>> {
    let items = fields.get(name)?.as_array().filter(|items| !items.is_empty())?;
    let objects: Option<Vec<Map<String, Value>>> =
        items.iter().map(|item| item.as_object().cloned()).collect();
    Some(objects?.into_iter().map(move |item| Fields::of(described, item)))
}

// === impl ChannelEditor ===

impl<'a> ChannelEditor<'a> {
    /// Loads the models of these accounts' tokens.
    pub async fn of(
        store: &Store,
        route_index: &'a RouteIndex,
        route: &'a RouteRow,
        accounts: &[AccountId],
    ) -> store::Result<Self> {
        let mut rows = Vec::new();
        for id in accounts.iter().collect::<BTreeSet<_>>() {
            rows.extend(availability::of_tokens_of(store, *id).await?);
        }
        Ok(Self::with(route_index, route, rows))
    }

    fn with(route_index: &'a RouteIndex, route: &'a RouteRow, rows: Vec<TokenModelRow>) -> Self {
        let mut models: HashMap<TokenId, Vec<String>> = HashMap::new();
        for row in rows.into_iter().filter(|row| row.available) {
            models.entry(row.token_id).or_default().push(row.model_name);
        }
        let taken = route_index.owned(route.id).map(|channel| key_of(route_index, channel)).collect();
        Self { route_index, route, models, taken }
    }

    /// Checks a channel to add, and remembers it so that the next one cannot repeat it.
    pub fn admit(
        &mut self,
        account_id: AccountId,
        input: ChannelInput,
    ) -> Result<NewChannel, ChannelRefusal> {
        let account =
            self.route_index.account(account_id).ok_or_else(|| Invalid::field("accountId", "an account"))?;
        let pattern = is_exact(self.route).then(|| self.route.model_pattern.clone());
        let source_model = input.source_model.flatten().or(pattern);
        let credential = self.credential(account, input.token_id, source_model.as_deref())?;
        let own = channel_key(credential, Some(&self.route.model_pattern));
        let is_extra = self.taken.contains(&own);
        if !self.taken.insert(channel_key(credential, source_model.as_deref())) {
            return Err(ChannelRefusal::Duplicate);
        }
        Ok(NewChannel {
            credential,
            source_model,
            priority: input.priority.unwrap_or(DEFAULT_PRIORITY),
            weight: input.weight.unwrap_or(DEFAULT_WEIGHT),
            enabled: true,
            manual_override: true,
            is_extra,
        })
    }

    /// Checks the change of a channel of this route.
    pub fn change(
        &mut self,
        channel: &ChannelRow,
        input: ChannelInput,
    ) -> Result<ChannelPatch, ChannelRefusal> {
        let mut changed = channel.clone();
        changed.source_model = input.source_model.clone().unwrap_or(changed.source_model);
        let token_id = match self.route_index.account(channel.account_id) {
            Some(account) if input.token_id.is_some() => {
                let model = self.route_index.source_model(&changed);
                Some(self.credential(account, input.token_id, model)?.token_id)
            }
            _ => None,
        };
        changed.token_id = token_id.unwrap_or(channel.token_id);
        let (before, after) = (key_of(self.route_index, channel), key_of(self.route_index, &changed));
        if before != after && !self.taken.insert(after) {
            return Err(ChannelRefusal::Duplicate);
        }
        Ok(ChannelPatch {
            token_id,
            source_model: input.source_model,
            priority: input.priority,
            weight: input.weight,
            enabled: input.enabled,
        })
    }

    /// Chooses the credential of a channel; on an exact route a token has to reach the upstream model.
    fn credential(
        &self,
        account: &AccountRow,
        token_id: Patch<TokenId>,
        source_model: Option<&str>,
    ) -> Result<Credential, Invalid> {
        let token = match token_id.flatten() {
            Some(id) => {
                let own = self.route_index.token(id).filter(|token| token.account_id == account.id);
                let usable = own.filter(|token| token.is_usable());
                Some(usable.ok_or_else(|| {
                    Invalid::field(
                        "tokenId",
                        "id of an enabled token of the account whose whole value is saved",
                    )
                })?)
            }
            None if serves_by(account) == ServesBy::Tokens => self.route_index.default_token(account.id),
            None => None,
        };
        let known = token.and_then(|token| self.models.get(&token.id));
        let model = source_model.filter(|model| ModelPattern::stored(model).is_exact());
        let model = model.unwrap_or(&self.route.model_pattern);
        if is_exact(self.route)
            && known.is_some_and(|known| !known.iter().any(|name| name == model || alias_equal(name, model)))
        {
            let message = format!("The token does not reach the model {model}.");
            return Err(Invalid::because("tokenId", message));
        }
        Ok(Credential { account_id: account.id, token_id: token.map(|token| token.id), unit_id: None })
    }
}

#[cfg(test)]
mod tests;
