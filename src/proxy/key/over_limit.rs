//! The message for a client whose key has reached a limit: which one, its bound, and when the key can be used again.

use crate::keys::{OverLimit, Reached};
use crate::limits::RetryAfterSeconds;
use crate::time::{Millis, iso};

/// The wait for a limit that never resets, in seconds, so that an obedient client does not keep asking.
const A_DAY_SECS: u64 = 86_400;

/// The text, code and wait of a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::proxy) struct OverLimitWords {
    pub(in crate::proxy) code: &'static str,
    pub(in crate::proxy) message: String,
    pub(in crate::proxy) retry_after_secs: u64,
}

/// Builds the refusal for a key that has reached this limit.
pub(in crate::proxy) fn refused_by(limit: OverLimit, now: Millis) -> OverLimitWords {
    match limit {
        OverLimit::Concurrency(most) => OverLimitWords {
            code: "key_over_concurrency",
            message: format!(
                "This API key is at its limit maxConcurrency: {most} requests at once; it resets when one of them ends"
            ),
            retry_after_secs: 1,
        },
        OverLimit::RequestsPerMinute(most, wait) => {
            let limit = format!("requestsPerMinute: {most} requests in a minute");
            of_minute("key_over_requests_per_minute", &limit, wait, now)
        }
        OverLimit::TokensPerMinute(most, wait) => {
            let limit = format!("tokensPerMinute: {most} tokens in a minute");
            of_minute("key_over_tokens_per_minute", &limit, wait, now)
        }
        OverLimit::Budget { period, reached, end } => {
            let bound = match reached {
                Reached::Cost(most) => format!("maxCost of {most} USD"),
                Reached::Requests(most) => format!("maxRequests of {most}"),
                Reached::Tokens(most) => format!("maxTokens of {most}"),
            };
            let (resets, retry_after_secs) = match end {
                Millis::MAX => ("it does not reset".to_owned(), A_DAY_SECS),
                end => (format!("it resets at {}", iso(end)), seconds_until(end, now)),
            };
            OverLimitWords {
                code: "key_over_budget",
                message: format!("This API key has used up its {period} budget, {bound}; {resets}"),
                retry_after_secs,
            }
        }
    }
}

fn of_minute(code: &'static str, limit: &str, wait: RetryAfterSeconds, now: Millis) -> OverLimitWords {
    let end = now.saturating_add(i64::try_from(wait.0).unwrap_or(0) * 1000);
    let message = format!("This API key has reached its limit {limit}; it resets at {}", iso(end));
    OverLimitWords { code, message, retry_after_secs: wait.0 }
}

fn seconds_until(end: Millis, now: Millis) -> u64 {
    u64::try_from(end.saturating_sub(now)).unwrap_or(0).div_ceil(1000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::Usd;

    #[test]
    fn a_refusal_names_the_limit_its_bound_and_when_it_resets() {
        let now = 1_777_622_400_000;
        let budget = |reached, end| OverLimit::Budget { period: "day", reached, end };
        for (limit, words, wait) in [
            (OverLimit::Concurrency(2), ["maxConcurrency", "2 requests", "when one of them ends"], 1),
            (
                OverLimit::RequestsPerMinute(3, RetryAfterSeconds(42)),
                ["requestsPerMinute", "3 requests", "2026-05-01T08:00:42.000Z"],
                42,
            ),
            (
                OverLimit::TokensPerMinute(500, RetryAfterSeconds(60)),
                ["tokensPerMinute", "500 tokens", "2026-05-01T08:01:00.000Z"],
                60,
            ),
            (
                budget(Reached::Cost(Usd::new(0.5)), now + 1),
                ["day budget", "0.5 USD", "2026-05-01T08:00:00.001Z"],
                1,
            ),
            (budget(Reached::Requests(10), now + 1_001), ["maxRequests", "10", "resets at"], 2),
            (budget(Reached::Tokens(7), Millis::MAX), ["maxTokens", "7", "does not reset"], 86_400),
        ] {
            let told = refused_by(limit, now);
            assert_eq!(told.retry_after_secs, wait, "{told:?}");
            for word in words {
                assert!(told.message.contains(word), "{word}: {told:?}");
            }
        }
    }
}
