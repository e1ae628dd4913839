//! Metrics by channel and model: `channel` is the channel's id, `site` the name of its site, `model` the upstream's
//! model name.

use std::collections::HashMap;
use std::sync::Arc;

use super::page::Page;
use crate::core::Core;
use crate::ids::ChannelId;
use crate::metrics::series::Series;
use crate::routing::{Snapshot, cooling_until};
use crate::time;

/// The label value that stands for everything beyond the maximum.
const OTHER: &str = "other";

/// A series with its labels.
struct Labelled {
    channel: String,
    site: String,
    model: String,
    series: Arc<Series>,
}

/// Writes the metric families by channel and model, with at most the configured number of label sets and one for the
/// rest.
pub(super) fn write(page: &mut Page, core: &Core) {
    let snapshot = core.snapshot.load_full();
    let sites: HashMap<ChannelId, &str> =
        snapshot.channels().map(|channel| (channel.id, channel.account.site.name.as_str())).collect();
    core.metrics.series.retain(|channel| sites.contains_key(&channel));
    let all: Vec<_> =
        core.metrics.series.all().into_iter().map(|series| Labelled::of(series, &sites)).collect();
    counts(page, &all);
    times(page, &all);
    page.family(
        "switchyard_channel_requests_in_flight",
        "gauge",
        "Attempts in progress, by channel and model.",
    );
    for one in &all {
        page.sample(&one.labels(), one.series.in_flight());
    }
    cooling(page, &snapshot, core.config.metrics_max_series);
}

fn counts(page: &mut Page, all: &[Labelled]) {
    page.family(
        "switchyard_channel_requests_total",
        "counter",
        "Attempts that ended, by channel, model and class of the upstream's status; `none` means no answer.",
    );
    for one in all {
        for (status, count) in one.series.statuses().filter(|(_, count)| *count > 0) {
            let [channel, site, model] = one.labels();
            page.sample(&[channel, site, model, ("status", status)], count);
        }
    }
    page.family(
        "switchyard_channel_failures_total",
        "counter",
        "Attempts that failed, including those cut off in the middle of an answer or by the client.",
    );
    for one in all {
        page.sample(&one.labels(), one.series.failures());
    }
    page.family(
        "switchyard_channel_tokens_total",
        "counter",
        "Tokens as the upstream reports them; input includes tokens read from and written to caches.",
    );
    for one in all {
        for (kind, count) in one.series.tokens() {
            let [channel, site, model] = one.labels();
            page.sample(&[channel, site, model, ("kind", kind)], count);
        }
    }
    page.family("switchyard_channel_cost_usd_total", "counter", "Estimated cost in US dollars.");
    for one in all {
        page.sample(&one.labels(), one.series.cost().dollars());
    }
}

fn times(page: &mut Page, all: &[Labelled]) {
    page.family(
        "switchyard_channel_first_byte_seconds",
        "histogram",
        "Time to the first byte of an answer's body.",
    );
    for one in all {
        page.histogram(&one.labels(), &one.series.first_byte().read());
    }
    page.family(
        "switchyard_channel_duration_seconds",
        "histogram",
        "Time from the start to the end of an attempt.",
    );
    for one in all {
        page.histogram(&one.labels(), &one.series.duration().read());
    }
}

/// Writes one sample per channel; its model is the channel's source model, or the pattern of its route.
fn cooling(page: &mut Page, snapshot: &Snapshot, most: usize) {
    page.family(
        "switchyard_channel_cooling",
        "gauge",
        "1 while a channel is cooling down after a failure, else 0.",
    );
    let now = time::now_ms();
    let routes = snapshot.routes().iter().filter(|route| !route.is_group());
    let channels = routes.flat_map(|route| route.channels.iter().map(move |channel| (route, channel)));
    let mut rest = None;
    for (number, (route, channel)) in channels.enumerate() {
        let is_cooling = u64::from(cooling_until(channel, now).is_some());
        if number >= most {
            *rest.get_or_insert(0) += is_cooling;
            continue;
        }
        let id = channel.id.to_string();
        let model = channel.source_model.as_ref().unwrap_or(&route.pattern).as_str();
        page.sample(&[("channel", &id), ("site", &channel.account.site.name), ("model", model)], is_cooling);
    }
    if let Some(rest) = rest {
        page.sample(&[("channel", OTHER), ("site", OTHER), ("model", OTHER)], rest);
    }
}

impl Labelled {
    fn of(series: Arc<Series>, sites: &HashMap<ChannelId, &str>) -> Self {
        let (channel, site, model) = match series.pair() {
            Some((channel, model)) => {
                let site = sites.get(&channel).copied().unwrap_or_default();
                (channel.to_string(), site.to_owned(), model.to_owned())
            }
            None => (OTHER.to_owned(), OTHER.to_owned(), OTHER.to_owned()),
        };
        Self { channel, site, model, series }
    }

    fn labels(&self) -> [(&str, &str); 3] {
        [("channel", &self.channel), ("site", &self.site), ("model", &self.model)]
    }
}
