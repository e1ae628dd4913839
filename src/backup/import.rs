//! The import: a document is checked, staged, compared with the stored rows, and applied in one transaction.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::document::Document;
use super::doubts;
use super::export::{INSTALLATION, installation};
use super::options::ImportOptions;
use super::plan;
use super::preferences::{self, SettingOutcome};
use super::progress::Stage;
use super::report::{ImportError, Report, RowReport, Sections};
use super::rows::RowReader;
use super::sections::{self, SectionPaths};
use super::unknown_members::UnknownMembers;
use crate::core::Core;
use crate::idle_thread::wait_for_idle_thread;
use crate::store::events::{EventLevel, NewEvent};
use crate::store::staging::tables::TABLES;
use crate::store::staging::{Action, Counts, Fate, Policy, Staging};
use crate::store::{self, Hashing, Secret, Statement, Store, keys, settings};
use crate::time::{Millis, now_ms};

/// The maximum number of rows that a report lists one by one.
const MAX_REPORTED: usize = 10_000;
/// The maximum number of rows that are listed as left out.
const MAX_LISTED: usize = 1000;
/// How often an import is planned at most because rows change under the plan.
const ATTEMPTS: usize = 3;

/// Imports a document: all of it, or nothing. What is committed is in force when this returns.
pub async fn import(
    core: &Arc<Core>,
    document: Document,
    options: ImportOptions,
) -> Result<Report, ImportError> {
    let runtime = Handle::current();
    let resets = core.resets();
    let import = Import { core: core.clone(), options, runtime, resets };
    let ended = tokio::task::spawn_blocking(move || import.run(&document)).await;
    let report = ended.map_err(|error| store::Error::Database(error.to_string()))??;
    if !report.dry_run {
        core.reload_settings().await?;
        core.publish_keys().await?;
        core.publish().await?;
    }
    Ok(report)
}

struct Import {
    core: Arc<Core>,
    options: ImportOptions,
    runtime: Handle,
    /// The number of factory resets before the import began.
    resets: u64,
}

/// One attempt at an import; it fails if stored rows change between the comparison and the transaction.
struct Attempt<'a> {
    import: &'a Import,
    document: &'a Document,
    found: &'a SectionPaths,
    policy: Policy,
    /// Keeps the index key unchanged until the hashes made with it are stored.
    hashing: Hashing<'a>,
}

/// The content of a document on its way into the store.
struct Staged {
    rows: Staging,
    settings: Vec<SettingOutcome>,
    report: Report,
}

impl Import {
    fn run(&self, document: &Document) -> Result<Report, ImportError> {
        // Locked here, because this thread continues even when nobody waits for it any more.
        let _turn = self.runtime.block_on(self.core.imports.lock());
        self.options.progress.begin(Stage::Checking, 0);
        let found = wait_for_idle_thread(|| sections::find(document))??.map_err(ImportError::Refused)?;
        let mut attempt = 1;
        loop {
            match self.attempt(document, &found).run() {
                Err(ImportError::Store(
                    error @ (store::Error::Conflict(_) | store::Error::Dangling(_) | store::Error::NotFound),
                )) if attempt < ATTEMPTS => {
                    log::info!("an import is planned again, because rows changed in the meantime: {error}");
                    attempt += 1;
                }
                // Rows that the document updates were deleted each time.
                Err(ImportError::Store(store::Error::NotFound)) => return Err(store::Error::Busy.into()),
                done => return done,
            }
        }
    }

    fn attempt<'a>(&'a self, document: &'a Document, found: &'a SectionPaths) -> Attempt<'a> {
        let hashing = self.runtime.block_on(self.core.store.sealer().hashing());
        Attempt { import: self, document, found, policy: self.policy(document), hashing }
    }

    fn policy(&self, document: &Document) -> Policy {
        let installation = installation(&self.core.store);
        Policy {
            replaces: !self.options.merge,
            conflict: self.options.conflict,
            is_own: document.value(&[INSTALLATION]).is_some_and(|named| named == installation),
        }
    }
}

