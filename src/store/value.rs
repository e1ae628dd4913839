//! Values that go into and come out of a database, and rows of them.

use super::error::{Error, Result};
use super::seal::Sealed;
use crate::ids::Id;
use crate::money::Usd;

/// An argument or a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(String),
    /// A text that holds a claim on its key until it is written. Boxed, because it is rare and larger than the
    /// others.
    Sealed(Box<Sealed>),
    Blob(Vec<u8>),
    /// The id inserted by the statement with this index (from 0) of the same batch.
    IdOf(usize),
}

/// An argument that borrows its value: rows that come by the thousand are bound from an array of these, without
/// copying.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arg<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(&'a str),
    Blob(&'a [u8]),
}

impl From<i64> for Arg<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl<I: Id> From<I> for Arg<'_> {
    fn from(id: I) -> Self {
        Self::Int(id.get())
    }
}

impl<I: Id> From<I> for Value {
    fn from(id: I) -> Self {
        Self::Int(id.get())
    }
}

impl From<bool> for Arg<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<Usd> for Arg<'_> {
    fn from(amount: Usd) -> Self {
        Self::Real(amount.dollars())
    }
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a, T: Into<Arg<'a>>> From<Option<T>> for Arg<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<Usd> for Value {
    fn from(amount: Usd) -> Self {
        Self::Real(amount.dollars())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Sealed> for Value {
    fn from(value: Sealed) -> Self {
        Self::Sealed(Box::new(value))
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl Value {
    /// Returns the argument to bind, given the outcomes of the batch's earlier statements.
    pub(super) fn bound(&self, outcomes: &[Outcome]) -> Result<Arg<'_>> {
        Ok(match self {
            Self::Null => Arg::Null,
            Self::Bool(value) => Arg::Bool(*value),
            Self::Int(value) => Arg::Int(*value),
            Self::Real(value) => Arg::Real(*value),
            Self::Text(value) => Arg::Text(value),
            Self::Sealed(value) => Arg::Text(value.as_str()),
            Self::Blob(value) => Arg::Blob(value),
            Self::IdOf(statement) => {
                let outcome = outcomes.get(*statement).ok_or_else(|| {
                    Error::Database(format!("statement {statement} has not run before its id is used"))
                })?;
                Arg::Int(outcome.last_id)
            }
        })
    }
}

/// The outcome of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The number of rows changed. Not to be used after an upsert: MySQL counts those differently.
    pub rows: u64,
    /// The id of the row that an `INSERT` made; meaningless for every other statement.
    pub last_id: i64,
}

impl Outcome {
    /// Returns the id of the row that an `INSERT` made.
    pub fn id<I: Id>(&self) -> I {
        I::new(self.last_id)
    }
}

/// One row of a result, in the order of the selected columns.
#[derive(Debug, Clone)]
pub struct Row(pub(super) Vec<Value>);

impl Row {
    /// Returns a cursor that reads the fields from left to right.
    pub fn fields(&self) -> Fields<'_> {
        Fields { values: &self.0, next: 0 }
    }
}

/// A cursor over the fields of a row. Each call reads the next column; when its type is another, the error
/// names the column.
pub struct Fields<'a> {
    values: &'a [Value],
    next: usize,
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<&'a Value> {
        let value = self.values.get(self.next);
        self.next += 1;
        value.ok_or_else(|| self.wrong("present"))
    }

    fn wrong(&self, expected: &str) -> Error {
        Error::Database(format!("column {} is not {expected}", self.next))
    }

    /// Reads a field of any type.
    pub fn value(&mut self) -> Result<&'a Value> {
        self.next()
    }

    pub fn int(&mut self) -> Result<i64> {
        self.opt_int()?.ok_or_else(|| self.wrong("an integer"))
    }

    pub fn opt_int(&mut self) -> Result<Option<i64>> {
        match self.next()? {
            Value::Null => Ok(None),
            Value::Int(value) => Ok(Some(*value)),
            Value::Bool(value) => Ok(Some(i64::from(*value))),
            _ => Err(self.wrong("an integer")),
        }
    }

    /// Reads the id of a row, of the kind that the column holds.
    pub fn id<I: Id>(&mut self) -> Result<I> {
        self.int().map(I::new)
    }

    pub fn opt_id<I: Id>(&mut self) -> Result<Option<I>> {
        Ok(self.opt_int()?.map(I::new))
    }

    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.int()? != 0)
    }

    pub fn opt_bool(&mut self) -> Result<Option<bool>> {
        Ok(self.opt_int()?.map(|value| value != 0))
    }

    pub fn real(&mut self) -> Result<f64> {
        self.opt_real()?.ok_or_else(|| self.wrong("a number"))
    }

    pub fn opt_real(&mut self) -> Result<Option<f64>> {
        match self.next()? {
            Value::Null => Ok(None),
            Value::Real(value) => Ok(Some(*value)),
            Value::Int(value) => Ok(Some(*value as f64)),
            _ => Err(self.wrong("a number")),
        }
    }

    pub fn usd(&mut self) -> Result<Usd> {
        self.real().map(Usd::new)
    }

    pub fn opt_usd(&mut self) -> Result<Option<Usd>> {
        Ok(self.opt_real()?.map(Usd::new))
    }

    pub fn text(&mut self) -> Result<String> {
        self.opt_text()?.ok_or_else(|| self.wrong("text"))
    }

    pub fn opt_text(&mut self) -> Result<Option<String>> {
        Ok(self.opt_str()?.map(str::to_owned))
    }

    /// Reads borrowed text, for callers that parse it at once.
    pub fn str(&mut self) -> Result<&'a str> {
        self.opt_str()?.ok_or_else(|| self.wrong("text"))
    }

    pub fn opt_str(&mut self) -> Result<Option<&'a str>> {
        match self.next()? {
            Value::Null => Ok(None),
            Value::Text(value) => Ok(Some(value)),
            _ => Err(self.wrong("text")),
        }
    }
}
