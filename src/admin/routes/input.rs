//! The fields of a route as an operator sends them, and the route that they describe.
//!
//! A pattern route names models and owns channels; an explicit group has a name and uses the channels of other routes.
//! Neither can become the other. A pattern that could never match is refused here, with the reason.

use serde_json::{Map, Value};

use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid, Patch};
use crate::ids::RouteId;
use crate::routing::{ModelPattern, Strategy};
use crate::store::route_edits::RouteDraft;
use crate::store::routes::{RouteMode, RouteRow};

/// Maximum length of a pattern, in characters, so that a list can still show it.
const MAX_PATTERN_CHARS: usize = 500;

/// The fields of a route that were sent.
#[derive(Debug, Default)]
pub struct RouteInput {
    mode: Option<RouteMode>,
    pattern: Option<String>,
    display_name: Patch<String>,
    display_icon: Patch<String>,
    mapping: Patch<String>,
    strategy: Option<Strategy>,
    enabled: Option<bool>,
    sources: Option<Vec<RouteId>>,
}

// === impl RouteInput ===

impl RouteInput {
    pub fn read(fields: &Fields) -> Result<Self, Invalid> {
        Ok(Self {
            mode: fields.text("routeMode")?.map(RouteMode::parse),
            pattern: fields.text("modelPattern")?.map(|text| text.trim().to_owned()),
            display_name: line(fields, "displayName")?,
            display_icon: line(fields, "displayIcon")?,
            mapping: match fields.nullable_text("modelMapping")? {
                Some(Some(text)) => Some(mapping(text)?),
                cleared_or_absent => cleared_or_absent.map(|_| None),
            },
            strategy: fields.text("routingStrategy")?.map(Strategy::parse),
            enabled: fields.bool("enabled")?,
            sources: fields.id_list("sourceRouteIds")?,
        })
    }

    /// Builds a new route.
    pub fn create(mut self) -> Result<RouteDraft> {
        let is_group = self.mode == Some(RouteMode::ExplicitGroup);
        if is_group {
            self.sources.get_or_insert_default();
        }
        let blank = RouteDraft {
            model_pattern: String::new(),
            display_name: None,
            display_icon: None,
            sources: is_group.then(Vec::new),
            model_mapping: None,
            routing_strategy: Strategy::default(),
            enabled: true,
        };
        self.over(blank)
    }

    /// Applies the fields that were sent to a stored route.
    pub fn change(self, row: &RouteRow) -> Result<RouteDraft> {
        if self.mode.is_some_and(|mode| mode != row.route_mode) {
            return Err(AdminError::bad_request(
                "Invalid routeMode. A pattern route cannot become an explicit group, nor the reverse.",
            ));
        }
        self.over(RouteDraft {
            model_pattern: row.model_pattern.clone(),
            display_name: row.display_name.clone(),
            display_icon: row.display_icon.clone(),
            sources: row.is_group().then(|| row.source_route_ids.clone()),
            model_mapping: row.model_mapping.clone(),
            routing_strategy: row.routing_strategy,
            enabled: row.enabled,
        })
    }

    fn over(self, mut draft: RouteDraft) -> Result<RouteDraft> {
        draft.display_name = self.display_name.unwrap_or(draft.display_name);
        draft.display_icon = self.display_icon.unwrap_or(draft.display_icon);
        draft.model_mapping = self.mapping.unwrap_or(draft.model_mapping);
        draft.routing_strategy = self.strategy.unwrap_or(draft.routing_strategy);
        draft.enabled = self.enabled.unwrap_or(draft.enabled);
        if let Some(sources) = &mut draft.sources {
            let name = draft.display_name.clone();
            draft.model_pattern =
                name.ok_or_else(|| Invalid::field("displayName", "non-empty name of the group"))?;
            // Stored sources are left alone: a group whose routes are all deleted can still be renamed or disabled.
            match self.sources {
                Some(sent) if sent.is_empty() => {
                    return Err(Invalid::field("sourceRouteIds", "at least one route").into());
                }
                Some(sent) => *sources = sent,
                None => {}
            }
            return Ok(draft);
        }
        // A stored pattern is left alone: it may be older than the rules for new ones.
        if self.pattern.is_some() || draft.model_pattern.is_empty() {
            draft.model_pattern =
                usable_pattern("modelPattern", self.pattern.as_deref().unwrap_or_default())?;
        }
        Ok(draft)
    }
}

/// Returns the trimmed pattern; refuses one that could never match, with the reason.
pub fn usable_pattern(field: &str, text: &str) -> Result<String, Invalid> {
    if text.chars().count() > MAX_PATTERN_CHARS {
        return Err(Invalid::field(field, "string of at most 500 characters"));
    }
    if text.trim().is_empty() {
        return Err(Invalid::field(field, "model pattern that is not blank"));
    }
    if text.trim().contains(char::is_control) {
        return Err(Invalid::field(field, "model pattern of one line, without control characters"));
    }
    match ModelPattern::parse(text) {
        Ok(pattern) => Ok(pattern.as_str().to_owned()),
        Err(reason) => Err(Invalid::because(field, format!("{text}: {reason}."))),
    }
}

/// Reads a trimmed text of one line; a blank one clears.
fn line(fields: &Fields, name: &str) -> Result<Patch<String>, Invalid> {
    let sent = fields.nullable_text(name)?;
    let sent = sent.map(|text| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned));
    if sent.as_ref().is_some_and(|text| text.as_ref().is_some_and(|text| text.contains(char::is_control))) {
        return Err(Invalid::field(name, "text of one line, without control characters"));
    }
    Ok(sent)
}

