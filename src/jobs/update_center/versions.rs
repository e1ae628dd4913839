//! Finds the release and the image to update to. All functions are pure.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::settings::update_center::{IMAGE_TAG, RELEASE};
use crate::time::{from_json, iso};

/// Tags that always name the newest image, the best first.
const ALIASES: [&str; 2] = ["latest", "main"];
/// The most tags of work in progress that are shown.
const MOST_RECENT: usize = 5;

/// A version to update to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    pub source: String,
    pub raw_version: String,
    pub normalized_version: String,
    pub url: Option<String>,
    pub tag_name: Option<String>,
    pub digest: Option<String>,
    pub display_version: Option<String>,
    pub published_at: Option<String>,
}

/// The running version, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Running<'a> {
    pub version: &'a str,
    pub tag: Option<&'a str>,
    pub digest: Option<&'a str>,
}

/// A tag of an image, as the registry lists it.
struct Tag {
    name: String,
    digest: Option<String>,
    updated_at: Option<String>,
}

/// Parses `v1.2.3` or `1.2.3`, with build metadata or without (Semantic Versioning 2.0.0, no pre-release).
pub fn stable(text: &str) -> Option<(u64, u64, u64)> {
    let text = text.trim();
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let (numbers, meta) = text.split_once('+').map_or((text, None), |(numbers, meta)| (numbers, Some(meta)));
    let is_meta =
        |meta: &str| !meta.is_empty() && meta.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c));
    if meta.is_some_and(|meta| !is_meta(meta)) {
        return None;
    }
    let number = |part: &str| part.chars().all(|c| c.is_ascii_digit()).then(|| part.parse().ok()).flatten();
    match numbers.split('.').collect::<Vec<_>>()[..] {
        [major, minor, patch] => Some((number(major)?, number(minor)?, number(patch)?)),
        _ => None,
    }
}

/// Returns `sha256:` and 64 hexadecimal digits, in lower case; `None` for anything else.
pub fn digest(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let is_hex = |hex: &str| hex.len() == 64 && hex.chars().all(|c| c.is_ascii_hexdigit());
    text.strip_prefix("sha256:").is_some_and(is_hex).then_some(text)
}

/// Returns the highest stable release that is neither a draft nor a pre-release.
pub fn newest_release(releases: &Value) -> Option<Version> {
    let is_meant = |release: &&Value| release["draft"] != true && release["prerelease"] != true;
    let versions = releases.as_array()?.iter().filter(is_meant).filter_map(|release| {
        let tag = release["tag_name"].as_str()?;
        Some((stable(tag)?, tag, release))
    });
    let (number, tag, release) = versions.max_by_key(|(number, ..)| *number)?;
    let text = |name: &str| release[name].as_str().map(str::to_owned);
    Some(Version {
        source: RELEASE.to_owned(),
        raw_version: tag.to_owned(),
        normalized_version: dotted(number),
        url: text("html_url"),
        tag_name: Some(tag.to_owned()),
        digest: None,
        display_version: Some(tag.to_owned()),
        published_at: time(&release["published_at"]),
    })
}

/// Returns the tag to follow, an alias or else the highest stable one, and the newest tags of work in progress.
pub fn newest_tags(listed: &Value, repository: &str) -> (Option<Version>, Vec<Version>) {
    let tags: Vec<Tag> = listed["results"].as_array().into_iter().flatten().filter_map(Tag::read).collect();
    let alias = ALIASES.iter().find_map(|alias| tags.iter().find(|tag| tag.name == *alias));
    let highest =
        || tags.iter().filter(|tag| stable(&tag.name).is_some()).max_by_key(|tag| stable(&tag.name));
    let followed = alias.or_else(highest).map(|tag| tag.version(repository));

    let mut others: Vec<&Tag> = Vec::new();
    let mut newest_first: Vec<&Tag> = tags.iter().collect();
    newest_first.sort_by_key(|tag| Reverse(&tag.updated_at));
    for tag in newest_first {
        let is_other = !ALIASES.contains(&tag.name.as_str()) && stable(&tag.name).is_none();
        if is_other && !others.iter().any(|known| known.name == tag.name) {
            others.push(tag);
        }
    }
    others.sort_by_key(|tag| match tag.name.as_str() {
        "dev" => 0,
        name if name.starts_with("dev-") => 1,
        name if name.starts_with("sha-") => 2,
        _ => 3,
    });
    (followed, others.into_iter().take(MOST_RECENT).map(|tag| tag.version(repository)).collect())
}

