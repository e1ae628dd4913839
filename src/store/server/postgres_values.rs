//! Values on PostgreSQL's wire. Its types are strict: a bound value is sent in the type that the server expects
//! for its placeholder, and every type that our queries can return is converted to one of ours.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::store::sql::{Arg, Value};

type Failure = Box<dyn Error + Sync + Send>;

/// A bound argument.
#[derive(Debug)]
pub(super) struct Bound<'a>(pub Arg<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        match self.0 {
            Arg::Null => Ok(IsNull::Yes),
            Arg::Bool(value) if *ty == Type::BOOL => value.to_sql(ty, out),
            Arg::Bool(value) => Bound(Arg::Int(i64::from(value))).to_sql(ty, out),
            Arg::Int(value) => match *ty {
                Type::INT8 => value.to_sql(ty, out),
                Type::INT4 => i32::try_from(value)?.to_sql(ty, out),
                Type::INT2 => i16::try_from(value)?.to_sql(ty, out),
                Type::FLOAT8 => (value as f64).to_sql(ty, out),
                Type::NUMERIC => {
                    whole_numeric(value, out);
                    Ok(IsNull::No)
                }
                Type::BOOL => (value != 0).to_sql(ty, out),
                Type::TEXT | Type::VARCHAR => value.to_string().to_sql(ty, out),
                _ => Err(mismatch("an integer", ty)),
            },
            Arg::Real(value) => match *ty {
                Type::FLOAT8 => value.to_sql(ty, out),
                Type::FLOAT4 => (value as f32).to_sql(ty, out),
                _ => Err(mismatch("a number", ty)),
            },
            Arg::Text(value) => match *ty {
                Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN => {
                    // PostgreSQL stores every character but this one.
                    if value.contains('\0') {
                        value.replace('\0', "\u{fffd}").to_sql(ty, out)
                    } else {
                        value.to_sql(ty, out)
                    }
                }
                _ => Err(mismatch("a text", ty)),
            },
            Arg::Blob(value) => match *ty {
                Type::BYTEA => value.to_sql(ty, out),
                _ => Err(mismatch("bytes", ty)),
            },
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn mismatch(what: &str, ty: &Type) -> Failure {
    format!("{what} stands where the statement wants {ty}").into()
}

/// A field of a result row.
pub(super) struct Field(pub Value);

impl<'a> FromSql<'a> for Field {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        Ok(Self(match *ty {
            Type::BOOL => Value::Bool(bool::from_sql(ty, raw)?),
            Type::INT8 => Value::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => Value::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT2 => Value::Int(i16::from_sql(ty, raw)?.into()),
            Type::FLOAT8 => Value::Real(f64::from_sql(ty, raw)?),
            Type::FLOAT4 => Value::Real(f32::from_sql(ty, raw)?.into()),
            Type::NUMERIC => numeric(raw).ok_or("a NUMERIC that is none")?,
            Type::BYTEA => Value::Blob(raw.to_vec()),
            Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN => {
                Value::Text(str::from_utf8(raw)?.to_owned())
            }
            _ => return Err(format!("a field of the type {ty}").into()),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Failure> {
        Ok(Self(Value::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Reads a NUMERIC, in which sums of integers are sent: a count of digits to the base of 10,000, the weight of
/// the first, a sign, the number of decimal places shown, and the digits, each in two bytes (`numeric_send` in
/// PostgreSQL's `numeric.c`).
fn numeric(raw: &[u8]) -> Option<Value> {
    let (head, digits) = raw.split_at_checked(8)?;
    let field = |index: usize| i16::from_be_bytes([head[index * 2], head[index * 2 + 1]]);
    let (weight, sign, scale) = (i32::from(field(1)), field(2).cast_unsigned(), field(3));
    let digits = digits.chunks_exact(2).map(|pair| i64::from(u16::from_be_bytes([pair[0], pair[1]])));
    let is_negative = match sign {
        0 => false,
        0x4000 => true,
        _ => return Some(Value::Null),
    };
    if scale == 0 {
        let mut places = 0;
        let mut sum: i64 = 0;
        for digit in digits {
            sum = sum.saturating_mul(10_000).saturating_add(digit);
            places += 1;
        }
        for _ in places..=weight {
            sum = sum.saturating_mul(10_000);
        }
        return Some(Value::Int(if is_negative { -sum } else { sum }));
    }
    let sum: f64 = (0..).zip(digits).map(|(at, digit)| digit as f64 * 10_000_f64.powi(weight - at)).sum();
    Some(Value::Real(if is_negative { -sum } else { sum }))
}

/// Writes an integer as NUMERIC, for placeholders that are compared with a sum.
fn whole_numeric(value: i64, out: &mut BytesMut) {
    let mut digits = Vec::new();
    let mut rest = value.unsigned_abs();
    while rest > 0 {
        digits.push((rest % 10_000) as u16);
        rest /= 10_000;
    }
    let count = digits.len() as u16;
    let sign = if value < 0 { 0x4000 } else { 0 };
    for word in [count, count.saturating_sub(1), sign, 0] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    for digit in digits.into_iter().rev() {
        out.extend_from_slice(&digit.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(weight: i16, sign: u16, scale: i16, digits: &[u16]) -> Vec<u8> {
        let count = digits.len() as u16;
        let head = [count, weight.cast_unsigned(), sign, scale.cast_unsigned()];
        head.iter().chain(digits).flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn a_sum_is_an_integer_and_an_average_is_not() {
        assert_eq!(numeric(&wire(0, 0, 0, &[])), Some(Value::Int(0)));
        assert_eq!(numeric(&wire(1, 0, 0, &[12, 3456])), Some(Value::Int(123_456)));
        assert_eq!(numeric(&wire(2, 0x4000, 0, &[7])), Some(Value::Int(-700_000_000)));
        assert_eq!(numeric(&wire(0, 0, 4, &[1, 5000])), Some(Value::Real(1.5)));
        assert_eq!(numeric(&wire(-1, 0, 2, &[2500])), Some(Value::Real(0.25)));
        assert_eq!(numeric(&[0, 1]), None);
    }

    #[test]
    fn an_integer_is_itself_beside_a_sum() {
        for value in [0, 1, -1, 9_999, 10_000, -123_456_789, i64::MAX] {
            let mut out = BytesMut::new();
            whole_numeric(value, &mut out);
            assert_eq!(numeric(&out), Some(Value::Int(value)));
        }
    }
}
