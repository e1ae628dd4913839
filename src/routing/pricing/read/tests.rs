use super::super::{Tokens, bill};
use super::*;
use crate::money::Usd;

/// An answer of new-api to `GET /api/pricing`.
const RATIOS: &str = r#"{"success":true,"data":[
    {"model_name":"gpt-x","quota_type":0,"model_ratio":1.25,"model_price":0,"completion_ratio":4,"cache_ratio":0.25,
     "create_cache_ratio":1.25,"enable_groups":["vip"],"supported_endpoint_types":["openai"],"owner_by":"acme",
     "model_description":" A model. ","tags":"chat,fast"},
    {"model_name":"draw","quota_type":1,"model_price":0.3,"enable_groups":["vip"]}],
    "group_ratio":{"default":1,"vip":1.5},"usable_group":{"vip":"VIP"}}"#;

fn ratios_of(catalog: &Catalog, model: &str) -> Ratios {
    match catalog.price(model).expect(model).billing {
        Billing::PerToken(ratios) => ratios,
        Billing::PerCall(_) => panic!("{model} is charged by call"),
    }
}

#[test]
fn a_list_of_ratios_is_read_with_its_groups() {
    let catalog = ratio_list(RATIOS.as_bytes()).expect("a list");
    let wanted = Ratios { model: 1.25, completion: 4.0, cache_read: 0.25, cache_creation: 1.25 };
    assert_eq!(ratios_of(&catalog, "gpt-x"), wanted);
    let model = catalog.price("GPT-X").expect("case is ignored");
    assert_eq!((model.group_ratio, model.reference_cost), (1.5, Usd::new(9.375)));
    assert_eq!(model.labels.description.as_deref(), Some("A model."));
    assert_eq!(model.labels.tags, ["chat", "fast"]);
    assert_eq!(model.labels.endpoint_types, ["openai"]);
    assert_eq!(model.labels.owner.as_deref(), Some("acme"));
    assert_eq!(bill(catalog.price("draw"), None, Tokens::default()).cost, Usd::new(0.45));
}

