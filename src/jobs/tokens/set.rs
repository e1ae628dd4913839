//! The tokens of one account as a set: read whole, changed in memory by the rules below, written whole. Nothing here
//! asks a site. Holding `Core::token_edits` from reading to writing keeps others away from the rows.
//!
//! The rules of a merge with the keys that a site lists. For each key the first rule that fits applies:
//!
//! | found here | what happens |
//! |---|---|
//! | a ready row of the same value | takes name, group and state; placeholders of it go |
//! | for a mask: the only ready row of that name and group whose value fits it | the same, the value stays |
//! | a placeholder of that name and group | takes value and state |
//! | nothing | a new row, not the default, unless the account has [`MOST_KEYS`] rows |
//!
//! A token that a site no longer lists stays: it may have been typed by hand, and deleting is up to the operator.

use std::collections::{HashMap, HashSet};

use crate::ids::{AccountId, TokenId};
use crate::key_mask::{KeyMask, is_mask};
use crate::store::accounts::AccountRow;
use crate::store::tokens::{self, TokenRow, TokenSource, ValueStatus};
use crate::store::{self, Secret, Store};
use crate::upstream::platforms::bare_key;

/// The number of tokens of an account up to which its site adds more.
pub const MOST_KEYS: usize = 1000;

/// A key as its site lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    pub name: String,
    pub key: String,
    pub enabled: bool,
    pub group: Option<String>,
}

/// The result of a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeResult {
    pub created: usize,
    pub updated: usize,
    /// The number of new keys that were left out because the account has [`MOST_KEYS`] tokens.
    pub left_out: usize,
    /// Positions in the set of the tokens of which the site shows only a mask and whose value is not known here.
    pub pending: Vec<usize>,
}

/// The tokens of one account, before and after a change.
pub struct TokenSet {
    account_id: AccountId,
    before: Vec<TokenRow>,
    pub rows: Vec<TokenRow>,
}

// === impl TokenSet ===

impl TokenSet {
    /// Reads the rows as they are. Hold `Core::token_edits` until the set is saved.
    pub async fn read(store: &Store, account_id: AccountId) -> store::Result<Self> {
        let rows = tokens::of_account(store, account_id).await?;
        Ok(Self { account_id, before: rows.clone(), rows })
    }

    /// Writes the set, with its default chosen anew where needed, and returns the rows as stored.
    pub async fn save(mut self, store: &Store) -> store::Result<Vec<TokenRow>> {
        self.settle();
        let ids = tokens::save(store, self.account_id, &self.before, &self.rows).await?;
        for (row, id) in self.rows.iter_mut().zip(ids) {
            row.id = id;
        }
        Ok(self.rows)
    }

    /// Adds a key and returns its position. Saving makes it the default when no other token can be.
    pub fn add(&mut self, name: &str, key: &str, group: Option<String>, source: TokenSource) -> usize {
        let mut row = TokenRow {
            id: TokenId::ZERO,
            account_id: self.account_id,
            name: name.to_owned(),
            token: None,
            token_group: group,
            value_status: ValueStatus::MaskedPending,
            source,
            enabled: true,
            is_default: false,
            created_at: 0,
            updated_at: 0,
        };
        row.set_value(key.trim());
        self.rows.push(row);
        self.rows.len() - 1
    }

    /// Returns the name of a key added without one: `default`, then `token-2`, `token-3`, …
    pub fn next_name(&self) -> String {
        match self.rows.len() {
            0 => "default".to_owned(),
            count => format!("token-{}", count + 1),
        }
    }

    /// Makes this key, already known or not, the default one. Ignores a blank or masked key.
    pub fn adopt(&mut self, key: &str, source: TokenSource) {
        let key = key.trim();
        if key.is_empty() || is_mask(key) {
            return;
        }
        let at = self.position_of(key).unwrap_or_else(|| {
            let name = self.next_name();
            let group = group_of_name(&name);
            self.add(&name, key, group, source)
        });
        self.rows[at].enabled = true;
        self.prefer(at);
    }

    /// Makes the account's key the default one if it has no row: it is from before tokens had rows. Returns whether it
    /// was added.
    pub fn adopt_legacy(&mut self, account: Option<&AccountRow>) -> bool {
        let key = account.and_then(|account| account.api_token.as_ref()).map(Secret::expose);
        let key = key.filter(|key| !is_mask(key) && self.position_of(key).is_none());
        if let Some(key) = key {
            self.adopt(key, TokenSource::Legacy);
        }
        key.is_some()
    }