impl Attempt<'_> {
    fn run(self) -> Result<Report, ImportError> {
        if self.import.options.dry_run {
            return wait_for_idle_thread(|| self.look())?;
        }
        let mut staged = wait_for_idle_thread(|| self.stage())??;
        // Requests wait for these locks, so that what follows is not left to an idle thread.
        let _edits = self.import.runtime.block_on(self.import.core.lock_all_edits());
        self.compare(&mut staged)?;
        self.write(&mut staged)?;
        Ok(staged.report)
    }

    /// Makes the report of a dry run. It writes nothing, and so it needs no lock.
    fn look(&self) -> Result<Report, ImportError> {
        let mut staged = self.stage()?;
        self.compare(&mut staged)?;
        self.report_rows(&mut staged)?;
        Ok(staged.report)
    }

    /// Stages the rows of the document, and refuses those that cannot be imported whatever is stored.
    fn stage(&self) -> Result<Staged, ImportError> {
        let Import { core, options, .. } = self.import;
        let sections = Sections {
            accounts: self.found.accounts.is_some(),
            preferences: self.found.preferences.is_some(),
        };
        let report = Report { dry_run: options.dry_run, sections, ..Report::default() };
        let rows = Staging::create(&core.store, &core.config.data_dir)?;
        let mut staged = Staged { rows, settings: Vec::new(), report };
        let mut unknown = UnknownMembers::of(self.document, self.found);
        if let Some(place) = self.found.accounts {
            let rows = TABLES.iter().map(|table| self.document.count(&[place, &[table.array]].concat()));
            options.progress.begin(Stage::Staging, rows.sum());
            self.stage_rows(place, &mut staged, &mut unknown)?;
        }
        let Staged { rows, report, .. } = &mut staged;
        report.warnings.extend(unknown.warnings());
        rows.check_references()?;
        report.warnings.extend(nested_groups(rows)?);
        rows.disable_masked_tokens()?;
        report.warnings.extend(further_defaults(rows)?);
        // A dry run tells what happens to each row.
        if !options.dry_run {
            self.judge_refused(&mut staged)?;
        }
        Ok(staged)
    }

    /// Stages every row of the accounts section.
    fn stage_rows(
        &self,
        place: &[&str],
        staged: &mut Staged,
        unknown: &mut UnknownMembers,
    ) -> Result<(), ImportError> {
        let Import { core, options, .. } = self.import;
        let secrets = core.config.secrets_of_imports();
        let reader = RowReader {
            store: &core.store,
            former_secrets: &secrets,
            now: now_ms(),
            leaves_out: options.leaves_out,
        };
        let Staged { rows, report: Report { warnings, .. }, .. } = staged;
        for (index, table) in TABLES.iter().enumerate() {
            let path = [place, &[table.array]].concat();
            if self.document.is_array(&path) {
                rows.give(index);
            }
            for (line, row) in (1..).zip(self.document.rows(&path)) {
                let (row, mut left_out) = (row?, Vec::new());
                unknown.add_row(table, &row);
                match reader.read(table, line, row, &mut left_out) {
                    Ok(row) => {
                        // One row may have many doubts.
                        let room = doubts::MAX_DOUBTS.saturating_sub(warnings.len());
                        warnings.extend(doubts::of(table, &row, left_out).take(room));
                        rows.add(&self.hashing, index, row)?;
                    }
                    Err(refused) => rows.refuse(index, refused.id, &refused.label, &refused.reason)?,
                }
                options.progress.add(1);
            }
        }
        Ok(())
    }

    /// Refuses the document because of its refused rows, or lists them as left out.
    fn judge_refused(&self, staged: &mut Staged) -> Result<(), ImportError> {
        let (count, rows) = staged.rows.refused(MAX_LISTED)?;
        let described = |fate: &Fate| match fate.id {
            Some(id) => format!("{} {id} ({}): {}", fate.array, fate.label, fate.reason),
            None => format!("{} ({}): {}", fate.array, fate.label, fate.reason),
        };
        let Some(first) = rows.first() else { return Ok(()) };
        if self.import.options.leaves_out {
            let warnings = rows
                .iter()
                .map(|fate| format!("{}; the row is left out", described(fate).trim_end_matches('.')));
            staged.report.warnings.extend(warnings);
            let more = count.saturating_sub(rows.len() as u64);
            staged.report.warnings.extend((more > 0).then(|| format!("{more} more row(s) are left out")));
            return Ok(());
        }
        let more = match count - 1 {
            0 => String::new(),
            more => format!(" ({more} more row(s) are refused)"),
        };
        Err(ImportError::Refused(format!("{}{more}", described(first))))
    }

    /// Compares the staged rows and the settings of the document with the stored ones.
    fn compare(&self, staged: &mut Staged) -> Result<(), ImportError> {
        let Import { core, options, resets, .. } = self.import;
        if core.resets() != *resets {
            return Err(ImportError::Refused("A factory reset took place during the import".to_owned()));
        }
        if self.found.accounts.is_some() {
            options.progress.begin(Stage::Comparing, 0);
            plan::match_all(&core.store, &mut staged.rows, self.policy)?;
            plan::renumber_policies(&mut staged.rows, &mut staged.report.warnings)?;
            staged.report.counts = staged.rows.counts(self.policy)?;
            if options.leaves_out {
                for counts in staged.report.counts.values_mut() {
                    counts.skipped += std::mem::take(&mut counts.refused);
                }
            }
        }
        if let Some(place) = self.found.preferences {
            staged.settings = self.compare_settings(place, &mut staged.report)?;
        }
        Ok(())
    }

    /// Decides what happens to each setting of the document.
    fn compare_settings(
        &self,
        place: &[&str],
        report: &mut Report,
    ) -> Result<Vec<SettingOutcome>, ImportError> {
        let Import { core, options, runtime, .. } = self.import;
        let saved: HashMap<String, Secret> = runtime.block_on(settings::all(&core.store))?;
        let current = core.settings.load_full();
        let mut taken: Vec<SettingOutcome> = Vec::new();
        for (index, row) in self.document.rows(&[place, &["settings"]].concat()).enumerate() {
            let Some(one) = preferences::take(&row?, &saved, &current, options) else { continue };
            if one.value.is_none() {
                let name = if one.key.is_empty() {
                    format!("settings[{index}]")
                } else {
                    format!("setting {}", one.key)
                };
                report.warnings.push(format!("{name} skipped: {}", one.reason));
            }
            let warning = one.warning.map(|warning| format!("setting {}: {warning}", one.key));
            report.warnings.extend(warning);
            // Of two rows with the same name, the last one counts.
            taken.retain(|other| other.key != one.key);
            taken.push(one);
        }
        preferences::complete(&mut taken, &saved, &current);
        let mut counts = Counts::default();
        for one in &taken {
            match one.action {
                Action::Created => counts.created += 1,
                Action::Updated => counts.updated += 1,
                Action::Skipped => counts.skipped += 1,
                Action::Refused => counts.refused += 1,
            }
            if let Some(value) = &one.value {
                report.applied_settings.push((one.key.clone(), preferences::masked(&one.key, value)));
            }
        }
        report.counts.insert("settings", counts);
        Ok(taken)
    }

    /// Writes the compared rows and settings in one transaction.
    fn write(&self, staged: &mut Staged) -> Result<(), ImportError> {
        let Import { core, options, runtime, .. } = self.import;
        let (store, now) = (&core.store, now_ms());
        options.progress.begin(Stage::Writing, 0);
        let mut more = puts(store, &staged.settings, now)?;
        more.push(event(&staged.report).insert(now));
        if self.found.accounts.is_some() {
            // Writes waiting log rows before the rows they refer to are deleted.
            runtime.block_on(store.flush());
            let first = runtime.block_on(keys::forget_gone_routes(store))?;
            runtime.block_on(staged.rows.apply(store, self.policy, now, first, more))?;
        } else {
            runtime.block_on(store.batch(more))?;
        }
        Ok(())
    }

    /// Reports what happens to each row and setting.
    fn report_rows(&self, staged: &mut Staged) -> Result<(), ImportError> {
        let fates = staged.rows.fates(MAX_REPORTED)?.into_iter().map(|fate| RowReport {
            section: fate.array,
            id: fate.id,
            label: fate.label,
            action: match fate.action {
                Action::Refused if self.import.options.leaves_out => Action::Skipped,
                action => action,
            },
            reason: fate.reason,
        });
        let settings = staged.settings.iter().map(|one| RowReport {
            section: "settings",
            id: None,
            label: one.key.clone(),
            action: one.action,
            reason: one.reason.clone(),
        });
        let report = &mut staged.report;
        report.rows = fates.chain(settings).take(MAX_REPORTED).collect();
        let total = report.total();
        let all = total.created + total.updated + total.skipped + total.refused;
        report.rows_omitted = all.saturating_sub(report.rows.len() as u64);
        Ok(())
    }
}

