//! Writing a group that the database refuses as a whole: piece by piece, so that what it accepts is not lost with the rest.

use crate::store::error::{Error, Result};
use crate::store::sql::{Statement, Value};

/// How many parts of a group are tried before nothing has been accepted: then the database itself fails.
const MOST_DOUBTS: usize = 100;

/// Statements of a group that belong together: one, and those that use the id of its row.
pub(super) type Piece = Vec<Statement>;

/// Whether the database is well and refuses what it was given.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Conflict(_) | Error::Dangling(_) | Error::NotFound | Error::Refused(_))
}

/// The progress of writing a failing group piece by piece.
#[derive(Default)]
pub(super) struct Salvage {
    /// How many pieces failed of which it is unknown whether the database would take them another time.
    pub(super) doubts: usize,
    pub(super) is_any_written: bool,
    pub(super) gives_up: bool,
}

/// The pieces of a failing group that are not written.
pub(super) struct NotWritten<T> {
    kept: Vec<T>,
    failed: Vec<(T, Error)>,
}

impl Salvage {
    /// Writes each of these pieces, until the database fails.
    pub(super) fn write_each<T>(
        &mut self,
        pieces: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&T) -> Result<()>,
    ) -> NotWritten<T> {
        let mut not_written = NotWritten { kept: Vec::new(), failed: Vec::new() };
        for piece in pieces {
            match (!self.gives_up).then(|| write(&piece)) {
                Some(Ok(())) => self.is_any_written = true,
                Some(Err(error)) if is_refusal(&error) => not_written.failed.push((piece, error)),
                Some(Err(error @ Error::Database(_))) => {
                    not_written.failed.push((piece, error));
                    self.doubts += 1;
                    self.gives_up = !self.is_any_written && self.doubts >= MOST_DOUBTS;
                }
                Some(Err(_)) | None => {
                    not_written.kept.push(piece);
                    self.gives_up = true;
                }
            }
        }
        not_written
    }
}

impl<T> NotWritten<T> {
    /// Returns the pieces for another attempt, and those that are refused. If the database works, all failed pieces are.
    pub(super) fn part(self, is_well: bool) -> (Vec<T>, Vec<(T, Error)>) {
        let (refused, doubtful): (Vec<_>, Vec<_>) =
            self.failed.into_iter().partition(|(_, error)| is_well || is_refusal(error));
        let kept = self.kept.into_iter().chain(doubtful.into_iter().map(|(piece, _)| piece));
        (kept.collect(), refused)
    }
}

/// Splits the statements of a group into pieces, each of which can be written without the others.
pub(super) fn pieces(statements: Vec<Statement>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut begun = 0;
    for (at, mut statement) in statements.into_iter().enumerate() {
        let uses_another = renumber(&mut statement, |of| of.saturating_sub(begun));
        match pieces.last_mut() {
            Some(piece) if uses_another => piece.push(statement),
            _ => {
                begun = at;
                pieces.push(vec![statement]);
            }
        }
    }
    pieces
}

/// Joins pieces to the statements of one group.
pub(super) fn join(pieces: Vec<Piece>) -> Vec<Statement> {
    let mut statements = Vec::new();
    for piece in pieces {
        let begun = statements.len();
        for mut statement in piece {
            renumber(&mut statement, |of| of + begun);
            statements.push(statement);
        }
    }
    statements
}

/// Builds a change that leaves nothing behind. It fails only if the database does.
pub(super) fn trial() -> [Statement; 2] {
    let name = format!("{} trial", crate::uuid::v4());
    let insert = "INSERT INTO writer_marks (writer, number, written_at) VALUES (?, 0, 0)";
    [
        Statement::new(insert, vec![name.as_str().into()]),
        Statement::new("DELETE FROM writer_marks WHERE writer = ?", vec![name.into()]),
    ]
}

/// Changes the positions of the statements whose ids this one uses; returns whether it uses any.
fn renumber(statement: &mut Statement, position: impl Fn(usize) -> usize) -> bool {
    let mut is_any = false;
    for arg in &mut statement.args {
        if let Value::IdOf(of) = arg {
            *of = position(*of);
            is_any = true;
        }
    }
    is_any
}
