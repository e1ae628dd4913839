//! Applies an operator's rules to a finished body.
//!
//! Rules are compiled when the settings are read; a request that no rule names costs a comparison of names, and its
//! bytes stay as they are.

use serde_json::Value;

use super::glob::Glob;
use super::patch::{Path, Tree};
use super::trimmed;
use crate::dialect::tree::Node;

/// Compiled rules.
pub struct PayloadRules {
    /// `default`, then `defaultRaw`.
    defaults: Vec<SetRule>,
    /// `override`, then `overrideRaw`.
    overrides: Vec<SetRule>,
    filters: Vec<FilterRule>,
}

/// The upstream and the model that a body is for.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The identifier of the site's platform.
    pub platform: &'a str,
    /// The model's name at the upstream; `requested` is the name that the client asked for.
    pub model: &'a str,
    pub requested: &'a str,
}

struct SetRule {
    models: Vec<ModelRule>,
    /// Values as JSON texts.
    params: Vec<(Path, String)>,
}

struct FilterRule {
    models: Vec<ModelRule>,
    paths: Vec<Path>,
}

struct ModelRule {
    name: Glob,
    /// The platform in lower case; empty for every platform.
    protocol: String,
}

impl PayloadRules {
    /// Compiles rules in their [`normal`](super::normal) form; `None` when there is none.
    pub fn compile(rules: &Value) -> Option<Self> {
        let items = |section: &str| rules[section].as_array().cloned().unwrap_or_default();
        let sets = |plain: &str, raw: &str| -> Vec<SetRule> {
            let plain = items(plain).into_iter().map(|rule| set_rule(&rule, false));
            plain.chain(items(raw).into_iter().map(|rule| set_rule(&rule, true))).collect()
        };
        let filter = |rule: &Value| FilterRule {
            models: models(rule),
            paths: rule["params"].as_array().into_iter().flatten().filter_map(path).collect(),
        };
        let rules = Self {
            defaults: sets("default", "defaultRaw"),
            overrides: sets("override", "overrideRaw"),
            filters: items("filter").iter().map(filter).collect(),
        };
        let is_empty = rules.defaults.is_empty() && rules.overrides.is_empty() && rules.filters.is_empty();
        (!is_empty).then_some(rules)
    }

    /// Whether any rule applies to a body for this target.
    pub fn concern(&self, target: Target<'_>) -> bool {
        let sets = self.defaults.iter().chain(&self.overrides).map(|rule| &rule.models);
        sets.chain(self.filters.iter().map(|rule| &rule.models)).any(|models| meet(models, target))
    }

    /// Returns the body as the rules change it; `None` where they leave it as it is.
    ///
    /// A default only fills what is missing, so the first of several counts; of overrides the last counts.
    pub fn apply(&self, body: &str, target: Target<'_>) -> Option<String> {
        let mut tree = Tree::Whole(Node::parse(body).ok().filter(Node::is_object)?);
        let mut changed = false;
        for (path, value) in params(&self.defaults, target) {
            if !tree.has(path) {
                changed |= Node::parse(value).is_ok_and(|value| tree.set(path, Tree::Whole(value)));
            }
        }
        for (path, value) in params(&self.overrides, target) {
            changed |= Node::parse(value).is_ok_and(|value| tree.set(path, Tree::Whole(value)));
        }
        for rule in self.filters.iter().filter(|rule| meet(&rule.models, target)) {
            for path in &rule.paths {
                changed |= tree.delete(path);
            }
        }
        changed.then(|| {
            let mut out = String::with_capacity(body.len() + 64);
            tree.write(&mut out);
            out
        })
    }
}

fn params<'r>(rules: &'r [SetRule], target: Target<'_>) -> impl Iterator<Item = (&'r Path, &'r str)> {
    let rules = rules.iter().filter(move |rule| meet(&rule.models, target));
    rules.flat_map(|rule| rule.params.iter().map(|(path, value)| (path, value.as_str())))
}

fn meet(models: &[ModelRule], target: Target<'_>) -> bool {
    models.iter().any(|rule| {
        (rule.protocol.is_empty() || rule.protocol == target.platform)
            && (rule.name.matches(target.model) || rule.name.matches(target.requested))
    })
}

fn set_rule(rule: &Value, raw: bool) -> SetRule {
    let value = |value: &Value| match value {
        Value::String(text) if raw => text.trim().to_owned(),
        value => value.to_string(),
    };
    let params = rule["params"].as_object().into_iter().flatten();
    SetRule {
        models: models(rule),
        params: params.map(|(path, held)| (Path::new(trimmed(path)), value(held))).collect(),
    }
}

fn path(path: &Value) -> Option<Path> {
    path.as_str().map(|path| Path::new(trimmed(path)))
}

