//! The service's metrics about its channels: `/metrics`, as Prometheus reads it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::support::{Gate, Gateway, Pair, Reply, Upstream, eventually, wire};

/// Samples by family name, suffix included, and labels.
type Samples = BTreeMap<(String, BTreeMap<String, String>), f64>;

/// Parses a page as strictly as its format is described: every family has its HELP and TYPE before its samples and occurs
/// once, no sample occurs twice, and histograms are complete.
#[track_caller]
fn parse(page: &str) -> Samples {
    assert!(page.ends_with('\n'), "the last line ends");
    let mut kinds = BTreeMap::new();
    let mut family = (String::new(), String::new());
    let mut samples = Samples::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(!help.is_empty() && !help.contains('\\'), "{line}");
            family = (name.to_owned(), String::new());
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(name, family.0, "the type stands behind the help");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} comes once");
            assert!(kind != "counter" || name.ends_with("_total"), "{line}");
            family.1 = kind.to_owned();
            continue;
        }
        let (name, labels, value) = sample(line);
        let suffix = name.strip_prefix(&family.0).unwrap_or_else(|| panic!("{line} in {}", family.0));
        match family.1.as_str() {
            "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
            _ => assert_eq!(suffix, "", "{line}"),
        }
        assert_eq!(labels.contains_key("le"), suffix == "_bucket", "{line}");
        assert!(samples.insert((name, labels), value).is_none(), "{line} comes twice");
    }
    check_histograms(&samples);
    samples
}

/// Parses a line into its name, its labels and its value.
#[track_caller]
fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').expect("a name");
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label");
            assert!(label.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{line}");
            let mut value = String::new();
            let mut letters = after.chars();
            loop {
                match letters.next().expect("a closing quote") {
                    '"' => break,
                    '\\' => value.push(match letters.next() {
                        Some('n') => '\n',
                        Some(letter @ ('\\' | '"')) => letter,
                        other => panic!("the escape {other:?} in {line}"),
                    }),
                    letter => value.push(letter),
                }
            }
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            rest = letters.as_str();
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').expect("the end of the labels");
    }
    let value = rest.strip_prefix(' ').expect("one blank").parse().expect("a number");
    (name.to_owned(), labels, value)
}

/// Checks that the buckets of every histogram grow to its count.
#[track_caller]
fn check_histograms(samples: &Samples) {
    let mut buckets: BTreeMap<_, Vec<(f64, f64)>> = BTreeMap::new();
    for ((name, labels), value) in samples {
        let Some(name) = name.strip_suffix("_bucket") else { continue };
        let mut labels = labels.clone();
        let bound = labels.remove("le").expect("a bound").replace("+Inf", "inf").parse().expect("a bound");
        buckets.entry((name.to_owned(), labels)).or_default().push((bound, *value));
    }
    assert!(!buckets.is_empty() || !samples.keys().any(|(name, _)| name.ends_with("_sum")));
    for ((name, labels), mut bounds) in buckets {
        bounds.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(bounds.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{name} {labels:?} {bounds:?}");
        let last = bounds.last().expect("a bucket");
        assert_eq!(last.0, f64::INFINITY, "{name}");
        let count = samples[&(format!("{name}_count"), labels.clone())];
        assert_eq!(last.1, count, "{name} {labels:?}");
        assert!(samples[&(format!("{name}_sum"), labels)] >= 0.0, "{name}");
    }
}

#[track_caller]
fn scrape(gateway: &Gateway) -> Samples {
    parse(&gateway.admin().get("/metrics").text())
}

/// Sums the samples that have these labels.
fn sum(samples: &Samples, name: &str, labels: &[(&str, &str)]) -> f64 {
    let has = |all: &BTreeMap<String, String>| {
        labels.iter().all(|(label, value)| all.get(*label).is_some_and(|own| own == value))
    };
    samples.iter().filter(|((own, all), _)| own == name && has(all)).map(|(_, value)| value).sum()
}

#[test]
fn what_a_channel_does_with_a_model_is_told_as_prometheus_reads_it() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&["model-m"]);
    let answer = json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1790000000, "model": "model-m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1200, "completion_tokens": 34, "total_tokens": 1234,
            "prompt_tokens_details": {"cached_tokens": 1024, "cache_creation_tokens": 100}}});
    upstream.answer_model("/v1/chat/completions", "model-m", Reply::json(200, &answer));
    let site = "the \"best\" \\ of sites";
    gateway.add(site, &upstream);
    let channel = gateway.wait_for_channels("model-m", 1)[0]["id"].to_string();
    gateway.client().chat("model-m").expect(200);
    gateway.client().chat("model-m").expect(200);
    let labels = [("channel", channel.as_str()), ("site", site), ("model", "model-m")];
    let requests = "switchyard_channel_requests_total";
    let samples = eventually("both requests are counted", || {
        let samples = scrape(&gateway);
        (sum(&samples, requests, &labels) == 2.0).then_some(samples)
    });
    let of = |name: &str, label: &[(&str, &str)]| sum(&samples, name, &[&labels, label].concat());
    assert_eq!(of(requests, &[("status", "2xx")]), 2.0);
    for (kind, tokens) in
        [("input", 2400.0), ("output", 68.0), ("cache_read", 2048.0), ("cache_creation", 200.0)]
    {
        assert_eq!(of("switchyard_channel_tokens_total", &[("kind", kind)]), tokens, "{kind}");
    }
    assert!(of("switchyard_channel_cost_usd_total", &[]) > 0.0);
    assert_eq!(of("switchyard_channel_first_byte_seconds_count", &[]), 2.0);
    assert_eq!(of("switchyard_channel_duration_seconds_count", &[]), 2.0);
    assert_eq!(of("switchyard_channel_duration_seconds_bucket", &[("le", "+Inf")]), 2.0);
    assert_eq!(of("switchyard_channel_requests_in_flight", &[]), 0.0);
    assert_eq!(of("switchyard_channel_failures_total", &[]), 0.0);
    assert!(samples.contains_key(&(
        "switchyard_channel_cooling".to_owned(),
        labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    )));
}

