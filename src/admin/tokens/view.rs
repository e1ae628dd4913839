//! An account token as responses show it: never its value, always its mask.

use serde::Serialize;

use crate::ids::{AccountId, SiteId, TokenId};
use crate::store::Secret;
use crate::store::accounts::AccountRow;
use crate::store::sites::SiteRow;
use crate::store::tokens::TokenRow;
use crate::time::iso;

/// A token without its value.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenView<'a> {
    id: TokenId,
    account_id: AccountId,
    name: &'a str,
    token_group: Option<&'a str>,
    value_status: &'static str,
    source: &'static str,
    enabled: bool,
    is_default: bool,
    token_masked: String,
    created_at: String,
    updated_at: String,
}

/// A token with its account and the account's site.
#[derive(Serialize)]
pub struct ListedToken<'a> {
    #[serde(flatten)]
    token: TokenView<'a>,
    account: TokenAccount<'a>,
    site: TokenSite<'a>,
}

#[derive(Serialize)]
struct TokenAccount<'a> {
    id: AccountId,
    username: Option<&'a str>,
    /// Only present in the list of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// Only present in search results: `session` or `apikey`.
    #[serde(skip_serializing_if = "Option::is_none")]
    segment: Option<&'static str>,
}

#[derive(Serialize)]
struct TokenSite<'a> {
    id: SiteId,
    name: &'a str,
    url: &'a str,
    platform: &'a str,
}

// === impl TokenView ===

impl<'a> TokenView<'a> {
    pub fn of(token: &'a TokenRow) -> Self {
        Self {
            id: token.id,
            account_id: token.account_id,
            name: &token.name,
            token_group: token.token_group.as_deref(),
            value_status: token.value_status.as_str(),
            source: token.source.as_str(),
            enabled: token.enabled,
            is_default: token.is_default,
            token_masked: masked(token),
            created_at: iso(token.created_at),
            updated_at: iso(token.updated_at),
        }
    }
}

// === impl ListedToken ===

impl<'a> ListedToken<'a> {
    /// Builds the token for the list of tokens.
    pub fn of(token: &'a TokenRow, account: &'a AccountRow, site: &'a SiteRow) -> Self {
        let status = Some(account.status.as_str());
        Self::new(token, TokenAccount { status, ..TokenAccount::of(account) }, site)
    }

    /// Builds the token for a search result.
    pub fn found(
        token: &'a TokenRow,
        account: &'a AccountRow,
        segment: &'static str,
        site: &'a SiteRow,
    ) -> Self {
        Self::new(token, TokenAccount { segment: Some(segment), ..TokenAccount::of(account) }, site)
    }

    fn new(token: &'a TokenRow, account: TokenAccount<'a>, site: &'a SiteRow) -> Self {
        let site = TokenSite { id: site.id, name: &site.name, url: &site.url, platform: &site.platform };
        Self { token: TokenView::of(token), account, site }
    }
}

// === impl TokenAccount ===

impl<'a> TokenAccount<'a> {
    fn of(account: &'a AccountRow) -> Self {
        Self { id: account.id, username: account.username.as_deref(), status: None, segment: None }
    }
}

/// Returns the mask of a token's value.
pub fn masked(token: &TokenRow) -> String {
    token.token.as_ref().map(Secret::expose).map_or_else(String::new, mask)
}

/// Returns a key as its users write it, with `sk-` before it.
pub fn display(value: &str) -> String {
    let value = value.trim();
    if value.is_empty() || value.starts_with("sk-") { value.to_owned() } else { format!("sk-{value}") }
}

/// Masks a key: `sk-***`, or for longer keys with three more characters at the beginning and two or four at the end.
pub fn mask(value: &str) -> String {
    let shown: Vec<char> = display(value).chars().collect();
    let text = |part: &[char]| part.iter().collect::<String>();
    match shown.len() {
        0 => String::new(),
        1..=7 => "sk-***".to_owned(),
        length @ 8..=12 => format!("{}***{}", text(&shown[..6]), text(&shown[length - 2..])),
        length => format!("{}***{}", text(&shown[..6]), text(&shown[length - 4..])),
    }
}

#[cfg(test)]
mod tests {
    use crate::admin::tokens::view::*;

    #[test]
    fn a_mask_shows_the_more_of_a_key_the_longer_it_is() {
        for (value, shown) in [
            ("", ""),
            ("abcd", "sk-***"),
            ("sk-abcd", "sk-***"),
            ("sk-abcde", "sk-abc***de"),
            ("abcdefghi", "sk-abc***hi"),
            ("sk-abcdefghi", "sk-abc***hi"),
            ("sk-abcdefghij", "sk-abc***ghij"),
            ("abcd**********wxyz", "sk-abc***wxyz"),
            ("ключключключ", "sk-клю***ключ"),
        ] {
            assert_eq!(mask(value), shown, "{value}");
        }
        assert_eq!((display("abc"), display(" sk-abc ")), ("sk-abc".to_owned(), "sk-abc".to_owned()));
    }
}
