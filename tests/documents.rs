//! The commands in the documents work as they are printed, and their links lead somewhere.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::{self, Gateway, PROXY_TOKEN, Upstream};

/// The model that the documents use.
const MODEL: &str = "gpt-4o-mini";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the README and every page of `docs/`.
fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).expect("docs/");
    let mut pages: Vec<_> = docs.map(|entry| entry.expect("an entry").path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(root().join("README.md"));
    pages
}

/// Returns the blocks of a page that a shell can run: those marked `sh`. Other marks are for commands that cannot run here.
fn shell_blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in read(&root().join(page)).lines() {
        match (&mut block, line) {
            (None, "```sh") => block = Some(String::new()),
            (Some(_), "```") => blocks.extend(block.take()),
            (Some(text), line) => *text += &format!("{line}\n"),
            (None, _) => {}
        }
    }
    blocks
}

/// Runs the `curl` commands of a page's blocks against a gateway, as a reader would in one shell.
#[track_caller]
fn runs(page: &str, gateway: &Gateway, upstream: &Upstream) {
    for block in shell_blocks(page) {
        if !block.contains("curl ") {
            continue;
        }
        let script = block
            .replace("curl -s", "curl --silent --show-error --fail-with-body --max-time 60 -s")
            .replace("localhost:4000", &gateway.address().to_string())
            .replace("https://api.openai.com", &upstream.url());
        let done = Command::new("sh")
            .args(["-e", "-c", &script])
            .env("AUTH_TOKEN", support::ADMIN_TOKEN)
            .env("PROXY_TOKEN", PROXY_TOKEN)
            .env("SWITCHYARD_KEY", PROXY_TOKEN)
            .output()
            .expect("a shell, and curl: apt-get install curl");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{page}:\n{block}\n{said}\n{}", String::from_utf8_lossy(&done.stderr));
        if block.contains("/api/accounts ") {
            gateway.wait_for_channels(MODEL, 1);
        }
    }
}

#[test]
fn the_newest_release_of_the_change_log_is_the_version_of_the_package() {
    let text = read(&root().join("docs/CHANGELOG.md"));
    let releases: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(releases[..2], ["Unreleased", env!("CARGO_PKG_VERSION")]);
}

#[test]
fn the_speeds_that_the_documents_tell_are_those_of_the_last_run() {
    let results = read(&root().join("bench/RESULTS.md"));
    for page in ["README.md", "docs/performance.md"] {
        let text = read(&root().join(page));
        let cells = text.lines().filter(|line| line.contains("/s |")).flat_map(|line| line.split('|'));
        let speeds: Vec<_> = cells.filter_map(|cell| cell.trim().strip_suffix("/s")).take(8).collect();
        assert_eq!(speeds.len(), 8, "{page}");
        for speed in speeds {
            let speed = format!(" {} ", speed.replace(',', ""));
            assert!(results.contains(&speed), "{page} tells{speed}/s");
        }
    }
}

#[test]
fn every_command_of_the_first_steps_works() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&[MODEL, "gpt-4o"]);
    for page in ["README.md", "docs/routes.md", "docs/clients.md"] {
        runs(page, &gateway, &upstream);
    }
    let log = gateway.wait_for_logs(4);
    assert!(log.iter().all(|row| row["status"] == json!("success")), "{log:#?}");
}

#[test]
fn the_commands_that_add_an_api_key_work() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&[MODEL]);
    runs("docs/accounts.md", &gateway, &upstream);
}

#[test]
fn every_target_that_the_documents_name_is_in_the_makefile() {
    let makefile = read(&root().join("Makefile"));
    for page in pages() {
        let text = read(&page);
        for rest in text.split("`make ").skip(1) {
            let target: String = rest
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-')
                .collect();
            let is_there = makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
            assert!(is_there, "{} names `make {target}`", page.display());
        }
    }
}

/// Returns the anchor that forges give a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn every_link_of_the_documents_leads_to_a_file_and_to_a_heading_in_it() {
    for page in pages() {
        for rest in read(&page).split("](").skip(1) {
            let link = rest.split(')').next().unwrap_or_default();
            if link.contains("://") {
                continue;
            }
            let (file, section) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name("").join(file) };
            assert!(target.exists(), "{} links to {link}", page.display());
            let is_there =
                |line: &str| line.starts_with('#') && anchor(line.trim_start_matches('#').trim()) == section;
            assert!(
                section.is_empty() || read(&target).lines().any(is_there),
                "{} links to {link}",
                page.display()
            );
        }
    }
}