#[test]
fn a_channel_that_fails_is_told_as_failing_and_cooling() {
    let pair = Pair::start();
    pair.first.answer("/v1/chat/completions", Reply::error(503, "down"));
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    let samples = eventually("the fail-over is counted", || {
        let samples = scrape(&pair.gateway);
        let served =
            sum(&samples, "switchyard_channel_requests_total", &[("site", "second"), ("status", "2xx")]);
        (served == 1.0).then_some(samples)
    });
    let first = [("site", "first"), ("model", Pair::MODEL)];
    let of_class =
        |class| sum(&samples, "switchyard_channel_requests_total", &[first[0], first[1], ("status", class)]);
    assert_eq!((of_class("5xx"), of_class("2xx")), (1.0, 0.0));
    assert_eq!(sum(&samples, "switchyard_channel_failures_total", &first), 1.0);
    assert_eq!(sum(&samples, "switchyard_channel_cooling", &first), 1.0);
    assert_eq!(sum(&samples, "switchyard_channel_cooling", &[("site", "second")]), 0.0);
}

#[test]
fn a_request_at_work_is_in_flight_at_its_channel_and_model() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&["model-m"]);
    let gate = Gate::new();
    let answer = Reply::json(200, &wire::chat("model-m")).head_waits_for(&gate);
    upstream.answer_model("/v1/chat/completions", "model-m", answer);
    gateway.add("site", &upstream);
    gateway.wait_for_channels("model-m", 1);
    let client = gateway.client();
    let asking = std::thread::spawn(move || client.chat("model-m").expect(200));
    let labels = [("site", "site"), ("model", "model-m")];
    let in_flight = || sum(&scrape(&gateway), "switchyard_channel_requests_in_flight", &labels);
    eventually("the request is in flight", || (in_flight() == 1.0).then_some(()));
    gate.open();
    asking.join().expect("an answer");
    eventually("it is over", || (in_flight() == 0.0).then_some(()));
}

#[test]
fn beyond_the_bound_of_series_the_rest_counts_under_other() {
    let models = ["model-a", "model-b", "model-c", "model-d"];
    let gateway = Gateway::with(&[("METRICS_MAX_SERIES", "2")]);
    let upstream = Upstream::start(&models);
    let (site, _) = gateway.add("site", &upstream);
    for model in models {
        gateway.wait_for_channels(model, 1);
        gateway.client().chat(model).expect(200);
    }
    let requests = "switchyard_channel_requests_total";
    let samples = eventually("all are counted", || {
        let samples = scrape(&gateway);
        (sum(&samples, requests, &[]) == 4.0).then_some(samples)
    });
    assert_eq!(sum(&samples, requests, &[("channel", "other"), ("site", "other"), ("model", "other")]), 2.0);
    for family in [requests, "switchyard_channel_cooling", "switchyard_channel_duration_seconds_sum"] {
        let own = samples.keys().filter(|(name, _)| name == family);
        let sets: BTreeSet<_> = own.map(|(_, labels)| labels["channel"].clone()).collect();
        assert_eq!((sets.len(), sets.contains("other")), (3, true), "{family}: {sets:?}");
    }
    gateway.admin().delete(&format!("/api/sites/{}", site["id"])).expect(200);
    eventually("the series of deleted channels are gone", || {
        (sum(&scrape(&gateway), requests, &[]) == 2.0).then_some(())
    });
}