/// Returns the version to report to the operator, with its key: a newer release, or else another image.
pub fn candidate<'v>(
    release: Option<&'v Version>,
    image: Option<&'v Version>,
    running: Running<'_>,
) -> Option<(String, &'v Version)> {
    let current = stable(running.version).max(running.tag.and_then(stable));
    let is_newer = |text: &str| stable(text).is_some_and(|number| Some(number) > current);
    if let Some(release) = release.filter(|release| is_newer(&release.raw_version)) {
        return Some((format!("{RELEASE}:{}", release.raw_version), release));
    }
    let image = image?;
    let tag = image.raw_version.as_str();
    let digests = running.digest.zip(image.digest.as_deref());
    let is_running = digests.map_or(running.tag == Some(tag), |(running, offered)| running == offered);
    let is_moved = running.tag == Some(tag) && digests.is_some_and(|(running, offered)| running != offered);
    if is_running || !(is_moved || is_newer(tag)) {
        return None;
    }
    let at = image.digest.as_deref().map(|digest| format!("@{digest}")).unwrap_or_default();
    Some((format!("{IMAGE_TAG}:{tag}{at}"), image))
}

/// Reads a time and formats it as all answers do.
pub fn time(value: &Value) -> Option<String> {
    from_json(value).map(iso)
}

fn dotted((major, minor, patch): (u64, u64, u64)) -> String {
    format!("{major}.{minor}.{patch}")
}

// === impl Tag ===

impl Tag {
    fn read(listed: &Value) -> Option<Self> {
        let of_image = || listed["images"].as_array()?.iter().find_map(|image| image["digest"].as_str());
        Some(Self {
            name: listed["name"].as_str().filter(|name| !name.is_empty())?.to_owned(),
            digest: listed["digest"].as_str().or_else(of_image).and_then(digest),
            updated_at: time(&listed["last_updated"]),
        })
    }

