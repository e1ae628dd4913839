//! The units in which hubs of the one-api family count quota, where a text shows them in place of money.

/// The units of a dollar, unless an operator of the site has changed it (`quota_per_unit`).
pub const PER_USD: f64 = 500_000.0;

/// The least whole number that is taken for units where a text says only "quota": so many dollars are never given.
const LEAST: f64 = 1000.0;

/// Returns whether a number in a text, in lower case, counts units: `12500 点额度`, as new-api writes it, or a large whole
/// number of quota without a sign of money.
pub fn are_meant(number: f64, before: &str, after: &str) -> bool {
    const QUOTA: [&str; 2] = ["额度", "quota"];
    const MONEY: [&str; 5] = ["$", "＄", "¥", "￥", "usd"];
    let is_joint = |c: char| c.is_whitespace() || [':', '：', '+', '='].contains(&c);
    let (before, after) = (before.trim_end_matches(is_joint), after.trim_start());
    let is_quota = || QUOTA.iter().any(|word| after.starts_with(word) || before.ends_with(word));
    let is_money = || MONEY.iter().any(|sign| before.ends_with(sign) || after.starts_with(sign));
    after.starts_with("点额度") || number >= LEAST && number.fract() == 0.0 && is_quota() && !is_money()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_whole_number_of_quota_counts_units() {
        for (number, before, after, expected) in [
            (12_500.0, "获得 ", " 点额度", true),
            (500.0, "", "点额度", true),
            (500_000.0, "获得 ", " 额度", true),
            (20_000.0, "quota: ", "", true),
            (500.0, "获得 ", " 额度", false),
            (1000.5, "获得 ", " 额度", false),
            (1000.0, "获得 ＄", " 额度", false),
            (1000.0, "", " usd quota", false),
            (500_000.0, "奖励 ", " 元", false),
        ] {
            assert_eq!(are_meant(number, before, after), expected, "{before}{number}{after}");
        }
    }
}