#[test]
fn a_bare_array_is_a_list_too() {
    let catalog =
        ratio_list(br#"[{"model_name":"m","modelRatio":"2.5","completionRatio":3,"cacheRatio":0}]"#);
    let wanted = Ratios { model: 2.5, completion: 3.0, cache_read: 0.0, cache_creation: 1.0 };
    assert_eq!(ratios_of(&catalog.expect("a list"), "m"), wanted);
}

#[test]
fn what_makes_no_sense_is_its_default() {
    for entry in [
        r#"{"model_name":"m"}"#,
        r#"{"model_name":" m ","quota_type":0,"model_ratio":0,"completion_ratio":-3,"cache_ratio":-1}"#,
        r#"{"model_name":"m","quota_type":null,"model_ratio":"x","enable_groups":[],"cache_creation_ratio":{}}"#,
    ] {
        let catalog = ratio_list(format!(r#"{{"data":[{entry},7,null,{{"quota_type":1}}]}}"#).as_bytes());
        let catalog = catalog.expect(entry);
        assert_eq!(catalog.models().len(), 1, "{entry}");
        assert_eq!(ratios_of(&catalog, "m"), Ratios::default(), "{entry}");
        assert_eq!(catalog.models()[0].groups, ["default"], "{entry}");
    }
}

#[test]
fn the_group_of_a_model_decides_its_multiplier() {
    for (enabled, groups, multiplier) in [
        (r#"["vip","default"]"#, r#"{"default":2,"vip":3}"#, 2.0),
        (r#"["gone","vip"]"#, r#"{"default":2,"vip":3}"#, 3.0),
        (r#"["gone"]"#, r#"{"zeta":4,"default":2}"#, 4.0),
        (r#"["vip"]"#, r#"{"default":2,"vip":0}"#, 2.0),
        (r#"["gone"]"#, "{}", 1.0),
        (r#"["default"]"#, r#"{"vip":3}"#, 1.0),
        ("[]", r#"{"default":0.5}"#, 0.5),
    ] {
        let body =
            format!(r#"{{"data":[{{"model_name":"m","enable_groups":{enabled}}}],"group_ratio":{groups}}}"#);
        let catalog = ratio_list(body.as_bytes()).expect("a list");
        assert_eq!(catalog.models()[0].group_ratio, multiplier, "{body}");
    }
}

#[test]
fn prices_by_call_are_numbers_or_sides() {
    for (price, usd) in [("0.3", Some(0.3)), (r#"{"input":10,"output":2}"#, Some(0.02)), ("null", None)] {
        let body = format!(r#"[{{"model_name":"m","quota_type":1,"model_price":{price}}}]"#);
        let catalog = ratio_list(body.as_bytes()).expect("a list");
        assert_eq!(catalog.models()[0].per_call(1.0), usd.map(Usd::new), "{body}");
    }
}

#[test]
fn a_hubs_prices_keep_their_height() {
    let models = br#"{"success":true,"message":"","data":{
        "gpt-x":{"groups":["default","vip"],"owned_by":"acme","price":{"model":"gpt-x","type":"tokens",
            "channel_type":1,"input":1.25,"output":5,"input_cache_read":0.125,"input_cache_write":2.5}},
        "free":{"groups":[],"price":{"type":"tokens","input":0,"output":0}},
        "extra":{"groups":["default"],"price":{"type":"tokens","input":2,"output":4,
            "extra_ratios":{"cached_tokens":0.5,"cached_write_tokens":1.25}}},
        "draw":{"groups":["vip"],"price":{"type":"times","input":20,"output":20}},
        "broken":{"groups":["vip"]}}}"#;
    let groups = br#"{"success":true,"data":{"default":{"id":1,"symbol":"default","name":"All","ratio":1},
        "vip":{"id":2,"symbol":"vip","name":"VIP","ratio":1.5}}}"#;
    let catalog = hub_list(models, Some(groups)).expect("a list");
    let wanted = Ratios { model: 1.25, completion: 4.0, cache_read: 0.1, cache_creation: 2.0 };
    assert_eq!(ratios_of(&catalog, "gpt-x"), wanted);
    assert_eq!(ratios_of(&catalog, "free").model, 0.0);
    let extra = ratios_of(&catalog, "extra");
    assert_eq!((extra.cache_read, extra.cache_creation), (0.5, 1.25));
    assert_eq!(bill(catalog.price("draw"), None, Tokens::default()).cost, Usd::new(0.06));
    assert_eq!(catalog.price("broken"), None);
    let usage = Tokens { prompt: 1_000_000, completion: 1_000_000, ..Tokens::default() };
    assert_eq!(bill(catalog.price("gpt-x"), None, usage).cost, Usd::new(12.5));
    assert_eq!(bill(catalog.price("free"), None, usage).cost, Usd::new(0.0));
    assert!(hub_list(models, None).is_ok(), "the groups are not needed");
}

#[test]
fn an_unreadable_price_list_is_refused_with_a_reason() {
    let other_form = "the answer is not a JSON object of a known form";
    let no_list = "the answer has no price list";
    for (body, reason) in [
        ("", other_form),
        ("<!doctype html><title>Relay</title>", other_form),
        ("[{]", "the price list is not valid JSON"),
        ("7", other_form),
        ("{}", no_list),
        (r#"{"data":{"a":1}}"#, no_list),
        (r#"{"data":null,"message":" maintenance "}"#, "maintenance"),
        (r#"{"success":false,"message":"no token"}"#, "no token"),
        (r#"{"data":[7,{}]}"#, "the price list has no entry that can be read"),
    ] {
        assert_eq!(ratio_list(body.as_bytes()).err().as_deref(), Some(reason), "{body}");
    }
    assert_eq!(hub_list(br#"{"data":[1]}"#, None).err().as_deref(), Some(no_list));
    assert!(ratio_list(br#"{"data":[]}"#).is_ok(), "a site may offer nothing");
}

#[test]
fn a_price_beyond_all_reason_is_none() {
    let list = r#"{"data":[{"model_name":"m","model_ratio":1e308,"completion_ratio":"1e300"},
        {"model_name":"call","quota_type":1,"model_price":1e308}],"group_ratio":{"default":1e99}}"#;
    let catalog = ratio_list(list.as_bytes()).expect("a list");
    let usage = Tokens { prompt: 1_000_000, completion: 1_000_000, ..Tokens::default() };
    assert_eq!(bill(catalog.price("m"), None, usage).cost, Usd::new(4.0));
    assert!(bill(catalog.price("call"), None, usage).cost < Usd::new(1e6));
}
