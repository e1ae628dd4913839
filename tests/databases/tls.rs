//! TLS to a server, and what is refused when TLS is requested: on servers with the tests' certificate, which
//! `tests/databases/run` starts.

use std::sync::Arc;

use crate::support::certificates::AUTHORITY;
use crate::support::{self, DatabaseRelay, Home, Setup};

/// A certificate authority that has signed nothing.
const OTHER_AUTHORITY: &str = "-----BEGIN CERTIFICATE-----
MIIBqDCCAU+gAwIBAgIUGw4at/jA3DKhzraxiW87gV1TZ50wCgYIKoZIzj0EAwIw
ITEfMB0GA1UEAwwWQW5vdGhlciB0ZXN0IGF1dGhvcml0eTAgFw0yNjExMjMxODI3
MjBaGA8yMTAwMTAyNjE4MjcyMFowITEfMB0GA1UEAwwWQW5vdGhlciB0ZXN0IGF1
dGhvcml0eTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABLE2Pn2Ez4MhwUC5HLDD
L8nk1lb2sFQ/l4MAvC7XmnVZRH6692qKVUKWWHIGU0wfKciWFistwR3uc+XnBNoa
xaijYzBhMB0GA1UdDgQWBBSvtqXY36LRWKIbmTWNpt7m4qzb2TAfBgNVHSMEGDAW
gBSvtqXY36LRWKIbmTWNpt7m4qzb2TAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB
/wQEAwICBDAKBggqhkjOPQQDAgNHADBEAiBNeVCXJeiXYMZYbMo1w0g1TIJKo6Qz
jPKlSWracswgfAIgcdFBfIixe06URNVL9Q3IBVqhKaFFDiknxbu/fXDzc/s=
-----END CERTIFICATE-----
";

/// Returns `None` if the server does not support TLS.
fn home() -> Option<Arc<Home>> {
    let has_tls = std::env::var("SWITCHYARD_TEST_DATABASE_TLS").is_ok_and(|value| value == "true");
    let home = Home::new();
    std::fs::write(home.path().join("ca.pem"), AUTHORITY).expect("a file");
    std::fs::write(home.path().join("other.pem"), OTHER_AUTHORITY).expect("a file");
    (has_tls && support::is_on_server()).then_some(home)
}

fn asking(home: &Home, authority: &str) -> Setup {
    let file = home.path().join(authority);
    Setup::default().with("DB_SSL", "true").with("DB_SSL_CA", file.to_str().expect("a path"))
}

/// Runs a start that fails, and returns its error output.
fn refused(setup: Setup, home: &Home) -> String {
    let said = support::run(&setup.with("PORT", "4999"), home, &["serve"]);
    assert!(!said.status.success());
    said.stderr
}

#[test]
fn a_server_whose_certificate_the_given_authority_signed_is_used() {
    let Some(home) = home() else { return };
    let setup = asking(&home, "ca.pem");
    let gateway = setup.clone().start_in(home.clone());
    let told = gateway.admin().get("/api/settings/database/runtime").json();
    assert_eq!(told["active"]["ssl"], true);
    drop(gateway);
    // The address may request TLS as well, with other programs' parameters.
    let url = format!("{}?sslmode=verify-full", home.server().expect("a server").url());
    let gateway = setup.without("DB_SSL").with("DB_URL", &url).start_in(home.clone());
    assert_eq!(gateway.admin().get("/api/sites").status, 200);
}

#[test]
fn a_certificate_of_another_authority_is_refused_at_once_and_taken_when_told_so() {
    let Some(home) = home() else { return };
    let said = refused(asking(&home, "other.pem"), &home);
    assert!(said.contains("certificate of the server is not accepted"), "{said}");
    assert!(said.contains("DB_SSL_CA") && said.contains("DB_SSL_INSECURE"), "{said}");
    let without_ca = asking(&home, "ca.pem").without("DB_SSL_CA");
    let said = refused(without_ca.clone(), &home);
    assert!(said.contains("certificate of the server is not accepted"), "{said}");
    let gateway = without_ca.with("DB_SSL_INSECURE", "true").start_in(home);
    assert!(gateway.output().contains("DB_SSL_INSECURE"), "{}", gateway.output());
    assert_eq!(gateway.admin().get("/api/sites").status, 200);
}

#[test]
fn a_file_without_a_certificate_is_refused_and_named() {
    let Some(home) = home() else { return };
    std::fs::write(home.path().join("empty.pem"), "nothing").expect("a file");
    let said = refused(asking(&home, "empty.pem"), &home);
    assert!(said.contains("DB_SSL_CA") && said.contains("empty.pem"), "{said}");
    let said = refused(asking(&home, "missing.pem"), &home);
    assert!(said.contains("missing.pem"), "{said}");
}

#[test]
fn a_server_without_tls_is_refused_when_it_is_asked_for() {
    let Some(home) = home() else { return };
    let server = home.server().expect("a server");
    let relay = DatabaseRelay::to(server.place());
    relay.hide_tls();
    let url = relay.instead_of(&server.url());
    let said = refused(asking(&home, "ca.pem").with("DB_URL", &url), &home);
    assert!(said.contains("the server does not support TLS"), "{said}");
}
