//! The console's files as they are served. The page's behaviour is tested in a browser (`make test-console`).

use crate::support::{Answer, Gateway, Request};

fn get(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> Answer {
    let request =
        headers.iter().fold(Request::new("GET", path), |request, (name, value)| request.header(name, value));
    gateway.anyone().send(request)
}

/// Returns the addresses that the page names.
fn files_of(page: &str) -> Vec<String> {
    let places = page.match_indices("\"/console/");
    places.map(|(at, _)| page[at + 1..].split('"').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_page_and_its_files_are_served_under_a_policy_that_lets_nothing_else_in() {
    let gateway = Gateway::start();
    for path in ["/", "/sites", "/routes", "/log?status=failed", "/keys", "/playground", "/settings"] {
        let page = get(&gateway, path, &[]);
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        let policy = page.header("content-security-policy").unwrap_or_default();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("x-frame-options"), Some("DENY"), "{path}");
        assert_eq!(page.header("cache-control"), Some("no-cache"), "{path}");
        assert!(page.text().contains("<script type=\"module\" src=\"/console/"), "{path}");
    }
    let page = get(&gateway, "/", &[]).text();
    let files = files_of(&page);
    assert!(files.len() > 4, "{page}");
    for file in files {
        let answer = get(&gateway, &file, &[]);
        assert_eq!(answer.status, 200, "{file}");
        assert_eq!(answer.header("cache-control"), Some("public, max-age=31536000, immutable"), "{file}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{file}");
    }
}

#[test]
fn a_page_that_is_known_is_not_sent_again_and_a_browser_gets_it_compressed() {
    let gateway = Gateway::start();
    let page = get(&gateway, "/", &[]);
    let tag = page.header("etag").expect("a tag").to_owned();
    let known = get(&gateway, "/", &[("if-none-match", &tag)]);
    assert_eq!((known.status, known.text().as_str()), (304, ""));
    for (accepted, coding) in [
        ("gzip, deflate, br, zstd", Some("br")),
        ("gzip, deflate", Some("gzip")),
        ("br;q=0, gzip", Some("gzip")),
        ("gzip;q=0", None),
    ] {
        let answer = get(&gateway, "/", &[("accept-encoding", accepted)]);
        assert_eq!(answer.header("content-encoding"), coding, "{accepted}");
    }
}

#[test]
fn files_of_another_build_are_todays_but_not_kept() {
    let gateway = Gateway::start();
    let answer = get(&gateway, "/console/000000000000000000000000/main.js", &[]);
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-cache")));
    assert_eq!(get(&gateway, "/console/000000000000000000000000/../secret", &[]).status, 404);
}

#[test]
fn a_path_that_is_nothings_shows_the_page_and_is_missing_for_clients_of_the_api() {
    let gateway = Gateway::start();
    let browser = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    for headers in [&[browser][..], &[("accept", "*/*")], &[]] {
        let page = get(&gateway, "/an/old/bookmark?of=mine", headers);
        assert_eq!(page.status, 200, "{headers:?}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(page.header("cache-control"), Some("no-cache"));
        assert!(page.text().contains("<script type=\"module\" src=\"/console/"));
    }
    let missing = |path: &str, accept: &str| {
        let missing = get(&gateway, path, &[("accept", accept)]);
        assert_eq!(
            (missing.status, &missing.json()["error"]),
            (404, &serde_json::json!("Not found")),
            "{path}"
        );
    };
    missing("/an/old/bookmark", "application/json");
    missing("/an/old/bookmark", "application/json, text/plain, */*");
    missing("/models", "application/json");
    for path in [
        "/api/nowhere",
        "/%61pi/nowhere",
        "/v1/nowhere",
        "/v1beta/nowhere",
        "/console/nowhere",
        "/robots.txt",
        "/.well-known/oauth-authorization-server",
    ] {
        assert!(matches!(get(&gateway, path, &[browser]).status, 401 | 404), "{path}");
    }
    assert_eq!(gateway.anyone().send(Request::post("/nowhere")).status, 404);
}

#[test]
fn a_console_that_is_switched_off_is_not_there_and_a_change_is_asked_of_no_page() {
    let gateway = Gateway::start();
    let refused = gateway.anyone().send(Request::post("/settings"));
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
    let without = Gateway::with(&[("CONSOLE_ENABLED", "false")]);
    for path in ["/", "/sites", "/nowhere", "/console/000000000000000000000000/main.js"] {
        assert_eq!(get(&without, path, &[]).status, 404, "{path}");
    }
}

/// All files together are small enough for a person to read and for a phone to load; a page loads a part of them.
#[test]
fn the_console_is_at_most_307_kib_100_kib_by_brotli_and_117_kib_by_gzip() {
    let gateway = Gateway::start();
    let sum = |coding: &str| -> usize {
        let length = |name: &String| {
            let path = format!("/console/000000000000000000000000/{name}");
            get(&gateway, &path, &[("accept-encoding", coding)]).body.len()
        };
        console_files().iter().map(length).sum()
    };
    let sizes = ["identity", "br", "gzip"].map(sum);
    assert!(sizes[0] <= 307 * 1024 && sizes[1] <= 100 * 1024 && sizes[2] <= 117 * 1024, "{sizes:?} bytes");
}

/// Returns the names of all files but the page.
fn console_files() -> Vec<String> {
    let folder = std::path::Path::new("src/console");
    let mut names = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(inside) = folders.pop() {
        for entry in std::fs::read_dir(inside).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(folder).expect("below it").to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if [".js", ".css", ".svg"].iter().any(|ending| name.ends_with(ending)) {
                names.push(name);
            }
        }
    }
    names
}
