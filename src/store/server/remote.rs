//! The store's connection to a server, over any driver.
//!
//! A change that meets a lost connection is retried once immediately: the writer's [marks](super::marks) show
//! whether the database has it. Only when the server stays away is the outcome unknown, and the caller is told
//! so.

use std::path::Path;

use super::client::Client;
use super::marks::{CommitMark, CommitMarks};
use super::session::{Patience, Session, pause};
use super::staged;
use crate::store::connection::{Applied, Connection, MigrateError, Script};
use crate::store::error::{Error, Result};
use crate::store::migrate;
use crate::store::sql::{Arg, OnConflict, Outcome, Row, SqlDialect, Statement, Value, upsert};
use crate::store::telemetry::log_row::{self, ProxyLogRow};
use crate::store::versions::{SCOPES, Scope, Version};

/// How often a change is tried that fails because of a conflict with another instance.
const TRIES: u32 = 5;

/// A connection to a server with the store's interface.
pub(super) struct Remote<C: Client> {
    session: Session<C>,
    /// Set on the connection that makes every change.
    marks: Option<CommitMarks>,
}

// === impl Remote ===

impl<C: Client> Remote<C> {
    /// Connects at once.
    pub(super) fn open(address: C::Address) -> Result<Self> {
        Ok(Self { session: Session::open(address)?, marks: None })
    }

    /// Begins a transaction. Beginning can be repeated, and reveals a connection that was lost while idle.
    fn begin_within(&mut self, patience: Patience) -> Result<()> {
        self.session.run_again(patience, async |client| client.script(C::WORDS.begin).await)
    }

    /// Ends the transaction that spans several calls, even if its connection was lost.
    fn end_transaction(&mut self, command: &'static str) -> Result<()> {
        let ended = self.session.run(Patience::LONG, async |client| client.script(command).await);
        self.session.set_in_transaction(false);
        ended
    }

    /// Ends the connection that was lost in the middle of a transaction: a server that has not noticed the loss
    /// still holds it, with all its locks.
    fn end_predecessor(&mut self) {
        let Some(lost) = self.session.take_lost() else { return };
        let ended = self.session.run(Patience::USUAL, async |client| client.end(&lost).await);
        if let Err(error) = ended {
            log::debug!("the previous connection could not be closed: {error}");
        }
    }

