//! An account token as answers show it (admin-core.md 6): never its value, always its mask.

use serde_json::{Value, json};

use crate::store::Secret;
use crate::store::accounts::AccountRow;
use crate::store::sites::SiteRow;
use crate::store::tokens::TokenRow;
use crate::time::iso;

/// The row without its value.
pub fn row(token: &TokenRow) -> Value {
    json!({
        "id": token.id,
        "accountId": token.account_id,
        "name": token.name,
        "tokenGroup": token.token_group,
        "valueStatus": token.value_status,
        "source": token.source,
        "enabled": token.enabled,
        "isDefault": token.is_default,
        "tokenMasked": masked(token),
        "createdAt": iso(token.created_at),
        "updatedAt": iso(token.updated_at),
    })
}

/// The row with whose it is.
pub fn listed(token: &TokenRow, account: &AccountRow, site: &SiteRow) -> Value {
    let mut shown = row(token);
    shown["account"] =
        json!({ "id": account.id, "username": account.username, "status": account.status.as_str() });
    shown["site"] = json!({ "id": site.id, "name": site.name, "url": site.url, "platform": site.platform });
    shown
}

/// The mask of a token's value.
pub fn masked(token: &TokenRow) -> String {
    token.token.as_ref().map(Secret::expose).map_or_else(String::new, mask)
}

/// A key as its users write it: with `sk-` before it.
pub fn display(value: &str) -> String {
    let value = value.trim();
    if value.is_empty() || value.starts_with("sk-") { value.to_owned() } else { format!("sk-{value}") }
}

/// `sk-***`, or with three characters of the beginning and two or four of the end.
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
    use super::*;

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
