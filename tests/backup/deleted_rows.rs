//! What an import does about rows that are deleted here: their numbers, and the log of what they were used for.

use serde_json::{Value, json};

use super::{export, import, rows, small};
use crate::support::{Gateway, Setup, Upstream, eventually};

/// Sends a request through a site with an upstream of its own; returns the site's id.
fn use_site(gateway: &Gateway, name: &str, upstream: &Upstream, token: &str) -> i64 {
    let site = json!({"name": name, "url": upstream.url(), "platform": "openai"});
    let id = gateway.create_site(&site)["id"].as_i64().expect("an id");
    let account = json!({"siteId": id, "credentialMode": "apikey", "accessToken": "sk-of-the-site"});
    gateway.admin().post("/api/accounts", &account).expect(200);
    let body = json!({"model": "model-late", "messages": [{"role": "user", "content": "hi"}]});
    eventually("the model is served", || {
        let answer = gateway.with_token(token).post("/v1/chat/completions", &body);
        (answer.status == 200).then_some(())
    });
    id
}

fn site_names(gateway: &Gateway) -> Vec<Value> {
    gateway.logs().iter().map(|row| row["siteName"].clone()).collect()
}

#[test]
fn an_imported_row_takes_the_number_of_a_deleted_one_only_if_it_is_that_row() {
    let upstream = Upstream::start(&["model-late"]);
    let gateway = Gateway::start();
    let key = "sk-downstream-key-1";
    gateway.add_key(&json!({"name": "k", "key": key, "supportedModels": ["*"]}));
    let id = use_site(&gateway, "late", &upstream, key);
    gateway.wait_for_logs(1);
    let own = export(&gateway);
    gateway.admin().delete(&format!("/api/sites/{id}")).expect(200);
    let mut foreign = small();
    foreign["accounts"]["sites"][0]["id"] = json!(id);
    foreign["accounts"]["accounts"][0]["siteId"] = json!(id);
    foreign["accounts"]["accounts"][0]["id"] = rows(&own, "accounts")[0]["id"].clone();
    foreign["accounts"]["routeChannels"][0]["accountId"] = rows(&own, "accounts")[0]["id"].clone();
    import(&gateway, &foreign);
    let document = export(&gateway);
    assert!(rows(&document, "sites")[0]["id"].as_i64() > Some(id), "{document}");
    assert!(rows(&document, "accounts")[0]["id"].as_i64() > rows(&own, "accounts")[0]["id"].as_i64());
    assert_eq!(site_names(&gateway), [Value::Null]);
    import(&gateway, &own);
    assert_eq!(rows(&export(&gateway), "sites"), rows(&own, "sites"));
    assert_eq!(site_names(&gateway), ["late"]);
}

#[test]
fn the_sums_of_the_log_forget_a_site_and_a_key_that_an_import_deletes() {
    let upstream = Upstream::start(&["model-late"]);
    let gateway = Gateway::start();
    let document = export(&gateway);
    let key = "sk-downstream-key-1";
    gateway.add_key(&json!({"name": "late", "key": key, "supportedModels": ["*"]}));
    let id = use_site(&gateway, "late", &upstream, key);
    gateway.wait_for_logs(1);
    let home = gateway.home().clone();
    drop(gateway);
    home.database().run("UPDATE proxy_logs SET created_at = created_at - 14 * 3600000");
    let gateway = Setup::default().start_in(home.clone());
    eventually("they are summed", || {
        (home.database().number("SELECT COUNT(*) FROM proxy_log_sums") > 0).then_some(())
    });
    let page = |filter: &str| gateway.admin().get(&format!("/api/stats/proxy-logs?{filter}")).expect(200);
    let site = format!("siteId={id}");
    assert_eq!(page(&site)["total"], 1);
    import(&gateway, &document);
    let of_site = page(&site);
    assert_eq!((&of_site["total"], &of_site["items"]), (&json!(0), &json!([])), "{of_site}");
    assert_eq!(page("")["total"], 1);
    let database = home.database();
    let named =
        "SELECT COUNT(*) FROM proxy_log_sums WHERE site_id IS NOT NULL OR downstream_api_key_id IS NOT NULL";
    assert_eq!(database.number(named), 0);
    assert_eq!(database.number("SELECT COUNT(*) FROM proxy_log_key_quarters"), 0);
}