    /// Runs `work` as one transaction. It takes effect once: when the commit of an attempt was cut off, that
    /// attempt's result is returned if the database has it.
    fn transaction<T: Default>(
        &mut self,
        patience: Patience,
        mark: Option<CommitMark>,
        work: impl AsyncFn(&mut C) -> Result<T>,
    ) -> Result<T> {
        let (mut tries, mut was_lost) = (0, false);
        let mut given = None;
        loop {
            self.end_predecessor();
            self.begin_within(Patience::USUAL)?;
            let attempt = async |client: &mut C| attempt(client, mark.as_ref(), &work, &mut given).await;
            let done = self.session.run(patience, attempt);
            tries += 1;
            match done {
                Ok(()) => return Ok(given.unwrap_or_default()),
                Err(Error::Busy) if tries < TRIES => pause(tries),
                Err(Error::Unreachable(_)) if mark.is_some() && !was_lost => was_lost = true,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Runs one attempt of a transaction that has begun: everything is committed, or nothing.
async fn attempt<C: Client, T>(
    client: &mut C,
    mark: Option<&CommitMark>,
    work: &impl AsyncFn(&mut C) -> Result<T>,
    given: &mut Option<T>,
) -> Result<()> {
    let done = async {
        match mark {
            Some(mark) if !mark.set(client).await? => Ok(None),
            _ => work(client).await.map(Some),
        }
    };
    match done.await {
        Ok(Some(done)) => {
            *given = Some(done);
            client.script("COMMIT").await
        }
        Ok(None) => client.script("ROLLBACK").await,
        Err(error @ Error::Unreachable(_)) => Err(error),
        Err(error) => {
            client.script("ROLLBACK").await?;
            Err(error)
        }
    }
}

/// Runs statements within a transaction that has begun.
async fn run<C: Client>(client: &mut C, statements: &[Statement]) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(statements.len());
    for statement in statements {
        let args = bind(&statement.args, &outcomes)?;
        let outcome = if migrate::gives_number(&statement.sql) {
            client.insert(&statement.sql, &args).await?
        } else {
            Outcome { rows: client.execute(&statement.sql, &args).await?, last_id: 0 }
        };
        if outcome.rows == 0 && statement.must_change {
            return Err(Error::NotFound);
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Increments the versions of the scopes that a transaction changes, and returns them.
async fn announce<C: Client>(client: &mut C, changed: &[Scope]) -> Result<Vec<Version>> {
    let count = upsert(C::WORDS.dialect, "cache_versions", &["scope"], &[("version", OnConflict::Add)]);
    let mut versions = Vec::with_capacity(changed.len());
    for scope in changed {
        let name = Arg::Text(scope.as_str());
        client.execute(&count, &[name, Arg::Int(1)]).await?;
        let rows = client.rows("SELECT version FROM cache_versions WHERE scope = ?", &[name]).await?;
        let number = rows.first().map_or(Ok(0), |row| row.fields().int())?;
        versions.push(Version { scope: *scope, number });
        if let Some(tell) = C::WORDS.tell {
            client.execute(tell, &[name]).await?;
        }
    }
    Ok(versions)
}

/// Makes the ids of new rows continue after those of rows inserted with an id.
async fn advance_ids<C: Client>(client: &mut C) -> Result<()> {
    let Some(sql) = C::WORDS.advance_ids else { return Ok(()) };
    for table in migrate::tables().iter().filter(|table| table.is_numbered) {
        client.script(&sql.replace("{table}", table.name)).await?;
    }
    Ok(())
}

/// Binds the arguments of a statement, with the ids that earlier statements of its batch created.
fn bind<'a>(args: &'a [Value], outcomes: &[Outcome]) -> Result<Vec<Arg<'a>>> {
    args.iter().map(|value| value.bound(outcomes)).collect()
}

/// Inserts log rows, `at_once` with each statement.
async fn insert<C: Client>(client: &mut C, rows: &[ProxyLogRow], at_once: usize) -> Result<()> {
    let sql = format!("INSERT {}", log_row::into(at_once));
    for rows in rows.chunks(at_once) {
        let decisions: Vec<Option<String>> =
            rows.iter().map(|row| row.decision.map(|why| why.to_string())).collect();
        let mut args = Vec::with_capacity(at_once * (log_row::ARGS + 1));
        for (row, decision) in rows.iter().zip(&decisions) {
            args.extend(row.args());
            args.push(decision.as_deref().into());
        }
        client.execute(&sql, &args).await?;
    }
    Ok(())
}

impl<C: Client> Connection for Remote<C> {
    fn dialect(&self) -> SqlDialect {
        C::WORDS.dialect
    }

    fn mark_changes(&mut self) -> Result<()> {
        self.marks =
            Some(self.session.run_again(Patience::USUAL, async |client| CommitMarks::begin(client).await)?);
        Ok(())
    }

    fn select(&mut self, sql: &str, args: &[Value]) -> Result<Vec<Row>> {
        let args = bind(args, &[])?;
        self.session.run_again(Patience::USUAL, async |client| client.rows(sql, &args).await)
    }

    fn apply(&mut self, statements: &[Statement], changed: &[Scope]) -> Result<Applied> {
        let mark = self.marks.as_mut().map(CommitMarks::next_change);
        self.transaction(Patience::USUAL, mark, async |client| {
            let outcomes = run(client, statements).await?;
            // Comes last, so that others who change the same scope only wait from here on.
            let versions = announce(client, changed).await?;
            Ok(Applied { outcomes, versions })
        })
    }

    fn write(&mut self, group: u64, rows: &[ProxyLogRow], statements: &[Statement], _: bool) -> Result<()> {
        let mark = self.marks.as_ref().map(|marks| marks.group(group));
        self.transaction(Patience::USUAL, mark, async |client| {
            for (rows, at_once) in log_row::parts(rows) {
                insert(client, rows, at_once).await?;
            }
            run(client, statements).await.map(drop)
        })
    }

    fn take_turn(&mut self) -> Result<bool> {
        let rows = self.select(C::WORDS.take_turn, &[])?;
        rows.first().map_or(Ok(false), |row| Ok(row.fields().int()? == 1))
    }

    fn end_turn(&mut self) -> Result<()> {
        self.select(C::WORDS.end_turn, &[]).map(drop)
    }

    fn begin(&mut self) -> Result<()> {
        self.begin_within(Patience::USUAL)?;
        self.session.set_in_transaction(true);
        Ok(())
    }

    fn run(&mut self, statements: &[Statement]) -> Result<Vec<Outcome>> {
        self.session.run(Patience::LONG, async |client| run(client, statements).await)
    }

    fn commit(&mut self) -> Result<()> {
        self.end_transaction("COMMIT")
    }

    fn roll_back(&mut self) -> Result<()> {
        self.end_transaction("ROLLBACK")
    }

    fn columns(&mut self, table: &str) -> Result<Vec<String>> {
        self.select(C::WORDS.columns, &[table.into()])?.iter().map(|row| row.fields().text()).collect()
    }

    fn tables(&mut self) -> Result<Vec<String>> {
        self.select(C::WORDS.tables, &[])?.iter().map(|row| row.fields().text()).collect()
    }

    fn migrate(&mut self, scripts: &[Script]) -> Result<(), MigrateError> {
        let failed = |step| move |error| MigrateError { step, error };
        if C::WORDS.undoes_schema {
            self.begin_within(Patience::LONG).map_err(failed("begin"))?;
            self.session.set_in_transaction(true);
        }
        for Script { name, sql, note } in scripts {
            let done = self.session.run(Patience::LONG, async |client| {
                client.step(sql).await?;
                run(client, note.as_slice()).await.map(drop)
            });
            if let Err(error) = done {
                if C::WORDS.undoes_schema {
                    let _ = self.roll_back();
                }
                return Err(MigrateError { step: name, error });
            }
        }
        if C::WORDS.undoes_schema { self.commit().map_err(failed("commit")) } else { Ok(()) }
    }

    fn begin_snapshot(&mut self) -> Result<()> {
        self.session.run_again(Patience::USUAL, async |client| {
            for sql in C::WORDS.begin_snapshot {
                client.script(sql).await?;
            }
            Ok(())
        })?;
        self.session.set_in_transaction(true);
        Ok(())
    }

    fn apply_staged(&mut self, file: &Path, statements: &[Statement]) -> Result<Applied> {
        let mark = self.marks.as_mut().map(CommitMarks::next_change);
        self.transaction(Patience::LONG, mark, async |client| {
            staged::fill(client, file).await?;
            let outcomes = run(client, statements).await?;
            staged::clear(client).await?;
            advance_ids(client).await?;
            let versions = announce(client, &SCOPES).await?;
            Ok(Applied { outcomes, versions })
        })
    }

    fn highest_id(&mut self, table: &str) -> Result<i64> {
        let rows = self.select(C::WORDS.highest_id, &[table.into()])?;
        Ok(rows.first().map_or(Ok(None), |row| row.fields().opt_int())?.unwrap_or(0))
    }

    fn advance_ids(&mut self) -> Result<()> {
        self.session.run(Patience::LONG, async |client| advance_ids(client).await)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        let Some(marks) = self.marks.take() else { return Ok(()) };
        self.session.run(Patience::USUAL, async |client| marks.end(client).await)
    }
}
