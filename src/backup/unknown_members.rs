//! Members of our own documents that this release does not know, because a newer one wrote them. They are not imported,
//! which the report has to say. Other programs' documents have many such members by nature.

use std::collections::BTreeSet;

use serde_json::Value;

use super::document::Document;
use super::export::{INSTALLATION, VERSION};
use super::sections::SectionPaths;
use crate::one_line::short_line;
use crate::store::staging::tables::{TABLES, Table};

/// The maximum number of members that are listed.
const MAX_LISTED: usize = 50;
/// The maximum length of a name in a report, in characters.
const MAX_NAME: usize = 60;
/// The members of a whole document.
const ROOT: &[&str] =
    &["version", "timestamp", "type", "format", INSTALLATION, "accounts", "preferences", "checksum"];

/// Collects the unknown members of one document.
#[derive(Default)]
pub struct UnknownMembers {
    /// Whether the document is one of our own.
    is_ours: bool,
    columns: BTreeSet<(&'static str, String)>,
    warnings: Vec<String>,
}

impl UnknownMembers {
    /// Begins with the members outside of rows.
    pub fn of(document: &Document, found: &SectionPaths) -> Self {
        let is_ours = document.is_own();
        let mut unknown = Self { is_ours, ..Self::default() };
        if !is_ours {
            return unknown;
        }
        let version = document.value(&["version"]).unwrap_or_default();
        if version != VERSION {
            let version = short_line(&version.to_string(), MAX_NAME, "…");
            unknown.warnings.push(format!(
                "the document has version {version}, and this release writes version {VERSION}: what it does not \
                 know is left out"
            ));
        }
        let mut list = |place: &[&str], is_known: &dyn Fn(&str) -> bool, what: &str| {
            let members = document.members(place).into_iter().filter(|name| !is_known(name)).take(MAX_LISTED);
            unknown
                .warnings
                .extend(members.map(|name| format!("{}: {what}", short_line(name, MAX_NAME, "…"))));
        };
        let is_array = |name: &str| TABLES.iter().any(|table| table.array == name);
        match found.accounts {
            // The root itself may be a section.
            Some([]) => {}
            accounts => {
                list(&[], &|name| ROOT.contains(&name), "an unknown member of the document");
                list(accounts.unwrap_or(&["accounts"]), &is_array, "an unknown array");
            }
        }
        if let Some(place @ [_, ..]) = found.preferences {
            list(place, &|name| name == "settings", "an unknown member of the preferences");
        }
        unknown
    }

    /// Adds those of a row.
    pub fn add_row(&mut self, table: &'static Table, row: &Value) {
        if !self.is_ours || self.columns.len() >= MAX_LISTED {
            return;
        }
        let is_known = |name: &str| {
            let is_column = table.columns.iter().any(|column| column.json == name);
            is_column || name == "id" || (table.has_extra_config && name == "extraConfig")
        };
        for name in row.as_object().into_iter().flatten().map(|(name, _)| name) {
            if !is_known(name) {
                self.columns.insert((table.array, short_line(name, MAX_NAME, "…")));
            }
        }
    }

    /// Returns the warnings for the report.
    pub fn warnings(self) -> impl Iterator<Item = String> {
        let columns = self.columns.into_iter().take(MAX_LISTED);
        self.warnings
            .into_iter()
            .chain(columns.map(|(array, name)| format!("{array}[].{name}: an unknown column")))
    }
}
