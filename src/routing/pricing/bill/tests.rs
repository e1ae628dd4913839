use super::super::{CallPrice, Catalog, Labels, PriceList};
use super::*;
use crate::money::Usd;

/// Builds a price list whose ratio differs from 1 in every factor of a bill.
fn example() -> Catalog {
    let ratios = Ratios { model: 1.25, completion: 4.0, cache_read: 0.25, cache_creation: 1.25 };
    let vip = || vec!["vip".to_owned()];
    let model = |name: &str, billing| ModelPrice::new(name, billing, vip(), Labels::default());
    Catalog::new(
        vec![
            model("tokens", Billing::PerToken(ratios)),
            model("call", Billing::PerCall(Some(CallPrice::Flat(Usd::new(0.3))))),
            model("units", Billing::PerCall(Some(CallPrice::Sides { input: 10.0, output: 5.0 }))),
            model("unpriced", Billing::PerCall(None)),
        ],
        vec![("default".to_owned(), 1.0), ("vip".to_owned(), 1.5)],
    )
}

const USAGE: Tokens = Tokens {
    prompt: 12_000,
    completion: 800,
    total: 12_800,
    cache_read: 8_000,
    cache_creation: 1_000,
    prompt_includes_cache: Some(true),
};

#[test]
fn the_worked_example_comes_out_part_by_part() {
    let catalog = example();
    let bill = bill(catalog.price("tokens"), None, USAGE);
    let details = bill.details.expect("tokens have a price");
    let Breakdown {
        input_per_million,
        output_per_million,
        cache_read_per_million,
        cache_creation_per_million,
        input_cost,
        output_cost,
        cache_read_cost,
        cache_creation_cost,
        total_cost,
    } = details.breakdown;
    assert_eq!(
        [input_per_million, output_per_million, cache_read_per_million, cache_creation_per_million],
        [Usd::new(3.75), Usd::new(15.0), Usd::new(0.9375), Usd::new(4.6875)]
    );
    assert_eq!(
        [input_cost, output_cost, cache_read_cost, cache_creation_cost],
        [Usd::new(0.01125), Usd::new(0.012), Usd::new(0.0075), Usd::new(0.004688)]
    );
    assert_eq!(details.usage.billable_prompt_tokens, 3_000);
    assert_eq!(details.pricing.group_ratio, 1.5);
    assert_eq!((total_cost, bill.cost), (Usd::new(0.035438), Usd::new(0.035438)));
}

#[test]
fn a_prompt_that_leaves_out_the_cache_is_billed_whole() {
    let catalog = example();
    let apart = Tokens { prompt_includes_cache: Some(false), ..USAGE };
    let details = bill(catalog.price("tokens"), None, apart).details.expect("tokens have a price");
    assert_eq!(details.usage.billable_prompt_tokens, 12_000);
    assert_eq!(
        (details.breakdown.input_cost, details.breakdown.total_cost),
        (Usd::new(0.045), Usd::new(0.069188))
    );
    let unknown = Tokens { prompt_includes_cache: None, ..USAGE };
    assert_eq!(
        bill(catalog.price("tokens"), None, unknown).cost,
        Usd::new(0.035438),
        "unknown counts as included"
    );
}

#[test]
fn calls_cost_the_same_whatever_they_use() {
    let catalog = example();
    for tokens in [Tokens::default(), USAGE] {
        let call = bill(catalog.price("call"), None, tokens);
        assert_eq!(call, Bill { cost: Usd::new(0.45), is_priced: true, details: None });
    }
    assert_eq!(bill(catalog.price("units"), None, USAGE).cost, Usd::new(0.03));
}

#[test]
fn what_has_no_price_costs_the_flat_estimate() {
    let catalog = example();
    let tokens = Tokens { total: 1_500, ..Tokens::default() };
    for price in [None, catalog.price("unpriced")] {
        let unpriced = |cost| Bill { cost: Usd::new(cost), is_priced: false, details: None };
        assert_eq!(bill(price, None, tokens), unpriced(0.003));
        assert_eq!(bill(price, Some(Platform::NewApi), tokens), unpriced(0.003));
        assert_eq!(bill(price, Some(Platform::Veloera), tokens), unpriced(0.0015));
    }
    let sides = Tokens { prompt: 1_000, completion: 500, ..Tokens::default() };
    assert_eq!(bill(None, None, sides).cost, Usd::new(0.003), "the total covers both sides");
}

#[test]
fn a_total_alone_is_billed_as_prompt() {
    let catalog = example();
    let tokens = Tokens { total: 1_000_000, ..Tokens::default() };
    assert_eq!(bill(catalog.price("tokens"), None, tokens).cost, Usd::new(3.75));
}

#[test]
fn more_cache_than_prompt_leaves_nothing_to_bill() {
    let tokens = Tokens { prompt: 10, cache_read: 20, ..Tokens::default() };
    assert_eq!(itemised(&Ratios::default(), 1.0, tokens).usage.billable_prompt_tokens, 0);
}

#[test]
fn the_reference_cost_is_that_of_a_million_tokens_half_each_way() {
    let list = PriceList::default();
    assert_eq!(list.reference_cost("tokens"), None);
    list.replace(example().into());
    assert_eq!(list.reference_cost("tokens"), Some(Usd::new(9.375)));
    assert_eq!(list.reference_cost("TOKENS"), Some(Usd::new(9.375)));
    assert_eq!(list.reference_cost("call"), Some(Usd::new(0.45)));
    assert_eq!(list.reference_cost("unpriced"), None);
    assert_eq!(list.reference_cost("elsewhere"), None);
}

#[test]
fn amounts_are_rounded_half_up_to_millionths() {
    for (usd, rounded) in [(0.004_687_5, 0.004688), (0.000_000_4, 0.0), (-1.0, 0.0), (2.0, 2.0)] {
        assert_eq!(Usd::new(usd).price(), Usd::new(rounded));
    }
}

#[test]
fn the_details_are_written_as_the_log_shows_them() {
    let catalog = example();
    let details = bill(catalog.price("tokens"), None, USAGE).details.expect("tokens have a price");
    let shown = serde_json::to_value(&details).expect("plain data");
    assert_eq!(
        shown,
        serde_json::json!({
            "quotaType": 0,
            "usage": {"promptTokens": 12000, "completionTokens": 800, "totalTokens": 12800,
                "cacheReadTokens": 8000, "cacheCreationTokens": 1000, "billablePromptTokens": 3000,
                "promptTokensIncludeCache": true},
            "pricing": {"modelRatio": 1.25, "completionRatio": 4.0, "cacheRatio": 0.25,
                "cacheCreationRatio": 1.25, "groupRatio": 1.5},
            "breakdown": {"inputPerMillion": 3.75, "outputPerMillion": 15, "cacheReadPerMillion": 0.9375,
                "cacheCreationPerMillion": 4.6875, "inputCost": 0.01125, "outputCost": 0.012,
                "cacheReadCost": 0.0075, "cacheCreationCost": 0.004688, "totalCost": 0.035438}
        })
    );
}
