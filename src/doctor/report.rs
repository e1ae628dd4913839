//! The findings of all checks: a table for people, JSON for programs.

use std::fmt::Write as _;

use crate::one_line::one_line;
use serde::Serialize;
use serde_json::json;

/// The findings of all checks, in the order of the checks.
#[derive(Default)]
pub struct Report(Vec<Finding>);

#[derive(Serialize)]
struct Finding {
    check: String,
    result: Verdict,
    detail: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Failed,
}

impl Report {
    pub(super) fn fine(&mut self, check: &str, detail: String) {
        self.add(check, Verdict::Ok, detail);
    }

    pub(super) fn doubtful(&mut self, check: &str, detail: String) {
        self.add(check, Verdict::Warning, detail);
    }

    pub(super) fn failed(&mut self, check: &str, detail: String) {
        self.add(check, Verdict::Failed, detail);
    }

    pub fn has_failure(&self) -> bool {
        self.0.iter().any(|finding| finding.result == Verdict::Failed)
    }

    /// Returns the number of findings that are not fine.
    pub(super) fn troubles(&self) -> usize {
        self.0.iter().filter(|finding| finding.result != Verdict::Ok).count()
    }

    fn add(&mut self, check: &str, result: Verdict, detail: String) {
        // Names of sites and messages of upstreams may contain anything: none of them may begin a new line.
        self.0.push(Finding { check: one_line(check), result, detail: one_line(&detail) });
    }

    pub fn json(&self) -> String {
        format!("{:#}\n", json!({ "ok": !self.has_failure(), "checks": self.0 }))
    }

    pub fn table(&self) -> String {
        let width = self.0.iter().map(|finding| finding.check.chars().count()).max().unwrap_or(0);
        let mut table = String::new();
        for Finding { check, result, detail } in &self.0 {
            let result = match result {
                Verdict::Ok => "ok",
                Verdict::Warning => "WARNING",
                Verdict::Failed => "FAILED",
            };
            // Writing to a String cannot fail.
            let _ = writeln!(table, "{check:width$}  {result:7}  {detail}");
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_of_the_table() {
        let mut report = Report::default();
        report.fine("database", "sound".to_owned());
        report.doubtful("site a\nb", "slow\r\n\x1b[31m".to_owned());
        assert!(!report.has_failure() && report.troubles() == 1);
        report.failed("clock", "wrong".to_owned());
        assert_eq!(
            report.table(),
            "database  ok       sound\nsite a b  WARNING  slow [31m\nclock     FAILED   wrong\n"
        );
        assert!(report.has_failure());
        let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
        assert_eq!((&json["ok"], &json["checks"][2]["result"]), (&json!(false), &json!("failed")));
    }
}
