//! The rules of a token set, without a store.

use super::*;
use crate::ids::{AccountId, TokenId};

fn row(id: i64, name: &str, value: &str, group: Option<&str>) -> TokenRow {
    let mut row = TokenRow {
        id: TokenId::new(id),
        account_id: AccountId::new(1),
        name: name.to_owned(),
        token: None,
        token_group: group.map(str::to_owned),
        value_status: ValueStatus::MaskedPending,
        source: TokenSource::Manual,
        enabled: true,
        is_default: false,
        created_at: 0,
        updated_at: 0,
    };
    row.set_value(value);
    row
}

fn token_set(rows: Vec<TokenRow>) -> TokenSet {
    TokenSet { account_id: AccountId::new(1), before: rows.clone(), rows }
}

fn listed(name: &str, key: &str, group: Option<&str>) -> ListedKey {
    ListedKey { name: name.to_owned(), key: key.to_owned(), enabled: true, group: group.map(str::to_owned) }
}

/// A row as tests compare it: name, value, group; whether it is ready, enabled, the default.
type Shown<'a> = (&'a str, &'a str, Option<&'a str>, bool, bool, bool);

fn shown(token_set: &TokenSet) -> Vec<Shown<'_>> {
    let rows = token_set.rows.iter();
    rows.map(|row| {
        let token = row.token.as_ref().map_or("", Secret::expose);
        (row.name.as_str(), token, row.token_group.as_deref(), row.is_ready(), row.enabled, row.is_default)
    })
    .collect()
}

#[test]
fn a_known_value_takes_what_the_site_says_of_it() {
    let mut off = row(5, "old name", "sk-abc", Some("old"));
    off.enabled = false;
    let mut token_set = token_set(vec![off]);
    let merged = token_set.merge(&[listed("cli", "abc", Some("vip"))]);
    assert_eq!((merged.created, merged.updated), (0, 1));
    assert_eq!(shown(&token_set), [("cli", "sk-abc", Some("vip"), true, true, false)]);
    assert_eq!(token_set.rows[0].source, TokenSource::Sync);
}

#[test]
fn a_mask_of_a_known_key_leaves_the_key_and_takes_its_placeholders_away() {
    let rows = vec![
        row(1, "cli", "sk-abcd1234wxyz", Some("default")),
        row(2, "cli", "abcd**********wxyz", Some("default")),
        row(3, "other", "zzzz**********zzzz", Some("default")),
    ];
    let mut token_set = token_set(rows);
    let merged = token_set.merge(&[listed("cli", "abcd**********wxyz", Some("default"))]);
    assert_eq!((merged.created, merged.updated, merged.pending.len()), (0, 1, 0));
    let ids: Vec<i64> = token_set.rows.iter().map(|row| row.id.get()).collect();
    assert_eq!(ids, [1, 3]);
    assert_eq!(token_set.rows[0].token.as_ref().map(Secret::expose), Some("sk-abcd1234wxyz"));
}

#[test]
fn a_mask_that_fits_several_keys_or_none_is_a_placeholder() {
    for (rows, mask) in [
        (vec![row(1, "k", "abcd1wxyz", None), row(2, "k", "abcd2wxyz", None)], "abcd****wxyz"),
        (vec![row(1, "k", "abcd1wxyz", None)], "sk-***"),
        (vec![row(1, "k", "abcd1wxyz", None)], "abcd****other"),
        (vec![row(1, "another name", "abcd1wxyz", None)], "abcd****wxyz"),
    ] {
        let count = rows.len();
        let mut token_set = token_set(rows);
        // Rows without a group of their own get the one that their name tells.
        token_set.rows.iter_mut().for_each(|row| row.token_group = group_of_name(&row.name));
        let merged = token_set.merge(&[listed("k", mask, None)]);
        assert_eq!((merged.created, merged.pending.clone()), (1, vec![count]), "{mask}");
        let added = &token_set.rows[count];
        assert_eq!((added.is_ready(), added.enabled), (false, false), "{mask}");
    }
}

#[test]
fn a_placeholder_is_filled_by_the_value_that_comes_for_it() {
    let mut token_set = token_set(vec![row(1, "cli", "abcd****wxyz", Some("default"))]);
    let merged = token_set.merge(&[listed("cli", "sk-abcd99wxyz", Some("default"))]);
    assert_eq!((merged.created, merged.updated), (0, 1));
    assert_eq!(shown(&token_set), [("cli", "sk-abcd99wxyz", Some("default"), true, true, false)]);
}

