//! Masking of an address for display.

/// Returns an address with `***` for its password, and without anything after a `?`, which may contain one too.
pub(in crate::store) fn masked(url: &str) -> String {
    let without_query = |text: &str| text.split('?').next().unwrap_or(text).to_owned();
    let Some((scheme, rest)) = url.split_once("://") else { return without_query(url) };
    // A password may contain an unencoded @ or ?: the last @ ends it.
    let Some((credentials, place)) = rest.rsplit_once('@') else { return without_query(url) };
    let place = without_query(place);
    match credentials.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:***@{place}"),
        None => format!("{scheme}://{credentials}@{place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (url, shown) in [
            ("postgres://me:secret@db:5432/sw", "postgres://me:***@db:5432/sw"),
            ("postgres://me:se@cret/x@db/sw?password=again", "postgres://me:***@db/sw"),
            ("postgres://me:se?cr@et@db/sw?user=you", "postgres://me:***@db/sw"),
            ("mysql://me@db/sw", "mysql://me@db/sw"),
            ("mysql://db/sw?password=secret", "mysql://db/sw"),
            ("mysql://db/sw", "mysql://db/sw"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