    /// Makes the row at a position the only default. The row has to be usable.
    pub fn prefer(&mut self, at: usize) {
        for (index, row) in self.rows.iter_mut().enumerate() {
            row.is_default = index == at;
        }
    }

    /// Removes the listed keys that had a row in `before`, and have none any more.
    pub fn leave_out_lost(&self, listed: &mut Vec<ListedKey>, before: &Self) {
        let kept: HashSet<TokenId> = self.rows.iter().map(|row| row.id).collect();
        if before.rows.iter().any(|row| !kept.contains(&row.id)) {
            listed.retain(|key| !has_lost(&kept, key, before));
        }
    }

    /// Whether the value of a key that the site masks is known here.
    pub fn knows(&self, name: &str, group: Option<&str>, mask: &str) -> bool {
        let label = Label::of(name, group);
        self.pictured(mask.trim(), &label, &vec![MatchState::Free; self.rows.len()]).is_some()
    }

    /// Brings the rows in line with what the site lists.
    pub fn merge(&mut self, listed: &[ListedKey]) -> MergeResult {
        let mut merge = Merge::of(self);
        for item in listed.iter().filter(|item| !item.key.trim().is_empty()) {
            merge.take(item);
        }
        merge.finish()
    }

    /// Keeps a usable default, else makes the first usable row the default, else none.
    fn settle(&mut self) {
        let chosen = self.rows.iter().position(|row| row.is_default && row.is_usable());
        let chosen = chosen.or_else(|| self.rows.iter().position(TokenRow::is_usable));
        self.prefer(chosen.unwrap_or(usize::MAX));
    }

    /// Returns the positions of the ready rows by their bare values.
    fn places(&self) -> HashMap<String, usize> {
        let mut places = HashMap::new();
        for (at, row) in self.rows.iter().enumerate().filter(|(_, row)| row.is_ready()) {
            if let Some(token) = &row.token {
                places.entry(bare_key(token.expose()).to_owned()).or_insert(at);
            }
        }
        places
    }

    /// Returns the position of the ready row with this value.
    pub fn position_of(&self, key: &str) -> Option<usize> {
        let key = bare_key(key);
        let is_it = |row: &TokenRow| {
            row.is_ready() && row.token.as_ref().is_some_and(|token| bare_key(token.expose()) == key)
        };
        self.rows.iter().position(is_it)
    }

    /// Returns the position of the only ready row whose value fits a mask; `None` where several do.
    fn pictured(&self, mask: &str, label: &Label<'_>, marks: &[MatchState]) -> Option<usize> {
        let mut fitting = (0..self.rows.len()).filter(|&at| {
            let row = &self.rows[at];
            let fits = |token: &Secret| mask_fits(mask, token.expose());
            marks[at] == MatchState::Free
                && row.is_ready()
                && label.is_of(row)
                && row.token.as_ref().is_some_and(fits)
        });
        let found = fitting.next()?;
        fitting.next().is_none().then_some(found)
    }

    /// Returns the position of the placeholder to overwrite, preferably the one that shows the same mask.
    fn placeholder(&self, key: &str, label: &Label<'_>, marks: &[MatchState]) -> Option<usize> {
        let free = (0..self.rows.len()).filter(|&at| {
            let row = &self.rows[at];
            marks[at] == MatchState::Free
                && row.value_status == ValueStatus::MaskedPending
                && label.is_of(row)
        });
        free.min_by_key(|&at| self.rows[at].token.as_ref().map(Secret::expose) != Some(key))
    }
}

/// The name of a token and its group, by which a site tells keys apart whose values it hides.
struct Label<'n> {
    name: &'n str,
    group: Option<String>,
}

// === impl Label ===

impl<'n> Label<'n> {
    fn of(name: &'n str, group: Option<&str>) -> Self {
        let name = name.trim();
        Self { name, group: group_name(group).or_else(|| group_of_name(name)) }
    }

    fn is_of(&self, row: &TokenRow) -> bool {
        row.name == self.name && row.token_group == self.group
    }
}

/// A merge under way.
struct Merge<'s> {
    set: &'s mut TokenSet,
    /// The treatment of each row of the set.
    marks: Vec<MatchState>,
    /// The positions of the ready rows by their bare values.
    places: HashMap<String, usize>,
    result: MergeResult,
}

// === impl Merge ===

impl<'s> Merge<'s> {
    fn of(set: &'s mut TokenSet) -> Self {
        let (marks, places) = (vec![MatchState::Free; set.rows.len()], set.places());
        Self { set, marks, places, result: MergeResult::default() }
    }