    fn version(&self, repository: &str) -> Version {
        let name = self.name.clone();
        let display = match &self.digest {
            Some(digest) => format!("{name} @ {}", &digest[.."sha256:".len() + 12]),
            None => name.clone(),
        };
        Version {
            source: IMAGE_TAG.to_owned(),
            normalized_version: stable(&name).map_or_else(|| name.clone(), dotted),
            url: Some(format!("https://hub.docker.com/r/{repository}/tags?name={name}")),
            tag_name: Some(name.clone()),
            raw_version: name,
            digest: self.digest.clone(),
            display_version: Some(display),
            published_at: self.updated_at.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sha(digit: char) -> String {
        format!("sha256:{}", String::from(digit).repeat(64))
    }

    #[test]
    fn a_stable_version_has_three_numbers_and_perhaps_metadata() {
        for (text, wanted) in [
            ("v1.2.3", Some((1, 2, 3))),
            ("1.20.3+build.7", Some((1, 20, 3))),
            ("1.2.3-rc.1", None),
            ("1.2", None),
            ("1.2.3.4", None),
            ("1.2.3+", None),
            ("1.+2.3", None),
            ("latest", None),
        ] {
            assert_eq!(stable(text), wanted, "{text}");
        }
    }

    #[test]
    fn the_highest_release_counts_whatever_its_place() {
        let releases = json!([
            {"tag_name": "v1.9.0", "html_url": "https://h/1", "published_at": "2026-05-01T00:00:00Z"},
            {"tag_name": "v1.10.0", "html_url": "https://h/2", "published_at": "2026-04-01T00:00:00Z"},
            {"tag_name": "v3.0.0", "draft": true}, {"tag_name": "v2.0.0", "prerelease": true},
            {"tag_name": "nightly"}, {"name": "without a tag"}]);
        let newest = newest_release(&releases).expect("a release");
        assert_eq!((newest.raw_version.as_str(), newest.normalized_version.as_str()), ("v1.10.0", "1.10.0"));
        assert_eq!(newest.url.as_deref(), Some("https://h/2"));
        assert_eq!(newest.published_at.as_deref(), Some("2026-04-01T00:00:00.000Z"));
        assert_eq!(newest_release(&json!({"message": "rate limited"})), None);
    }

    #[test]
    fn an_alias_goes_before_the_highest_tag_and_work_in_progress_is_listed_apart() {
        let tag = |name: &str, day: u32| json!({"name": name, "last_updated": format!("2026-05-{day:02}T00:00:00Z")});
        let mut tags = vec![
            tag("1.2.0", 9),
            tag("v1.10.0", 2),
            tag("sha-1", 8),
            tag("dev-b", 3),
            tag("dev-a", 7),
            tag("zeta", 9),
            tag("dev", 1),
            tag("sha-2", 9),
            tag("sha-1", 1),
            tag("pr-7", 1),
        ];
        let names = |tags: &[Version]| tags.iter().map(|tag| tag.raw_version.clone()).collect::<Vec<_>>();
        let (followed, recent) = newest_tags(&json!({"results": tags}), "a/b");
        assert_eq!(followed.expect("a tag").raw_version, "v1.10.0");
        assert_eq!(names(&recent), ["dev", "dev-a", "dev-b", "sha-2", "sha-1"]);
        tags.extend([tag("main", 1), json!({"name": "latest", "images": [{"digest": sha('A')}]})]);
        let latest = newest_tags(&json!({"results": tags}), "a/b").0.expect("a tag");
        assert_eq!(latest.display_version, Some("latest @ sha256:aaaaaaaaaaaa".to_owned()));
        assert_eq!(latest.digest, Some(sha('a')));
        assert_eq!(newest_tags(&json!([]), "a/b"), (None, Vec::new()));
    }

    #[test]
    fn a_candidate_is_newer_than_what_runs_or_another_image_of_its_tag() {
        let release = newest_release(&json!([{"tag_name": "v1.1.0"}]));
        let image = |name: &str, digest: Option<String>| {
            newest_tags(&json!({"results": [{"name": name, "digest": digest}]}), "a/b").0
        };
        let key = |release: &Option<Version>, image: &Option<Version>, running: Running<'_>| {
            candidate(release.as_ref(), image.as_ref(), running).map(|(key, _)| key)
        };
        let (one, two) = (sha('1'), sha('2'));
        let at = |version| Running { version, ..Running::default() };
        assert_eq!(key(&release, &None, at("1.0.9")), Some("github-release:v1.1.0".to_owned()));
        assert_eq!(key(&release, &None, at("1.1.0")), None);
        assert_eq!(key(&release, &None, Running { tag: Some("1.1.0"), ..at("1.0.0") }), None);
        let latest = image("latest", Some(two.clone()));
        let running = |digest| Running { version: "1.0.0", tag: Some("latest"), digest };
        assert_eq!(key(&None, &latest, running(Some(&one))), Some(format!("docker-hub-tag:latest@{two}")));
        assert_eq!(key(&None, &latest, running(Some(&two))), None);
        assert_eq!(key(&None, &latest, running(None)), None, "the same tag");
        assert_eq!(key(&None, &latest, at("1.0.0")), None, "nobody knows what runs");
        assert_eq!(key(&None, &image("1.2.0", None), at("1.0.0")), Some("docker-hub-tag:1.2.0".to_owned()));
    }

    #[test]
    fn a_digest_is_64_digits_or_none() {
        assert_eq!(digest(&sha('A')), Some(sha('a')));
        for text in ["sha256:12", "sha512:", "", &sha('g'), &sha('1')[7..]] {
            assert_eq!(digest(text), None, "{text}");
        }
    }
}
