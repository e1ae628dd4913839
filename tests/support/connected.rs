//! Creates accounts as a browser login leaves them in the database.

use serde_json::json;

use super::{Gateway, Home, Literal, Setup, Upstream};

/// The access token of every login here.
pub const ACCESS_TOKEN: &str = "access-token-of-the-login-51c0";

/// An account at a site of its own.
pub struct Login<'a> {
    /// The name of the site.
    pub name: &'a str,
    /// The provider's platform; both have the same name.
    pub platform: &'a str,
    pub upstream: &'a Upstream,
    /// The account's identifier at the provider.
    pub account_key: Option<&'a str>,
    pub project: Option<&'a str>,
}

impl<'a> Login<'a> {
    pub fn new(platform: &'a str, upstream: &'a Upstream) -> Self {
        Self { name: platform, platform, upstream, account_key: None, project: None }
    }

    pub fn named(self, name: &'a str) -> Self {
        Self { name, ..self }
    }

    pub fn with_key(self, key: &'a str) -> Self {
        Self { account_key: Some(key), ..self }
    }

    pub fn with_project(self, project: &'a str) -> Self {
        Self { project: Some(project), ..self }
    }
}

impl Gateway {
    /// Starts a gateway with these logins, each of which serves the model. The first one is always asked first.
    #[track_caller]
    pub fn with_logins(setup: Setup, model: &str, logins: &[Login<'_>]) -> Self {
        let home = Home::new();
        let mut gateway = setup.clone().start_in(home.clone());
        let mut made = Vec::new();
        for login in logins {
            let site = gateway.create_site(
                &json!({"name": login.name, "platform": login.platform, "url": login.upstream.url()}),
            );
            let account = json!({"siteId": site["id"], "accessToken": "sk-before-the-login",
                "credentialMode": "apikey", "skipModelFetch": true});
            let account = gateway.admin().post("/api/accounts", &account).expect(200);
            let models = format!("/api/accounts/{}/models/manual", account["id"]);
            gateway.admin().post(&models, &json!({"models": [model]})).expect(200);
            made.push(account["id"].as_i64().expect("an id"));
        }
        gateway.wait_for_channels(model, logins.len());
        if let [first, _, ..] = logins {
            gateway.make_first_choice(model, first.name);
        }
        gateway.signal("TERM");
        gateway.wait_for_exit();
        let database = home.database();
        for (login, id) in logins.iter().zip(made) {
            let update = "UPDATE accounts SET oauth_provider = ?, access_token = ?, api_token = NULL, \
                          oauth_account_key = ?, oauth_project_id = ?, credential_mode = 'session' WHERE id = ?";
            let values: [&dyn Literal; 5] =
                [&login.platform, &ACCESS_TOKEN, &login.account_key, &login.project, &id];
            assert_eq!(database.execute(update, &values), 1, "the account is there");
        }
        setup.start_in(home)
    }
}
