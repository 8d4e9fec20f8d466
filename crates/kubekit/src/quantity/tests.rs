#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[test]
fn written_text_is_kept_only_where_it_counts_as_canonical() {
    for (text, want) in [
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("1.1Gi", "1181116006400m"),
        ("10000", "10k"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("2.25Ki", "2304"),
        ("0Gi", "0"),
        ("1E19", "10e18"),
        ("1e3", "1e3"),
        ("+1", "+1"),
        ("01", "01"),
        ("5.", "5."),
        ("1.500", "1.500"),
    ] {
        assert_eq!(quantity(text).to_string(), want, "{text}");
    }
}

#[test]
fn errors_say_what_apimachinery_says() {
    let message = |text: &str| text.parse::<Quantity>().unwrap_err().to_string();
    for text in ["", "abc", "1Xi", "1 ", "1.2.3"] {
        assert!(message(text).starts_with("quantities must match the regular expression '^("), "{text}");
    }
    for text in ["1K", "1ee3", "1e", "1mi", "1e99999999999"] {
        assert_eq!(message(text), "unable to parse quantity's suffix", "{text}");
    }
    assert_eq!(message("Ei"), "unable to parse numeric part of quantity");
    assert_eq!("1".repeat(39).parse::<Quantity>(), Err(ParseQuantityError::TooLarge));
}

#[test]
fn binary_amounts_saturate_and_tiny_ones_round_up() {
    assert_eq!(quantity("8Ei").to_string(), "9223372036854775807");
    assert_eq!(quantity("-9Ei").value(), -i64::MAX);
    assert_eq!(quantity("0.0000000001").to_string(), "1n");
    assert_eq!(quantity("1e-2000000000").to_string(), "1e-9");
}

#[test]
fn the_largest_suffix_is_kept_beyond_its_range() {
    assert_eq!(quantity("1000E").to_string(), "1000E");
    let absurd = Quantity::new(1, Format::DecimalSi).plus(&quantity("1e2000000000"));
    assert!(absurd.to_string().len() < 60 && absurd >= quantity("1e2000000000"), "{absurd}");
    let sum = quantity("4Ei").plus(&quantity("4Ei"));
    assert_eq!((sum.to_string().as_str(), sum.checked_scaled_value(Scale::ONE)), ("8Ei", None));
}

#[test]
fn counted_values_round_away_from_zero() {
    for (text, value, milli) in [("1.5", 2, 1500), ("100u", 1, 1), ("-1.5", -2, -1500), ("1Gi", 1 << 30, 1000 << 30)] {
        assert_eq!((quantity(text).value(), quantity(text).milli_value()), (value, milli), "{text}");
    }
    assert_eq!(quantity("12E").checked_scaled_value(Scale::ONE), None);
}

#[test]
fn equal_values_are_equal_however_written() {
    use std::collections::HashSet;
    let set: HashSet<_> = ["1", "1000m", "1e0", "1.0"].into_iter().map(quantity).collect();
    assert_eq!(set.len(), 1);
    assert_eq!(quantity("1Mi"), quantity("1048576"));
    assert!(quantity("1M") < quantity("1Mi"));
    assert!(quantity("-1e100") < quantity("-1"));
}

#[test]
fn sums_take_the_format_of_the_first_amount_that_is_something() {
    assert_eq!(Quantity::default().plus(&quantity("1Gi")).to_string(), "1Gi");
    assert_eq!(quantity("1Gi").plus(&quantity("1G")).format(), Format::BinarySi);
    assert_eq!(quantity("1").minus(&quantity("1")).to_string(), "0");
    assert_eq!(
        Quantity::from_milli(1500, Format::DecimalSi).plus(&Quantity::new(1, Format::DecimalSi)).to_string(),
        "2500m"
    );
}

#[test]
fn serde_takes_text_and_numbers_and_writes_text() {
    let read = |json: &str| serde_json::from_str::<Quantity>(json).unwrap().to_string();
    assert_eq!(read("\" 1Gi \""), "1Gi");
    assert_eq!(read("2"), "2");
    assert_eq!(read("0.25"), "250m");
    assert_eq!(serde_json::to_string(&quantity("1.5")).unwrap(), "\"1500m\"");
    assert!(serde_json::from_str::<Quantity>("\"1K\"").unwrap_err().to_string().contains("1K"));
}

/// Texts of every shape, with few enough digits that sums stay exact.
fn text() -> impl Strategy<Value = String> {
    let suffix = prop::sample::select(
        &["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "e3", "E-2", "e7"][..],
    );
    ("[+-]?[0-9]{1,6}(\\.[0-9]{0,6})?", suffix).prop_map(|(number, suffix)| format!("{number}{suffix}"))
}

/// The value in nanos, computed the plain way; `None` where parsing has to round.
fn nanos(text: &str) -> Option<i128> {
    let end = text.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(0, |end| end + 1);
    let (number, suffix) = match text.find(['e', 'E']) {
        Some(start) if start + 1 < text.len() => text.split_at(start),
        _ => text.split_at(end),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (factor, power) = match suffix {
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "" => (1, 0),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1_i128 << 50, 0),
        exponent => (1, exponent[1..].parse().ok()?),
    };
    let (value, shift) = (mantissa * factor, power + 9 - fraction.len() as i32);
    if shift >= 0 {
        return value.checked_mul(10_i128.pow(shift as u32));
    }
    let divisor = 10_i128.pow(shift.unsigned_abs());
    (value % divisor == 0).then_some(value / divisor)
}

proptest! {
    #[test]
    fn text_round_trips_and_is_stable(text in text()) {
        let parsed = quantity(&text);
        let printed = parsed.to_string();
        let again = quantity(&printed);
        prop_assert_eq!(&again, &parsed);
        prop_assert_eq!(again.to_string(), printed);
    }

    #[test]
    fn order_is_that_of_the_exact_values(left in text(), right in text()) {
        let (Some(a), Some(b)) = (nanos(&left), nanos(&right)) else { return Ok(()) };
        // Binary amounts are capped at i64.
        let cap = i128::from(i64::MAX) * 1_000_000_000;
        prop_assume!(a.abs() < cap && b.abs() < cap);
        prop_assert_eq!(quantity(&left).cmp(&quantity(&right)), a.cmp(&b));
    }

    #[test]
    fn sums_are_exact(left in text(), right in text()) {
        let (Some(a), Some(b)) = (nanos(&left), nanos(&right)) else { return Ok(()) };
        let cap = i128::from(i64::MAX) * 1_000_000_000;
        prop_assume!(a.abs() < cap && b.abs() < cap);
        let sum = quantity(&left).plus(&quantity(&right));
        prop_assert_eq!(&sum, &quantity(&format!("{}n", a + b)));
        prop_assert_eq!(&quantity(&right).plus(&quantity(&left)), &sum);
        prop_assert_eq!(sum.minus(&quantity(&right)), quantity(&left));
    }

    #[test]
    fn addition_is_associative(a in text(), b in text(), c in text()) {
        let (a, b, c) = (quantity(&a), quantity(&b), quantity(&c));
        prop_assert_eq!(a.plus(&b).plus(&c), a.plus(&b.plus(&c)));
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[-+0-9.eEinumkKMGTP]{0,50}|\\PC{0,12}") {
        if let Ok(parsed) = text.parse::<Quantity>() {
            let _ = (parsed.value(), parsed.milli_value(), parsed.plus(&parsed).minus(&quantity("1n")));
            prop_assert_eq!(parsed.cmp(&parsed.plus(&quantity("0"))), Ordering::Equal);
        }
    }
}
