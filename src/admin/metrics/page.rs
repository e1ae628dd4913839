//! Writes the Prometheus text form, family by family.

use std::fmt::{Display, Write};

use crate::metrics::histogram::HistogramValues;

/// A metrics page in the text form.
#[derive(Default)]
pub(super) struct Page {
    pub(super) text: String,
    /// The name of the family that samples are added to.
    family: &'static str,
}

impl Page {
    pub(super) fn counter(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.sample(&[], value);
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(&[], value);
    }

    /// Begins a family. The help is the gateway's own text, one line without backslashes, and is not escaped.
    pub(super) fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, None, value);
    }

    /// Writes the buckets, the sum and the count of one histogram.
    pub(super) fn histogram(&mut self, labels: &[(&str, &str)], reading: &HistogramValues) {
        for (bound, count) in &reading.buckets {
            self.line("_bucket", labels, Some(("le", bound)), count);
        }
        self.line("_sum", labels, None, reading.sum_seconds);
        self.line("_count", labels, None, reading.count);
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: &[(&str, &str)],
        last: Option<(&str, &str)>,
        value: impl Display,
    ) {
        let family = self.family;
        self.write(format_args!("{family}{suffix}"));
        let mut opening = '{';
        for (name, value) in labels.iter().copied().chain(last) {
            self.write(format_args!("{opening}{name}=\""));
            self.escaped(value);
            self.text.push('"');
            opening = ',';
        }
        if opening == ',' {
            self.text.push('}');
        }
        self.write(format_args!(" {value}\n"));
    }

    /// Escapes a label value: names of sites and models may contain any character.
    fn escaped(&mut self, value: &str) {
        for letter in value.chars() {
            match letter {
                '\\' => self.text.push_str(r"\\"),
                '"' => self.text.push_str(r#"\""#),
                '\n' => self.text.push_str(r"\n"),
                letter => self.text.push(letter),
            }
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("writing to a String cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_in_the_text_form() {
        let mut page = Page::default();
        page.family("a_total", "counter", "How many a.");
        page.sample(&[("kind", "x"), ("status", "2xx")], 3);
        page.gauge("b_seconds", "Time of b.", 1.5);
        assert_eq!(
            page.text,
            "# HELP a_total How many a.\n# TYPE a_total counter\na_total{kind=\"x\",status=\"2xx\"} 3\n\
             # HELP b_seconds Time of b.\n# TYPE b_seconds gauge\nb_seconds 1.5\n"
        );
    }

    #[test]
    fn a_histogram_has_its_buckets_then_its_sum_and_count() {
        let mut page = Page::default();
        page.family("a_seconds", "histogram", "Time of a.");
        let reading = HistogramValues { buckets: vec![("0.5", 1), ("+Inf", 3)], sum_seconds: 2.25, count: 3 };
        page.histogram(&[("model", "m")], &reading);
        page.histogram(&[], &reading);
        let (_, samples) = page.text.split_once("histogram\n").expect("a head");
        assert_eq!(
            samples,
            "a_seconds_bucket{model=\"m\",le=\"0.5\"} 1\na_seconds_bucket{model=\"m\",le=\"+Inf\"} 3\n\
             a_seconds_sum{model=\"m\"} 2.25\na_seconds_count{model=\"m\"} 3\n\
             a_seconds_bucket{le=\"0.5\"} 1\na_seconds_bucket{le=\"+Inf\"} 3\n\
             a_seconds_sum 2.25\na_seconds_count 3\n"
        );
    }

    #[test]
    fn no_name_breaks_out_of_its_label() {
        let mut page = Page::default();
        page.family("a", "gauge", "A.");
        page.sample(&[("site", "a\"} 1\nb{c=\"\\")], 0);
        assert!(page.text.ends_with("a{site=\"a\\\"} 1\\nb{c=\\\"\\\\\"} 0\n"), "{}", page.text);
    }
}