fn models(rule: &Value) -> Vec<ModelRule> {
    let text = |model: &Value, field: &str| model[field].as_str().unwrap_or_default().trim().to_owned();
    let models = rule["models"].as_array().into_iter().flatten();
    models
        .map(|model| ModelRule {
            name: Glob::new(&text(model, "name")),
            protocol: text(model, "protocol").to_lowercase(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dialect::payload_rules::normal;

    fn applied(rules: Value, body: &str) -> Option<String> {
        let rules = PayloadRules::compile(&normal(&rules).expect("good rules")).expect("some rules");
        let target = Target { platform: "codex", model: "up-1", requested: "gpt-x" };
        rules.concern(target).then(|| rules.apply(body, target)).flatten()
    }

    fn rule(params: Value) -> Value {
        json!([{"models": [{"name": "gpt-*"}], "params": params}])
    }

    #[test]
    fn each_section_does_what_its_name_says() {
        let body = r#"{"model":"up-1", "n" : 1.50,"a":{"b":null},"list":[1,{"x":2}],"s":"t"}"#;
        for (rules, expected) in [
            // A default fills what is missing; null is not missing.
            (
                json!({"default": rule(json!({"n": 2, "a.b": 3, "a.c": 4, "t": 1}))}),
                r#"{"model":"up-1","n":1.50,"a":{"b":null,"c":4},"list":[1,{"x":2}],"s":"t","t":1}"#,
            ),
            (
                json!({"override": rule(json!({"n": 2, "a.b": {"d": [1]}}))}),
                r#"{"model":"up-1","n":2,"a":{"b":{"d":[1]}},"list":[1,{"x":2}],"s":"t"}"#,
            ),
            (
                json!({"override-raw": rule(json!({"a": " {\"z\": 1.0} ", "n": 7}))}),
                r#"{"model":"up-1","n":7,"a":{"z": 1.0},"list":[1,{"x":2}],"s":"t"}"#,
            ),
            (
                json!({"filter": rule(json!(["n", ".a.b", "list.0", "none.x"]))}),
                r#"{"model":"up-1","a":{},"list":[{"x":2}],"s":"t"}"#,
            ),
            // Arrays are padded, scalars replaced, missing containers made.
            (
                json!({"override": rule(json!({"list.3": 4, "s.k": 1, "new.0.k": 2}))}),
                r#"{"model":"up-1","n":1.50,"a":{"b":null},"list":[1,{"x":2},null,4],"s":{"k":1},"new":[{"k":2}]}"#,
            ),
        ] {
            assert_eq!(applied(rules.clone(), body).as_deref(), Some(expected), "{rules}");
        }
    }

    #[test]
    fn a_path_through_the_wrong_container_does_nothing() {
        let body = r#"{"a":{"b":1},"list":[1]}"#;
        for params in [json!({"a.0": 1}), json!({"list.x": 1}), json!({"list.x.y": 1})] {
            assert_eq!(applied(json!({"override": rule(params.clone())}), body), None, "{params}");
            assert_eq!(applied(json!({"default": rule(params)}), body), None);
        }
        assert_eq!(applied(json!({"filter": rule(json!(["a.0", "list.x", "list.9", "q"]))}), body), None);
    }

    #[test]
    fn the_first_default_and_the_last_override_count() {
        let models = json!([{"name": "*"}]);
        let rules = json!({
            "default": [{"models": models, "params": {"d": 1}}, {"models": models, "params": {"d": 2}}],
            "defaultRaw": [{"models": models, "params": {"d": "3"}}],
            "override": [{"models": models, "params": {"o": 1}}, {"models": models, "params": {"o": 2}}],
            "overrideRaw": [{"models": models, "params": {"o": "3", "gone": "{}"}}],
            "filter": [{"models": models, "params": ["gone"]}],
        });
        assert_eq!(applied(rules, "{}").as_deref(), Some(r#"{"d":1,"o":3}"#));
    }

    #[test]
    fn a_rule_is_for_the_models_and_the_platform_it_names() {
        for (models, concerned) in [
            (json!([{"name": "gpt-x"}]), true),
            (json!([{"name": "UP-*"}]), true),
            (json!([{"name": "other"}, {"name": "gpt-?"}]), true),
            (json!([{"name": "other"}]), false),
            (json!([{"name": "gpt-*", "protocol": "Codex"}]), true),
            (json!([{"name": "gpt-*", "protocol": ""}]), true),
            (json!([{"name": "gpt-*", "protocol": "openai"}]), false),
        ] {
            let rules = json!({"override": [{"models": models, "params": {"a": 1}}]});
            assert_eq!(applied(rules, "{}").is_some(), concerned, "{models}");
        }
        assert!(PayloadRules::compile(&normal(&Value::Null).unwrap()).is_none());
    }
}
