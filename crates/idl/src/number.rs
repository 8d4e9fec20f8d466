//! Doubles and integers.
//!
//! A `google.protobuf.Struct` knows doubles only, so a replica count arrives as `3.0`. Go writes such a value as `3`,
//! and typed readers (Kubernetes types, enums) accept nothing else.

use serde_json::{Number, Value};

/// Up to here every whole double is exactly one integer.
const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53

/// A finite double as JSON, without a fraction when it has none. `None` when it is infinite or not a number.
pub(crate) fn from_double(value: f64) -> Option<Number> {
    if value.fract() == 0.0 {
        if value.abs() <= EXACT {
            return Some(Number::from(value as i64));
        }
        // Above 2^53 Go prints the shortest digits that name the double, padded with zeros, and so does Rust.
        let digits = value.to_string();
        if let Ok(integer) = digits.parse::<i64>() {
            return Some(Number::from(integer));
        }
        if let Ok(integer) = digits.parse::<u64>() {
            return Some(Number::from(integer));
        }
    }
    Number::from_f64(value)
}

/// Reads a whole number in any of the notations seen in the wild: `3`, `3.0`, `"3"`, `"3.0"`.
pub(crate) fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Number(number) => number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from))
            .or_else(|| number.as_f64().and_then(whole)),
        Value::String(text) => text.parse().ok().or_else(|| text.parse().ok().and_then(whole)),
        _ => None,
    }
}

/// Reads a double, also from a string; the three names are protobuf's own.
pub(crate) fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            "NaN" => Some(f64::NAN),
            other => other.parse().ok().filter(|number: &f64| number.is_finite()),
        },
        _ => None,
    }
}

/// Rewrites every whole double below `value` as an integer.
pub(crate) fn drop_empty_fractions(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(shorter) = number.as_f64().and_then(from_double) {
                *number = shorter;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty_fractions),
        Value::Object(fields) => fields.values_mut().for_each(drop_empty_fractions),
        _ => {}
    }
}

fn whole(value: f64) -> Option<i128> {
    // 2^64 bounds every integer field; beyond it the cast would saturate to something nobody wrote.
    (value.fract() == 0.0 && value.abs() <= 18_446_744_073_709_551_616.0).then_some(value as i128)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_doubles_lose_their_fraction() {
        let text = |value| from_double(value).map(|number| number.to_string());
        assert_eq!(text(3.0).as_deref(), Some("3"));
        assert_eq!(text(-0.0).as_deref(), Some("0"));
        assert_eq!(text(0.5).as_deref(), Some("0.5"));
        // What Go prints for 2^60; the exact integer would end in 846976.
        assert_eq!(text(1_152_921_504_606_846_976.0).as_deref(), Some("1152921504606847000"));
        assert_eq!(text(f64::NAN), None);
        assert_eq!(text(f64::INFINITY), None);
    }

    #[test]
    fn integers_are_read_in_all_notations() {
        for value in [json!(3), json!(3.0), json!("3"), json!("3.0")] {
            assert_eq!(integer(&value), Some(3), "{value}");
        }
        assert_eq!(integer(&json!(u64::MAX)), Some(i128::from(u64::MAX)));
        for value in [json!(3.5), json!("three"), json!(""), json!(true), json!(null), json!(1e300)] {
            assert_eq!(integer(&value), None, "{value}");
        }
    }

    #[test]
    fn doubles_are_read_from_numbers_and_texts() {
        assert_eq!(double(&json!(2)), Some(2.0));
        assert_eq!(double(&json!("2.5")), Some(2.5));
        assert!(double(&json!("NaN")).unwrap().is_nan());
        assert_eq!(double(&json!("inf")), None);
    }

    proptest! {
        #[test]
        fn a_written_double_reads_back_equal(value in any::<f64>().prop_filter("finite", |it| it.is_finite())) {
            let number = from_double(value).unwrap();
            prop_assert_eq!(number.as_f64().unwrap(), value);
            if value.fract() == 0.0 && value.abs() < 9e18 {
                prop_assert!(number.is_i64(), "{} kept a fraction", number);
            }
        }
    }
}