#[test]
fn two_masks_of_one_name_have_a_row_each_however_often_they_come() {
    let list = [listed("k", "aaaa****1111", Some("g")), listed("k", "bbbb****2222", Some("g"))];
    let mut token_set = token_set(Vec::new());
    for (created, updated) in [(2, 0), (0, 2), (0, 2)] {
        let merged = token_set.merge(&list);
        assert_eq!((merged.created, merged.updated, merged.pending.len()), (created, updated, 2));
    }
    assert_eq!(token_set.rows.len(), 2);
}

#[test]
fn blank_keys_are_skipped_and_missing_ones_stay() {
    let mut token_set = token_set(vec![row(1, "by hand", "sk-hand", None)]);
    let merged = token_set.merge(&[listed("blank", "  ", None)]);
    assert_eq!(merged, MergeResult::default());
    assert_eq!(token_set.rows.len(), 1);
}

#[test]
fn the_default_is_a_usable_one_or_none() {
    let mut masked = row(1, "a", "aaaa****aaaa", None);
    masked.is_default = true;
    let mut off = row(2, "b", "sk-b", None);
    off.enabled = false;
    let mut book_ =
        token_set(vec![masked.clone(), off.clone(), row(3, "c", "sk-c", None), row(4, "d", "sk-d", None)]);
    book_.settle();
    let defaults: Vec<bool> = book_.rows.iter().map(|row| row.is_default).collect();
    assert_eq!(defaults, [false, false, true, false]);
    let mut none = token_set(vec![masked, off]);
    none.settle();
    assert!(none.rows.iter().all(|row| !row.is_default));
}

#[test]
fn an_adopted_key_becomes_the_default_once() {
    let mut token_set = token_set(vec![row(1, "default", "sk-a", None)]);
    token_set.adopt("sk-b", TokenSource::Legacy);
    token_set.adopt("b", TokenSource::Legacy);
    let names: Vec<_> = token_set.rows.iter().map(|row| (row.name.as_str(), row.is_default)).collect();
    assert_eq!(names, [("default", false), ("token-2", true)]);
    token_set.adopt("abcd****wxyz", TokenSource::Legacy);
    assert_eq!(token_set.rows.len(), 2);
}

#[test]
fn a_name_tells_a_group() {
    for (name, group) in [
        ("default", Some("default")),
        (" Default ", Some("default")),
        ("默认", Some("default")),
        ("Default key", Some("default")),
        ("default-2", Some("default")),
        ("default_x", Some("default")),
        ("defaults", Some("defaults")),
        ("token-7", None),
        ("Token-12", None),
        ("token-", Some("token-")),
        ("token-x", Some("token-x")),
        ("vip", Some("vip")),
        ("", None),
    ] {
        assert_eq!(group_of_name(name).as_deref(), group, "{name}");
    }
}

#[test]
fn a_mask_is_compared_at_its_ends() {
    for (mask, key, fits) in [
        ("abcd**********wxyz", "sk-abcd12wxyz", true),
        ("sk-abcd\u{2022}\u{2022}\u{2022}wxyz", "abcd12wxyz", true),
        ("abcd****", "abcd12", true),
        ("****wxyz", "12wxyz", true),
        ("sk-***", "anything", false),
        ("abcd****wxyz", "abcdxyz", false),
        ("abcd****wxyz", "other12wxyz", false),
    ] {
        assert_eq!(mask_fits(mask, key), fits, "{mask} {key}");
    }
}

#[test]
fn a_site_adds_no_token_beyond_the_most() {
    let keys = |from: usize| -> Vec<ListedKey> {
        (from..from + 600).map(|number| listed("k", &format!("sk-{number:05}"), None)).collect()
    };
    let mut token_set = token_set(Vec::new());
    assert_eq!(token_set.merge(&keys(0)).created, 600);
    let merged = token_set.merge(&keys(600));
    assert_eq!((merged.created, merged.left_out, token_set.rows.len()), (400, 200, MOST_KEYS));
    // What is known is still brought in line.
    let merged = token_set.merge(&keys(0));
    assert_eq!((merged.created, merged.updated, merged.left_out), (0, 600, 0));
}