/// Builds the statements that store the settings to import.
fn puts(store: &Store, taken: &[SettingOutcome], now: Millis) -> store::Result<Vec<Statement>> {
    let puts = taken.iter().filter_map(|one| Some((&one.key, one.value.as_ref()?)));
    puts.map(|(key, value)| settings::put_statement(store, key, &value.to_string(), now)).collect()
}

/// Leaves out sources of groups that are groups themselves, and returns the warnings about them.
fn nested_groups(staging: &mut Staging) -> Result<Vec<String>, ImportError> {
    let pairs = staging.leave_out_nested_groups(doubts::MAX_DOUBTS)?;
    let warnings = pairs.into_iter().map(|(group, source)| {
        format!("routeGroupSources: route {source} is a group and cannot be a source of group {group}: it is left out")
    });
    Ok(warnings.collect())
}

/// Makes tokens ordinary ones whose accounts have another default token before them, and returns the warnings about them.
fn further_defaults(staging: &mut Staging) -> Result<Vec<String>, ImportError> {
    let ids = staging.keep_one_default_token(doubts::MAX_DOUBTS)?;
    let warnings = ids.into_iter().map(|id| {
        format!(
            "accountTokens {id}: its account has another default token; it is imported as an ordinary one"
        )
    });
    Ok(warnings.collect())
}

