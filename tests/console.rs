//! The console's files as they are served; what the page does is tested in a browser (`make test-console`).

mod support;

use support::{Answer, Gateway, Request};

fn get(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> Answer {
    let request =
        headers.iter().fold(Request::new("GET", path), |request, (name, value)| request.header(name, value));
    gateway.anyone().send(request)
}

/// The addresses that the page names.
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
    let compressed = get(&gateway, "/", &[("accept-encoding", "gzip, deflate, br")]);
    assert_eq!(compressed.header("content-encoding"), Some("gzip"));
    assert_eq!(get(&gateway, "/", &[("accept-encoding", "gzip;q=0")]).header("content-encoding"), None);
}

#[test]
fn files_of_another_build_are_todays_but_not_kept() {
    let gateway = Gateway::start();
    let answer = get(&gateway, "/console/000000000000000000000000/main.js", &[]);
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-cache")));
    assert_eq!(get(&gateway, "/console/000000000000000000000000/../secret", &[]).status, 404);
    assert_eq!(get(&gateway, "/nowhere", &[]).status, 404);
}

#[test]
fn a_console_that_is_switched_off_is_not_there_and_a_change_is_asked_of_no_page() {
    let gateway = Gateway::start();
    let refused = gateway.anyone().send(Request::post("/settings"));
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
    let without = Gateway::with(&[("CONSOLE_ENABLED", "false")]);
    for path in ["/", "/sites", "/console/000000000000000000000000/main.js"] {
        assert_eq!(get(&without, path, &[]).status, 404, "{path}");
    }
}

/// All files together are small enough for a person to read and for a phone to load; a page loads a part of them.
#[test]
fn the_console_is_at_most_288_kib_and_106_kib_on_the_wire() {
    let gateway = Gateway::start();
    let (mut raw, mut sent) = (0, 0);
    for name in console_files() {
        let path = format!("/console/000000000000000000000000/{name}");
        raw += get(&gateway, &path, &[]).body.len();
        sent += get(&gateway, &path, &[("accept-encoding", "gzip")]).body.len();
    }
    assert!(raw <= 288 * 1024, "{raw} bytes");
    assert!(sent <= 106 * 1024, "{sent} bytes compressed");
}

/// The names in the list of files that are embedded; every file of the folder is on it.
fn console_files() -> Vec<String> {
    let folder = std::path::Path::new("src/console");
    let list = std::fs::read_to_string(folder.join("assets.rs")).expect("a list");
    let list = list.split("files! {\n").nth(1).and_then(|rest| rest.split("\n}").next()).expect("files");
    let names: Vec<String> =
        list.lines().map(|line| line.trim().trim_matches(['"', ',']).to_owned()).collect();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(inside) = folders.pop() {
        for entry in std::fs::read_dir(inside).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).expect("below it").to_string_lossy().into_owned();
            let is_asset = [".js", ".css", ".svg"].iter().any(|ending| name.ends_with(ending));
            assert!(!is_asset || names.contains(&name), "{name} is not embedded");
        }
    }
    names
}
