//! Tests of the change that an update computes, without a store.

use super::*;
use crate::admin::accounts::view::sample;
use serde_json::json;

fn changed(body: Value, before: &AccountRow) -> Result<Change> {
    let fields =
        Fields::of(&crate::admin::accounts::schema::UPDATE, body.as_object().cloned().expect("an object"));
    change(UpdateInput::read(&fields)?, before, Some(Platform::OpenAi))
}

fn patched(body: Value, before: &AccountRow) -> AccountPatch {
    changed(body, before).unwrap_or_else(|error| panic!("{}", error.message())).patch
}

fn exposed(secret: &Option<Option<Secret>>) -> Option<Option<&str>> {
    secret.as_ref().map(|secret| secret.as_ref().map(Secret::expose))
}

#[test]
fn an_echoed_mask_changes_no_secret() {
    let before = sample();
    let masked = secrets::mask("sk-abcdefghij");
    let body = json!({"apiToken": masked, "accessToken": "", "proxyUrl": "http://u:****@p.example"});
    let patch = patched(body, &before);
    assert_eq!(exposed(&patch.api_token), None);
    assert_eq!(exposed(&patch.access_token), None);
    assert_eq!(exposed(&patch.proxy_url), None);
    assert!(changed(json!({"apiToken": "sk-x****nope"}), &before).is_err());
}

#[test]
fn a_key_account_takes_its_new_key_from_either_field() {
    let before = sample();
    assert_eq!(exposed(&patched(json!({"apiToken": " sk-new "}), &before).api_token), Some(Some("sk-new")));
    let patch = patched(json!({"accessToken": "sk-new"}), &before);
    assert_eq!((exposed(&patch.api_token), exposed(&patch.access_token)), (Some(Some("sk-new")), None));
    assert_eq!(exposed(&patched(json!({"apiToken": null}), &before).api_token), Some(None));
}

#[test]
fn an_expired_key_account_stays_expired_whatever_is_sent() {
    let before = AccountRow { status: AccountStatus::Expired, ..sample() };
    for (body, status, may_recover) in [
        (json!({"status": "active"}), None, true),
        (json!({"apiToken": "sk-new", "status": "active"}), None, true),
        (json!({"status": "disabled"}), Some(AccountStatus::Disabled), false),
    ] {
        let change = changed(body.clone(), &before).expect("accepted");
        assert_eq!((change.patch.status, change.may_recover), (status, may_recover), "{body}");
    }
    let change = changed(json!({"status": "disabled"}), &sample()).expect("accepted");
    assert!(change.moves_status && !change.may_recover);
}

#[test]
fn extra_config_is_merged_and_takes_no_secret() {
    let before = AccountRow { extra: Some(r#"{"keep":1,"drop":2}"#.into()), ..sample() };
    let sent = json!({
        "drop": null, "note": "n", "platformUserId": 7, "useSystemProxy": true, "runtimeHealth": {"state": "healthy"},
        "autoRelogin": {"password": "x"}, "oauth": {"email": "e", "refreshToken": "secret", "access_token": "secret"},
        "cookie": "secret",
    });
    let patch = patched(json!({ "extraConfig": sent }), &before);
    let extra = parse_extra(patch.extra.flatten().as_deref());
    assert_eq!(Value::Object(extra), json!({"keep": 1, "note": "n", "oauth": {"email": "e"}}));
    assert_eq!((patch.platform_user_id, patch.use_system_proxy), (Some(Some(7)), Some(true)));

    let cleared = patched(json!({"extraConfig": null}), &before);
    assert_eq!((cleared.extra, cleared.platform_user_id), (Some(None), Some(None)));
    for (body, named) in [
        (json!({"credentialMode": "magic"}), "extraConfig.credentialMode"),
        (json!({"platformUserId": "7"}), "extraConfig.platformUserId"),
        (json!({"useSystemProxy": 1}), "extraConfig.useSystemProxy"),
        (json!({"proxyUrl": "ftp://x"}), "proxyUrl"),
    ] {
        let error = changed(json!({ "extraConfig": body }), &before).err().expect("refused");
        assert!(error.message().contains(named), "{}", error.message());
    }
}

#[test]
fn the_key_of_a_session_account_becomes_its_default_token() {
    let before = AccountRow {
        credential_mode: CredentialMode::Session,
        access_token: Some(Secret::from("session")),
        ..sample()
    };
    let change = changed(json!({"apiToken": "sk-new"}), &before).expect("accepted");
    assert_eq!(change.adopts.as_ref().map(Secret::expose), Some("sk-new"));
    assert_eq!(exposed(&change.patch.api_token), None);
    let change = changed(json!({"apiToken": null}), &before).expect("accepted");
    assert!(change.adopts.is_none() && change.patch.api_token.is_none());
}

#[test]
fn a_key_account_does_not_become_a_session() {
    let error = changed(json!({"extraConfig": {"credentialMode": "session"}}), &sample()).err();
    assert_eq!(error.map(|error| error.status().as_u16()), Some(400));
}
