//! The `model_list` of LiteLLM's `config.yaml`, or the JSON made from it.
//!
//! | there | here |
//! |---|---|
//! | entries with one `model_name` | channels of one route |
//! | `litellm_params.model` | the upstream, and the model's name there |
//! | `weight`, `order` | weight, fractions in hundredths; priority, the lower first in both |
//! | `environment_variables` | what `os.environ/NAME` in the file stands for |
//! | `router_settings.model_group_alias` | a route with the channels of the one it stands for |
//! | `fallbacks` | channels of the fallbacks, after the route's own |
//!
//! The members are those of docs.litellm.ai/docs/proxy/config_settings.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::draft::{Channel, DEFAULT_WEIGHT, Draft, named, platform_at};
use super::litellm_providers;
use super::taken::{Context, Kind, TakenOver};
use crate::platform::Platform;

/// The prefix by which a configuration refers to a variable in place of a key.
const VARIABLE: &str = "os.environ/";
/// Members of `litellm_params` that are taken.
const TAKEN: [&str; 8] = [
    "model",
    "api_base",
    "base_url",
    "api_key",
    "weight",
    "order",
    "custom_llm_provider",
    "use_in_pass_through",
];
const MAX_ALIASES: usize = 2_000;
const MAX_FALLBACKS: usize = 20;

pub(super) fn is(document: &Value) -> bool {
    let models = document["model_list"].as_array();
    models.is_some_and(|models| models.iter().any(|model| model["litellm_params"].is_object()))
}

pub(super) fn read(document: &Value, context: &Context) -> TakenOver {
    let mut draft = Draft::default();
    let models = || document["model_list"].as_array().into_iter().flatten();
    let is_fraction = |entry: &&Value| {
        entry["litellm_params"]["weight"].as_f64().is_some_and(|weight| weight.fract() != 0.0)
    };
    let file = File {
        context,
        variables: &document["environment_variables"],
        in_hundredths: models()
            .filter(is_fraction)
            .filter_map(|entry| entry["model_name"].as_str())
            .collect(),
    };
    for (at, entry) in models().enumerate() {
        take_model(&mut draft, &format!("model_list[{at}]"), entry, &file);
    }
    take_aliases(&mut draft, &document["router_settings"]["model_group_alias"]);
    for section in ["router_settings", "litellm_settings"] {
        for list in ["fallbacks", "default_fallbacks"] {
            take_fallbacks(&mut draft, &format!("{section}.{list}"), &document[section][list]);
        }
    }
    leave_settings(&mut draft, document);
    draft.finish(Kind::LiteLlm)
}

/// Notes the settings that are not taken.
fn leave_settings(draft: &mut Draft, document: &Value) {
    let no_members = Map::new();
    for (name, value) in document.as_object().unwrap_or(&no_members) {
        match (name.as_str(), value) {
            ("model_list", _) => {}
            // These variables are read where they are used; the others belong to that program.
            ("environment_variables", _) => {}
            ("general_settings", Value::Object(members)) => {
                if members.contains_key("master_key") {
                    let reason =
                        "the master key is not imported as a key: set it as PROXY_TOKEN, or make keys";
                    draft.leave("general_settings.master_key", reason);
                }
                if members.keys().any(|member| member != "master_key") {
                    draft.leave(
                        "general_settings",
                        "settings of that program; its keys and teams are in its database",
                    );
                }
            }
            ("router_settings" | "litellm_settings", Value::Object(members)) => {
                let taken = ["model_group_alias", "fallbacks", "default_fallbacks"];
                for member in members.keys().filter(|member| !taken.contains(&member.as_str())) {
                    draft.leave(format!("{name}.{member}"), "a setting of that program");
                }
            }
            (_, Value::Null) => {}
            _ => draft.leave(name, "a setting of that program"),
        }
    }
}

/// Properties that hold for all entries of a file.
struct File<'d> {
    context: &'d Context,
    /// The variables that the file itself sets.
    variables: &'d Value,
    /// The models for which some weight is not an integer.
    in_hundredths: HashSet<&'d str>,
}

impl File<'_> {
    /// Returns the text of a member, which may be the name of a variable. The error has been noted in the draft.
    fn value(
        &self,
        draft: &mut Draft,
        place: &str,
        member: &str,
        written: Option<&str>,
    ) -> Result<Option<String>, ()> {
        let Some(written) = written else { return Ok(None) };
        let Some(variable) = written.strip_prefix(VARIABLE) else { return Ok(Some(written.to_owned())) };
        let written = self.variables[variable].as_str().map(str::to_owned);
        if let Some(value) = written.or_else(|| self.context.variable.and_then(|read| read(variable))) {
            return Ok(Some(value));
        }
        let reason = match self.context.variable {
            Some(_) => format!(
                "the variable {variable} is not set, or is one of Switchyard's own: use another name, set it and import \
                 again"
            ),
            None => format!(
                "its value is in the environment variable {variable}: import it with `switchyard import`, which reads \
                 variables"
            ),
        };
        draft.leave(format!("{place}.{member}"), reason);
        Err(())
    }
}

