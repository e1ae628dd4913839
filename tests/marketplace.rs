//! The marketplace: which models are available, from which sites, and at what price.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Gate, Gateway, Reply, Upstream, eventually};

fn prices() -> Value {
    json!({"success": true, "data": [
        {"model_name": "gpt-x", "quota_type": 0, "model_ratio": 1.25, "completion_ratio": 4,
         "enable_groups": ["default", "vip"], "supported_endpoint_types": ["openai"], "owner_by": "acme",
         "tags": "chat,fast", "model_description": "A model."},
        {"model_name": "draw", "quota_type": 1, "model_price": 0.3, "enable_groups": ["vip"]}],
        "group_ratio": {"default": 1, "vip": 1.5}})
}

/// Starts a gateway with two sites: one publishes its prices, the other has no price list.
fn world() -> (Gateway, Upstream, Upstream) {
    // A failure in one dialect must remain a single failure.
    let gateway = Gateway::with(&[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]);
    let priced = Upstream::start(&["gpt-x", "draw"]);
    priced.answer("/api/pricing", Reply::json(200, &prices()));
    gateway.add_as(&json!({"name": "priced", "platform": "new-api"}), &priced);
    gateway.wait_for_output("prices of 2 models");
    let plain = Upstream::start(&["gpt-x"]);
    gateway.add("plain", &plain);
    (gateway, priced, plain)
}

#[track_caller]
fn market(gateway: &Gateway, query: &str) -> Value {
    gateway.admin().get(&format!("/api/models/marketplace{query}")).expect(200)
}

#[test]
fn models_are_listed_with_who_offers_them_most_offered_first() {
    let (gateway, _priced, _plain) = world();
    let shown = market(&gateway, "");
    let models = shown["models"].as_array().expect("models");
    let names: Vec<_> = models.iter().map(|model| model["name"].as_str()).collect();
    assert_eq!(names, [Some("gpt-x"), Some("draw")]);
    let model = &models[0];
    assert_eq!((&model["accountCount"], &model["tokenCount"]), (&json!(2), &json!(0)));
    assert_eq!(model["successRate"], Value::Null, "nobody has asked yet");
    let sites: Vec<_> = model["accounts"].as_array().expect("accounts").iter().map(|a| &a["site"]).collect();
    assert_eq!(sites, ["priced", "plain"]);
    assert_eq!(model["accounts"][0]["tokens"], json!([]));
    assert_eq!((&model["pricingSources"], &model["tags"]), (&json!([]), &json!([])), "only when asked for");
    let meta = &shown["meta"];
    assert_eq!(meta.get("refreshJobId"), Some(&Value::Null));
    assert_eq!((&meta["includePricing"], &meta["refreshRequested"]), (&json!(false), &json!(false)));
    assert_eq!(market(&gateway, "")["meta"]["cacheHit"], true);
}

#[test]
fn prices_of_a_new_account_are_waited_for_and_shown_where_the_list_was_made_without_them() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&["gpt-x", "draw"]);
    upstream.answer("/api/pricing", Reply::json(200, &prices()).after(Duration::from_millis(500)));
    gateway.add_as(&json!({"name": "priced", "platform": "new-api"}), &upstream);
    let priced = |shown: &Value| shown["models"][0]["pricingSources"].as_array().map(Vec::len);
    assert_eq!(priced(&market(&gateway, "?includePricing=1")), Some(1));
    let (other, gate) = (Upstream::start(&["gpt-x"]), Gate::new());
    other.answer("/api/pricing", Reply::json(200, &prices()).head_waits_for(&gate));
    gateway.add_as(&json!({"name": "late", "platform": "new-api"}), &other);
    assert_eq!(priced(&market(&gateway, "?includePricing=1")), Some(1), "no page waits for long");
    gate.open();
    eventually("the late prices are shown", || {
        (priced(&market(&gateway, "?includePricing=1")) == Some(2)).then_some(())
    });
}

#[test]
fn prices_are_shown_by_group_where_a_site_tells_them() {
    let (gateway, _priced, _plain) = world();
    let shown = market(&gateway, "?includePricing=1");
    let model = &shown["models"][0];
    assert_eq!(model["description"], "A model.");
    assert_eq!(model["tags"], json!(["chat", "fast"]));
    assert_eq!(model["supportedEndpointTypes"], json!(["openai"]));
    let sources = model["pricingSources"].as_array().expect("sources");
    assert_eq!(sources.len(), 1, "the other site tells nothing");
    assert_eq!((&sources[0]["siteName"], &sources[0]["ownerBy"]), (&json!("priced"), &json!("acme")));
    assert_eq!(
        sources[0]["groupPricing"],
        json!({"default": {"quotaType": 0, "inputPerMillion": 2.5, "outputPerMillion": 10},
            "vip": {"quotaType": 0, "inputPerMillion": 3.75, "outputPerMillion": 15}})
    );
    let call = &shown["models"][1]["pricingSources"][0]["groupPricing"];
    assert_eq!(*call, json!({"vip": {"quotaType": 1, "perCallTotal": 0.45}}));
}

#[test]
fn the_success_rate_is_that_of_the_last_days() {
    let (gateway, priced, plain) = world();
    for upstream in [&priced, &plain] {
        upstream.answer_model("/v1/chat/completions", "draw", Reply::error(500, "boom"));
    }
    gateway.client().chat("gpt-x").expect(200);
    gateway.client().chat("draw");
    gateway.wait_for_logs(2);
    let shown = market(&gateway, "");
    let rates: Vec<_> = (0..2).map(|index| &shown["models"][index]["successRate"]).collect();
    assert_eq!(rates, [&json!(100), &json!(0)]);
}

#[test]
fn a_refresh_asks_the_sites_again_as_a_task() {
    let (gateway, priced, _plain) = world();
    market(&gateway, "");
    priced.offer(&["gpt-x", "draw", "new"]);
    let meta = market(&gateway, "?refresh=1")["meta"].clone();
    assert_eq!((&meta["refreshRequested"], &meta["refreshRunning"]), (&json!(true), &json!(true)));
    assert_ne!(meta["refreshQueued"], meta["refreshReused"]);
    gateway.wait_for_task(&json!({"jobId": meta["refreshJobId"]}));
    let shown = market(&gateway, "");
    let models = shown["models"].as_array().expect("models");
    assert!(models.iter().any(|model| model["name"] == "new"), "what was found is shown at once: {shown}");
}

#[test]
fn accounts_of_a_switched_off_site_offer_nothing() {
    let (gateway, _priced, _plain) = world();
    let sites = gateway.admin().get("/api/sites").expect(200);
    let site =
        sites.as_array().expect("sites").iter().find(|site| site["name"] == "priced").expect("it").clone();
    gateway.admin().put(&format!("/api/sites/{}", site["id"]), &json!({"status": "disabled"})).expect(200);
    let shown = market(&gateway, "");
    assert_eq!(shown["models"].as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(shown["models"][0]["accounts"][0]["site"], "plain");
}

#[test]
fn token_candidates_have_four_parts_and_leave_key_accounts_out_of_the_hints() {
    let (gateway, _priced, _plain) = world();
    market(&gateway, "?includePricing=1");
    let shown = gateway.admin().get("/api/models/token-candidates").expect(200);
    assert_eq!(
        shown,
        json!({"models": {}, "modelsWithoutToken": {}, "modelsMissingTokenGroups": {},
            "endpointTypesByModel": {"gpt-x": ["openai"]}})
    );
}
