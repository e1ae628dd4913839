//! Arbitrary JSON for the property tests of the dialects.

use proptest::prelude::*;
use serde_json::Value;

/// Generates any JSON value whose keys, and some of whose strings, are among `words`: a dialect's own words lead an
/// input further into its readers than random text would.
pub fn any_json(words: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let word = prop::sample::select(words);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..6).prop_map(|members| {
                Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}