fn take_model(draft: &mut Draft, place: &str, entry: &Value, file: &File) {
    let params = &entry["litellm_params"];
    let text = |name: &str| params[name].as_str().map(str::trim).filter(|text| !text.is_empty());
    let name = entry["model_name"].as_str().unwrap_or_default().trim();
    let row = named(place, Some(name));
    let Some(model) = text("model") else {
        draft.leave(&*row, "it has no litellm_params.model");
        return;
    };
    let upstream = match litellm_providers::find(model, text("custom_llm_provider")) {
        Ok(upstream) => upstream,
        Err(reason) => {
            draft.leave(&*row, reason);
            return;
        }
    };
    let Ok(address) = file.value(draft, place, "api_base", text("api_base")) else { return };
    let Ok(address) = address
        .map_or_else(|| file.value(draft, place, "base_url", text("base_url")), |address| Ok(Some(address)))
    else {
        return;
    };
    let Ok(key) = file.value(draft, place, "api_key", text("api_key")) else { return };
    let url = address.as_deref().unwrap_or(upstream.url);
    if url.is_empty() {
        draft.leave(&*row, "it has no api_base");
        return;
    }
    let Some(key) = key else {
        draft.leave(
            row,
            "it has no api_key, for which LiteLLM reads a variable of the provider: write the key into the \
             file",
        );
        return;
    };
    let Some(site) = draft.site(&row, platform_of(&upstream, url), url, "") else { return };
    let Some(account) = draft.key_account(&row, site, name, &key) else { return };
    leave_details(draft, place, entry);
    if name.contains('*') || upstream.model.contains('*') {
        draft.leave(
            row,
            "a wildcard: the account is imported, and routes are created for the models that it lists",
        );
        return;
    }
    let Some(route) = draft.route(place, name) else { return };
    let channel = Channel {
        route,
        account,
        source_model: upstream.model.to_owned(),
        priority: params["order"].as_i64().unwrap_or(0),
        weight: params["weight"].as_f64().map_or(DEFAULT_WEIGHT, |weight| {
            let unit = if file.in_hundredths.contains(name) { 100.0 } else { 1.0 };
            (weight * unit).round() as i64
        }),
        enabled: true,
    };
    draft.channel(place, channel);
}

fn platform_of(upstream: &litellm_providers::Upstream, url: &str) -> Platform {
    match upstream.platform {
        Platform::OpenAi => match platform_at(url, Platform::OpenAi) {
            // These vendors speak OpenAI's dialects only below a separate path.
            Platform::Claude | Platform::Gemini => Platform::OpenAi,
            known => known,
        },
        platform => platform,
    }
}

/// Notes the members of an entry that are not taken.
fn leave_details(draft: &mut Draft, place: &str, entry: &Value) {
    for member in entry["litellm_params"].as_object().into_iter().flat_map(Map::keys) {
        if !TAKEN.contains(&member.as_str()) {
            draft.leave(format!("{place}.litellm_params.{member}"), "a setting of that program");
        }
    }
    draft.leave_unknown(place, entry, &["model_name", "litellm_params", "model_info"]);
    if entry["model_info"].as_object().is_some_and(|info| !info.is_empty()) {
        draft.leave(
            format!("{place}.model_info"),
            "details of a model: prices and limits are read from the sites",
        );
    }
}

fn take_aliases(draft: &mut Draft, aliases: &Value) {
    let no_members = Map::new();
    for (alias, target) in aliases.as_object().unwrap_or(&no_members).iter().take(MAX_ALIASES) {
        let place = format!("router_settings.model_group_alias.{alias}");
        let target = target.as_str().or_else(|| target["model"].as_str()).unwrap_or_default();
        let Some(known) = draft.known_route(target) else {
            draft.leave(place, "the model that it stands for was not imported");
            continue;
        };
        let Some(route) = draft.route(&place, alias) else { continue };
        for channel in draft.channels_of(known) {
            draft.channel(&place, Channel { route, ..channel });
        }
    }
}

/// Adds the channels of each fallback after those that the route already has.
fn take_fallbacks(draft: &mut Draft, place: &str, fallbacks: &Value) {
    for entry in fallbacks.as_array().into_iter().flatten().take(MAX_ALIASES) {
        let Value::Object(entry) = entry else {
            draft.leave(place, "fallbacks for all models: add them to the routes that need them");
            continue;
        };
        for (model, others) in entry {
            let Some(route) = draft.known_route(model) else {
                draft.leave(format!("{place}.{model}"), "the model was not imported");
                continue;
            };
            let own = draft.channels_of(route);
            let mut last = own.iter().map(|channel| channel.priority).max().unwrap_or(0);
            for other in others.as_array().into_iter().flatten().take(MAX_FALLBACKS) {
                let name = other.as_str().unwrap_or_default();
                let Some(known) = draft.known_route(name).filter(|known| *known != route) else {
                    draft.leave(format!("{place}.{model}"), "a fallback that was not imported");
                    continue;
                };
                let behind = last + 1;
                for channel in draft.channels_of(known) {
                    let priority = behind.saturating_add(channel.priority);
                    last = last.max(priority);
                    draft.channel(&format!("{place}.{model}"), Channel { route, priority, ..channel });
                }
            }
        }
    }
}