fn event(report: &Report) -> NewEvent {
    NewEvent {
        kind: "status",
        title: "Backup imported".to_owned(),
        message: Some(report.message()),
        level: EventLevel::Info,
        related_id: None,
        related_type: Some("settings"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::timeout;

    use super::*;
    use crate::config;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_dry_run_waits_for_no_change_of_tokens_routes_or_settings() {
        let folder = std::env::temp_dir().join(format!("switchyard-import-{}", crate::uuid::v4()));
        let values =
            [("DATA_DIR", folder.to_str().unwrap()), ("ACCOUNT_CREDENTIAL_SECRET", "of-these-tests")];
        let values: HashMap<String, String> =
            values.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let core = Core::start(config::read(&values).unwrap().0).await.unwrap();
        let site = json!({"id": 1, "name": "a", "url": "https://a.example", "platform": "openai"});
        let rows = json!({"sites": [site], "accounts": [], "accountTokens": [], "tokenRoutes": [],
            "routeChannels": []});
        let preferences = json!({"settings": [{"key": "balance_refresh_cron", "value": "0 3 * * *"}]});
        let document =
            json!({"version": "2.1", "timestamp": 1, "accounts": rows, "preferences": preferences});
        let document = Document::read(document.to_string().as_bytes(), &folder).unwrap();
        let _edits = core.lock_all_edits().await;
        let options = ImportOptions { dry_run: true, ..ImportOptions::default() };
        let looked = timeout(Duration::from_secs(60), import(&core, document, options)).await;
        assert_eq!(looked.expect("it does not wait").expect("a report").total().created, 2);
        core.stop().await;
        let _ = std::fs::remove_dir_all(folder);
    }
}