    /// Takes over one key that the site lists.
    fn take(&mut self, item: &ListedKey) {
        let key = item.key.trim();
        let label = Label::of(&item.name, item.group.as_deref());
        let Some(at) = self.row_for(key, &label, item.enabled) else {
            self.result.left_out += 1;
            return;
        };
        self.marks[at] = MatchState::Taken;
        if !is_mask(key) {
            self.places.entry(bare_key(key).to_owned()).or_insert(at);
        }
        let row = &mut self.set.rows[at];
        row.name = label.name.to_owned();
        row.token_group = label.group;
        row.source = TokenSource::Sync;
    }

    /// Returns the position of the row that a key updates, or of a new one; `None` if the account has too many rows.
    fn row_for(&mut self, key: &str, label: &Label<'_>, is_enabled: bool) -> Option<usize> {
        let known = if is_mask(key) {
            self.set.pictured(key, label, &self.marks)
        } else {
            self.places.get(bare_key(key)).copied()
        };
        if let Some(at) = known {
            self.drop_placeholders(at, label);
            self.set.rows[at].enabled = is_enabled;
            self.result.updated += 1;
            return Some(at);
        }
        if let Some(at) = self.set.placeholder(key, label, &self.marks) {
            self.set.rows[at].enabled = is_enabled;
            self.set.rows[at].set_value(key);
            self.result.updated += 1;
            return Some(at);
        }
        if self.set.rows.len() >= MOST_KEYS {
            return None;
        }
        let at = self.set.add(label.name, key, None, TokenSource::Sync);
        self.set.rows[at].enabled &= is_enabled;
        self.marks.push(MatchState::Free);
        self.result.created += 1;
        Some(at)
    }

    /// Marks the placeholders of a row whose value is known as stale.
    fn drop_placeholders(&mut self, known: usize, label: &Label<'_>) {
        let rows = &self.set.rows;
        for (row, mark) in rows.iter().zip(&mut self.marks) {
            let is_free = *mark == MatchState::Free && !row.is_ready();
            if is_free && label.is_of(row) && mask_fits(value_of(row), value_of(&rows[known])) {
                *mark = MatchState::Stale;
            }
        }
    }

    /// Removes the stale rows.
    fn finish(self) -> MergeResult {
        let Self { set, marks, places: _, mut result } = self;
        let mut marks = marks.into_iter();
        let mut kept = 0;
        set.rows.retain(|row| {
            let mark = marks.next().unwrap_or(MatchState::Free);
            if mark == MatchState::Taken && !row.is_ready() {
                result.pending.push(kept);
            }
            kept += usize::from(mark != MatchState::Stale);
            mark != MatchState::Stale
        });
        result
    }
}

/// What a merge has done with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchState {
    Free,
    Taken,
    /// A placeholder of a key whose value is known.
    Stale,
}

/// Returns the key of a row, or its mask; empty if there is none.
fn value_of(row: &TokenRow) -> &str {
    row.token.as_ref().map_or("", Secret::expose)
}

/// Whether a listed key had a row in `before` that is not among the kept ones.
fn has_lost(kept: &HashSet<TokenId>, listed: &ListedKey, before: &TokenSet) -> bool {
    let is_it = |row: &&TokenRow| match &row.token {
        Some(token) if row.is_ready() && is_mask(&listed.key) => mask_fits(&listed.key, token.expose()),
        Some(token) => bare_key(token.expose()) == bare_key(&listed.key),
        None => false,
    };
    let mut known = before.rows.iter().filter(is_it).peekable();
    known.peek().is_some() && known.all(|row| !kept.contains(&row.id))
}

/// Whether a mask fits the key, whatever prefixes they have.
pub fn mask_fits(mask: &str, key: &str) -> bool {
    KeyMask::of(bare_key(mask)).is_some_and(|mask| mask.fits(bare_key(key)))
}

fn group_name(group: Option<&str>) -> Option<String> {
    group.map(str::trim).filter(|group| !group.is_empty()).map(str::to_owned)
}

/// Returns the group that a name tells: many operators name a key after its group. `None` for the numbered names that
/// this service gives.
pub fn group_of_name(name: &str) -> Option<String> {
    let name = name.trim();
    let lower = name.to_lowercase();
    let is_numbered = lower
        .strip_prefix("token-")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()));
    let is_default = ["default", "默认"].contains(&lower.as_str())
        || lower
            .strip_prefix("default")
            .is_some_and(|rest| rest.starts_with(|c: char| matches!(c, '-' | '_') || c.is_whitespace()));
    match name {
        "" => None,
        _ if is_numbered => None,
        _ if is_default => Some("default".to_owned()),
        name => Some(name.to_owned()),
    }
}

#[cfg(test)]
mod tests;
