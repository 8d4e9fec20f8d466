//! Quantity to text, and both ways through serde.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use super::{Format, Quantity};

/// Suffixes for powers of 1000, from nano up.
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// The power of 1000 of the first decimal suffix.
const FIRST_DECIMAL_POWER: i32 = -3;

/// Larger amounts are written with an exponent in any format: nobody counts that many zeros, and a few characters of
/// input must not ask for gigabytes of them.
const LARGEST_SI_EXPONENT: i32 = 56;

/// Suffixes for powers of 1024.
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// The canonical text, whatever was written: no fraction digits, the largest suffix that loses nothing.
    fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        match self.format {
            Format::BinarySi => self.binary().unwrap_or_else(|| self.decimal()),
            Format::DecimalSi => self.decimal(),
            Format::DecimalExponent => self.exponent(),
        }
    }

    /// `None` where a binary suffix would hide something: small amounts and fractions.
    fn binary(&self) -> Option<String> {
        let mut whole = self.amount.whole()?;
        if whole.abs() < 1024 {
            return None;
        }
        let mut power = 0;
        while whole % 1024 == 0 && power + 1 < BINARY_SUFFIXES.len() {
            whole /= 1024;
            power += 1;
        }
        Some(format!("{whole}{}", BINARY_SUFFIXES[power]))
    }

    fn decimal(&self) -> String {
        let (mantissa, exponent) = self.amount.reduced();
        let last = FIRST_DECIMAL_POWER + DECIMAL_SUFFIXES.len() as i32 - 1;
        if exponent > LARGEST_SI_EXPONENT {
            return self.exponent();
        }
        let power = exponent.div_euclid(3).clamp(FIRST_DECIMAL_POWER, last);
        let zeros = "0".repeat(usize::try_from(exponent - power * 3).unwrap_or(0));
        let suffix = DECIMAL_SUFFIXES[usize::try_from(power - FIRST_DECIMAL_POWER).unwrap_or(0)];
        format!("{mantissa}{zeros}{suffix}")
    }

    fn exponent(&self) -> String {
        let (mantissa, exponent) = self.amount.reduced();
        let zeros = "0".repeat(exponent.rem_euclid(3) as usize);
        match exponent - exponent.rem_euclid(3) {
            0 => format!("{mantissa}{zeros}"),
            exponent => format!("{mantissa}{zeros}e{exponent}"),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.written {
            Some(written) => f.pad(written),
            None => f.pad(&self.canonical()),
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber)
    }
}

struct TextOrNumber;

impl Visitor<'_> for TextOrNumber {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"500m\" or \"1Gi\", or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        text.trim().parse().map_err(|error| E::custom(format_args!("invalid quantity {text:?}: {error}")))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }
}