/// Checks a mapping and returns its text as sent, trimmed; `None` if it is blank or has no rules.
fn mapping(text: &str) -> Result<Option<String>, Invalid> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let invalid = || Invalid::field("modelMapping", "JSON object of strings, as text");
    let rules: Map<String, Value> = serde_json::from_str(text).map_err(|_| invalid())?;
    for (from, to) in &rules {
        usable_pattern("modelMapping", from)?;
        to.as_str().ok_or_else(invalid)?;
    }
    Ok((!rules.is_empty()).then(|| text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use crate::admin::routes::input::*;
    use serde_json::json;

    fn read(body: Value) -> Result<RouteInput, Invalid> {
        RouteInput::read(&Fields::of(
            &crate::admin::routes::schema::CREATE,
            body.as_object().cloned().expect("an object"),
        ))
    }

    fn created(body: Value) -> Result<RouteDraft> {
        read(body)?.create()
    }

    fn group() -> RouteRow {
        RouteRow {
            id: RouteId::new(7),
            model_pattern: "team".into(),
            display_name: Some("team".into()),
            display_icon: None,
            route_mode: RouteMode::ExplicitGroup,
            model_mapping: None,
            routing_strategy: Strategy::RoundRobin,
            enabled: true,
            created_at: 0,
            updated_at: 0,
            is_manual: false,
            source_route_ids: [1, 2].map(RouteId::new).to_vec(),
        }
    }

    #[test]
    fn the_first_bad_field_is_refused_by_name() {
        for (body, field) in [
            (json!({}), "modelPattern"),
            (json!({"modelPattern": "  "}), "modelPattern"),
            (json!({"modelPattern": 1}), "modelPattern"),
            (json!({"modelPattern": "re:("}), "modelPattern"),
            (json!({"modelPattern": "re:"}), "modelPattern"),
            (json!({"modelPattern": "x".repeat(501)}), "modelPattern"),
            (json!({"modelPattern": "a\u{0}b"}), "modelPattern"),
            (json!({"modelPattern": "m", "routeMode": null}), "routeMode"),
            (json!({"modelPattern": "m", "routingStrategy": 1}), "routingStrategy"),
            (json!({"modelPattern": "m", "displayName": 1}), "displayName"),
            (json!({"modelPattern": "m", "displayName": "a\nb"}), "displayName"),
            (json!({"modelPattern": "m", "displayIcon": []}), "displayIcon"),
            (json!({"modelPattern": "m", "displayIcon": "\u{7}"}), "displayIcon"),
            (json!({"modelPattern": "m", "enabled": "true"}), "enabled"),
            (json!({"modelPattern": "m", "modelMapping": {}}), "modelMapping"),
            (json!({"modelPattern": "m", "modelMapping": "{"}), "modelMapping"),
            (json!({"modelPattern": "m", "modelMapping": "[]"}), "modelMapping"),
            (json!({"modelPattern": "m", "modelMapping": "{\"a\":1}"}), "modelMapping"),
            (json!({"modelPattern": "m", "modelMapping": "{\"re:(\":\"b\"}"}), "modelMapping"),
            (json!({"modelPattern": "m", "sourceRouteIds": ["1"]}), "sourceRouteIds"),
            (json!({"modelPattern": "m", "sourceRouteIds": [0]}), "sourceRouteIds"),
            (json!({"routeMode": "explicit_group", "sourceRouteIds": [1]}), "displayName"),
            (
                json!({"routeMode": "explicit_group", "displayName": " ", "sourceRouteIds": [1]}),
                "displayName",
            ),
            (json!({"routeMode": "explicit_group", "displayName": "g"}), "sourceRouteIds"),
        ] {
            let error = created(body.clone()).expect_err("refused");
            assert_eq!(error.status(), 400, "{body}");
            assert!(error.message().starts_with(&format!("Invalid {field}")), "{body}: {}", error.message());
        }
    }

    #[test]
    fn what_is_not_sent_has_its_default() {
        let draft = created(json!({"modelPattern": " gpt-* ", "routeMode": "?", "routingStrategy": "?"}));
        let expected = RouteDraft {
            model_pattern: "gpt-*".into(),
            display_name: None,
            display_icon: None,
            sources: None,
            model_mapping: None,
            routing_strategy: Strategy::default(),
            enabled: true,
        };
        assert_eq!(draft.expect("a route"), expected);
    }

    #[test]
    fn a_group_is_called_by_its_display_name() {
        let body = json!({"routeMode": "explicit_group", "displayName": " team ", "modelPattern": "re:(", "sourceRouteIds": [3, 1, 3]});
        let draft = created(body).expect("a group");
        assert_eq!(
            (draft.model_pattern.as_str(), draft.sources),
            ("team", Some([3, 1].map(RouteId::new).to_vec()))
        );
    }

    #[test]
    fn a_change_keeps_what_is_not_sent() {
        let change = |body| read(body)?.change(&group());
        let kept = change(json!({})).expect("no change");
        assert_eq!(
            (kept.routing_strategy, kept.sources),
            (Strategy::RoundRobin, Some([1, 2].map(RouteId::new).to_vec()))
        );
        assert_eq!(change(json!({"displayName": "crew"})).expect("renamed").model_pattern, "crew");
        for body in
            [json!({"routeMode": "pattern"}), json!({"displayName": null}), json!({"sourceRouteIds": []})]
        {
            assert_eq!(change(body.clone()).expect_err("refused").status(), 400, "{body}");
        }
    }

    #[test]
    fn a_blank_text_clears() {
        let body = json!({"modelPattern": "m", "displayName": " ", "displayIcon": "", "modelMapping": "{}"});
        let draft = created(body).expect("a route");
        assert_eq!((draft.display_name, draft.display_icon, draft.model_mapping), (None, None, None));
    }
}
