//! Classifies what upstreams say about the token of a connected account that has run out. The phrases come from
//! refusals of ChatGPT's backend, Anthropic's API and Google's.

use super::has;

/// Words of which a refusal has one if it is about the token; a refusal about a plan or a region has none.
const OF_TOKEN: [&str; 6] =
    ["invalid_token", "expired", "invalid", "unauthorized", "account mismatch", "authentication"];

/// Returns whether a refusal, in lower case, may be about the token.
pub fn may_be_about_token(text: &str) -> bool {
    has(text, &OF_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_lacks_something_says_nothing_of_the_token() {
        for (text, expected) in [
            (
                r#"{"error":{"code":"token_expired","message":"provided authentication token is expired"}}"#,
                true,
            ),
            (r#"bearer error="invalid_token""#, true),
            (r#"{"detail":"account mismatch"}"#, true),
            (r#"{"error":{"message":"the model is not included in your plan"}}"#, false),
            (r#"{"error":{"code":"unsupported_country_region_territory"}}"#, false),
        ] {
            assert_eq!(may_be_about_token(text), expected, "{text}");
        }
    }
}
