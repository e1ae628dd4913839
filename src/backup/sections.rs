//! The sections of a document, and whether it is intact.

use std::io;

use serde_json::Value;

use super::document::Document;
use crate::store::staging::tables::TABLES;

/// The paths of a document's sections; `None` for one that it does not have.
#[derive(Debug, Default)]
pub struct SectionPaths {
    pub accounts: Option<&'static [&'static str]>,
    pub preferences: Option<&'static [&'static str]>,
}

/// Verifies the checksum, then finds the sections.
///
/// # Errors
/// The outer error is the disk's; the inner one is for people.
pub fn find(document: &Document) -> io::Result<Result<SectionPaths, String>> {
    if let Err(why) = check(document)? {
        return Ok(Err(why));
    }
    Ok(sections(document))
}

fn check(document: &Document) -> io::Result<Result<(), String>> {
    let refused = |why: &str| Ok(Err(why.to_owned()));
    let is_said = |path: &[&str]| document.value(path).is_some_and(|value| !value.is_null());
    if !is_said(&["timestamp"]) && !is_said(&["data", "timestamp"]) {
        return refused("The document has no timestamp, so it is not a backup");
    }
    match document.value(&["checksum"]) {
        None if document.has(&["checksum"]) => refused("The checksum of the document is not a string"),
        None | Some(Value::Null) => {
            // If one byte of its name is damaged, the checksum is not missing, only not found by its name.
            let is_checksum = |value: &Value| value.as_str().is_some_and(|text| text.starts_with("sha256:"));
            let members = document.members(&[]);
            match members.iter().find(|name| document.value(&[name]).as_ref().is_some_and(is_checksum)) {
                Some(name) => Ok(Err(format!(
                    "The document is damaged: its checksum has the name {name:?}, which no backup has"
                ))),
                None => Ok(Ok(())),
            }
        }
        Some(said) => {
            let fits = match said.as_str() {
                Some(checksum) => document.has_checksum(checksum)?,
                None => false,
            };
            if fits {
                return Ok(Ok(()));
            }
            refused("The checksum of the document does not match what is in it: it is damaged or was changed")
        }
    }
}

fn sections(document: &Document) -> Result<SectionPaths, String> {
    const ACCOUNTS: &[&[&str]] = &[&["accounts"], &["data", "accounts"]];
    const PREFERENCES: &[&[&str]] = &[&["preferences"], &["data", "preferences"]];
    const ARRAYS: &str = "sites, accounts, accountTokens, tokenRoutes and routeChannels";
    let has_array = |place: &[&str], array: &str| document.is_array(&[place, &[array]].concat());
    let has_all =
        |place: &&&[&str]| TABLES.iter().filter(|table| table.required).all(|t| has_array(place, t.array));
    // The root itself may be a section.
    let root: &[&[&str]] = &[&[]];
    let found = SectionPaths {
        accounts: root.iter().chain(ACCOUNTS).find(has_all).copied(),
        preferences: root.iter().chain(PREFERENCES).find(|place| has_array(place, "settings")).copied(),
    };
    if let Some(place) = found.accounts {
        for table in TABLES {
            let path = [place, &[table.array]].concat();
            let is_null = document.value(&path).is_some_and(|value| value.is_null());
            if document.has(&path) && !document.is_array(&path) && !is_null {
                return Err(format!("Invalid {}. Expected array.", table.array));
            }
        }
    }
    let kind = document.value(&["type"]);
    let is_of_type = |name: &str| kind.as_ref().is_some_and(|kind| kind == name);
    let has_any = |places: &[&[&str]]| {
        places
            .iter()
            .any(|place| document.has(place) && !document.value(place).is_some_and(|value| value.is_null()))
    };
    if found.accounts.is_none() && (is_of_type("accounts") || has_any(ACCOUNTS)) {
        return Err(format!("The accounts of the document need the arrays {ARRAYS}"));
    }
    if found.preferences.is_none() && (is_of_type("preferences") || has_any(PREFERENCES)) {
        return Err("The preferences of the document need the array settings".to_owned());
    }
    if found.accounts.is_none() && found.preferences.is_none() {
        return Err(format!(
            "The document has nothing to import: neither accounts (the arrays {ARRAYS}) nor preferences (the array settings)"
        ));
    }
    Ok(found)
}
