//! Checks arguments of helm and kubectl: they must be plain data, never an option and never a second value.

use std::fmt;

use serde_json::{Map, Value};

use crate::jobs::update_center::versions;
use crate::settings::update_center;

/// Maximum lengths of a helm release's name, and of a namespace in Kubernetes (RFC 1123 labels).
const MAX_RELEASE: usize = 53;
const MAX_NAMESPACE: usize = 63;
const MAX_REFERENCE: usize = 255;

/// A release in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) namespace: String,
    pub(super) release: String,
}

/// The release, image and chart of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deployment {
    pub(super) target: Target,
    pub(super) chart: String,
    pub(super) repository: String,
    pub(super) source: String,
    pub(super) tag: String,
    pub(super) digest: Option<String>,
}

/// The earlier revision to roll back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rollback {
    pub(super) target: Target,
    pub(super) revision: String,
}

/// A change that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Deploy(Deployment),
    Rollback(Rollback),
}

// === impl Order ===

impl Order {
    /// Reads the body of a request to `/deploy` or `/rollback`.
    pub(super) fn read(path: &str, body: &Map<String, Value>) -> Result<Self, String> {
        if path == "/deploy" {
            Deployment::read(body).map(Self::Deploy)
        } else {
            Rollback::read(body).map(Self::Rollback)
        }
    }

    pub(super) fn target(&self) -> &Target {
        match self {
            Self::Deploy(deployment) => &deployment.target,
            Self::Rollback(rollback) => &rollback.target,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deploy(deployment) => write!(f, "the deployment of {}", deployment.target),
            Self::Rollback(rollback) => write!(f, "the rollback of {}", rollback.target),
        }
    }
}

// === impl Target ===

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.release)
    }
}

impl Target {
    fn of_body(body: &Map<String, Value>) -> Result<Self, String> {
        Self::new(text(body, "namespace")?, text(body, "releaseName")?)
    }

    pub(super) fn new(namespace: Option<&str>, release: Option<&str>) -> Result<Self, String> {
        let label = |name: &str, value: Option<&str>, most: usize| {
            let value =
                value.filter(|value| !value.is_empty()).ok_or_else(|| format!("{name} is required"))?;
            let is_label = value.len() <= most
                && value.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
                && !value.starts_with('-')
                && !value.ends_with('-');
            if is_label {
                Ok(value.to_owned())
            } else {
                Err(format!("{name} is not a valid Kubernetes name"))
            }
        };
        Ok(Self {
            namespace: label("namespace", namespace, MAX_NAMESPACE)?,
            release: label("releaseName", release, MAX_RELEASE)?,
        })
    }
}

// === impl Deployment ===

impl Deployment {
    pub(super) fn read(body: &Map<String, Value>) -> Result<Self, String> {
        let required = |name: &str| text(body, name)?.ok_or_else(|| format!("{name} is required"));
        let tag = match text(body, "targetTag")? {
            Some(tag) => tag,
            None => text(body, "targetVersion")?.ok_or("targetTag or targetVersion is required")?,
        };
        let is_tag = tag.len() <= 128
            && tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && tag.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        if !is_tag {
            return Err("targetTag is not a valid image tag".to_owned());
        }
        let digest = text(body, "targetDigest")?
            .map(|digest| versions::digest(digest).ok_or("targetDigest is not a sha256 digest"))
            .transpose()?;
        let source = text(body, "source")?.unwrap_or(update_center::RELEASE);
        if ![update_center::RELEASE, update_center::IMAGE_TAG].contains(&source) {
            return Err(format!("source must be {} or {}", update_center::RELEASE, update_center::IMAGE_TAG));
        }
        Ok(Self {
            target: Target::of_body(body)?,
            chart: reference("chartRef", required("chartRef")?)?,
            repository: reference("imageRepository", required("imageRepository")?)?,
            source: source.to_owned(),
            tag: tag.to_owned(),
            digest,
        })
    }
}

// === impl Rollback ===

impl Rollback {
    pub(super) fn read(body: &Map<String, Value>) -> Result<Self, String> {
        let revision = text(body, "targetRevision")?.ok_or("targetRevision is required")?;
        if revision.len() > 9 || !revision.chars().all(|c| c.is_ascii_digit()) || revision.starts_with('0') {
            return Err("targetRevision is not a revision number".to_owned());
        }
        Ok(Self { target: Target::of_body(body)?, revision: revision.to_owned() })
    }
}

/// Reads a trimmed text; `None` if it is blank.
fn text<'b>(body: &'b Map<String, Value>, name: &str) -> Result<Option<&'b str>, String> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
        Some(_) => Err(format!("{name} must be a string")),
    }
}

/// Reads the address of a chart or an image. A comma is refused: helm reads it as the beginning of a second value.
fn reference(name: &str, value: &str) -> Result<String, String> {
    let is_plain = value.len() <= MAX_REFERENCE
        && value.starts_with(|c: char| c.is_ascii_alphanumeric() || "./".contains(c))
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "._:/@+~-".contains(c));
    if is_plain {
        Ok(value.to_owned())
    } else {
        Err(format!("{name} is too long or has characters that are not allowed in it"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(changes: &Value) -> Map<String, Value> {
        let mut body = json!({"namespace": "ai", "releaseName": "gateway", "chartRef": "oci://r.example/charts/gateway",
            "imageRepository": "r.example:5000/acme/gateway", "targetTag": "v1.2.3"});
        for (name, value) in changes.as_object().expect("an object") {
            body[name] = value.clone();
        }
        body.as_object().expect("an object").clone()
    }

    #[test]
    fn plain_data_is_taken() {
        let deployment = Deployment::read(&body(&json!({"source": "github-release"}))).expect("plain");
        assert_eq!((deployment.tag.as_str(), deployment.digest), ("v1.2.3", None));
        let version = body(&json!({"targetTag": null, "targetVersion": "1.2.3"}));
        assert_eq!(Deployment::read(&version).expect("plain").tag, "1.2.3");
        assert_eq!(Rollback::read(&body(&json!({"targetRevision": "7"}))).expect("plain").revision, "7");
    }

    #[test]
    fn whatever_could_be_more_than_plain_data_is_refused() {
        for wrong in [
            json!({"namespace": "-n"}),
            json!({"namespace": "a b"}),
            json!({"namespace": "A"}),
            json!({"releaseName": "r".repeat(54)}),
            json!({"releaseName": "--post-renderer=sh"}),
            json!({"chartRef": "-f"}),
            json!({"chartRef": "c\nd"}),
            json!({"chartRef": "$(id)"}),
            json!({"chartRef": 7}),
            json!({"imageRepository": "a,image.tag=evil"}),
            json!({"imageRepository": "a=b"}),
            json!({"targetTag": "1,a=b"}),
            json!({"targetTag": "-1"}),
            json!({"targetTag": "t".repeat(129)}),
            json!({"targetDigest": "sha256:12"}),
            json!({"source": "elsewhere"}),
            json!({"chartRef": " "}),
            json!({"targetTag": null}),
        ] {
            let read = Deployment::read(&body(&wrong));
            assert!(read.is_err(), "{wrong}: {read:?}");
        }
        for wrong in [
            json!({}),
            json!({"targetRevision": "0"}),
            json!({"targetRevision": "-1"}),
            json!({"targetRevision": 7}),
        ] {
            assert!(Rollback::read(&body(&wrong)).is_err(), "{wrong}");
        }
    }
}
