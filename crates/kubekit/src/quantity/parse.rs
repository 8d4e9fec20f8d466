//! Text to quantity.

use std::str::FromStr;

use super::amount::Amount;
use super::{Format, Quantity};

/// The finest fraction a quantity keeps, as a power of ten.
const NANO: i32 = -9;

/// Digits an `i64` always holds: up to here upstream computes with 64 bits.
const SMALL_DIGITS: i32 = 18;

/// Digits an `i128` always holds.
const LARGE_DIGITS: usize = 38;

/// Why a text is not a quantity. The texts of the first three are those of apimachinery: they reach users through
/// task errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// Not a number followed by a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// A suffix without a number.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// An unknown suffix, such as `K`.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// More digits than can be held.
    #[error("quantity has more than 38 significant digits; round it")]
    TooLarge,
}

/// A text cut into its parts.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point without leading zeros, `0` if none are left.
    whole: &'a str,
    /// Digits after the point, as written.
    fraction: &'a str,
    suffix: &'a str,
    /// Whether any digit was written at all.
    has_digit: bool,
}

/// What a suffix stands for.
#[derive(Clone, Copy)]
enum Unit {
    /// `10^exponent`.
    Decimal { exponent: i32, format: Format },
    /// `2^exponent`.
    Binary { exponent: u32 },
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(ParseQuantityError::Format);
        }
        let parts = split(text)?;
        let unit = Unit::from_suffix(parts.suffix).ok_or(ParseQuantityError::Suffix)?;
        match small(text, &parts, unit) {
            Some(quantity) => Ok(quantity),
            None => large(&parts, unit),
        }
    }
}

impl Unit {
    fn from_suffix(suffix: &str) -> Option<Self> {
        let decimal = |exponent| Some(Self::Decimal { exponent, format: Format::DecimalSi });
        let binary = |exponent| Some(Self::Binary { exponent });
        match suffix {
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "" => decimal(0),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => {
                let power: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
                let exponent = i32::try_from(power).ok()?;
                Some(Self::Decimal { exponent, format: Format::DecimalExponent })
            }
        }
    }
}

fn split(text: &str) -> Result<Parts<'_>, ParseQuantityError> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (leading, rest) = split_digits(unsigned);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    let power = suffix.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let power = power.strip_prefix(['+', '-']).unwrap_or(power);
    if !power.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseQuantityError::Format);
    }
    let whole = match leading.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    // A lone sign counts as a zero upstream, and only with nothing behind it.
    let has_digit = !leading.is_empty() || !fraction.is_empty() || unsigned.is_empty();
    Ok(Parts { negative, whole, fraction, suffix, has_digit })
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}

/// The quantity as upstream's 64-bit path reads it, `None` if that path does not apply.
///
/// Only this path keeps the written text, under a test for "already canonical" that is an approximation: it lets
/// `+1`, `5.`, `1.500` and `1e3` through, and all components print those back unchanged.
fn small(text: &str, parts: &Parts<'_>, unit: Unit) -> Option<Quantity> {
    let digits = i32::try_from(parts.whole.len() + parts.fraction.len()).ok()?;
    let shifted = format!("{}{}", parts.whole, parts.fraction);
    let (amount, format, canonical) = match unit {
        Unit::Decimal { exponent, format } => {
            let exponent = exponent.checked_sub(i32::try_from(parts.fraction.len()).ok()?)?;
            if digits > SMALL_DIGITS || exponent < NANO {
                return None;
            }
            let mantissa: i64 = shifted.parse().ok()?;
            let canonical = exponent % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0');
            (Amount::small(signed(mantissa, parts.negative), exponent), format, canonical || text == "0")
        }
        Unit::Binary { exponent } => {
            // Upstream's estimate of decimal digits: three for every ten bits.
            let estimate = digits + i32::try_from(exponent * 3 / 10).ok()? + 1;
            if !parts.fraction.is_empty() || estimate > SMALL_DIGITS - 3 {
                return None;
            }
            let mantissa: i64 = shifted.parse().ok()?;
            let product = mantissa.checked_mul(1 << exponent)?;
            (Amount::small(signed(product, parts.negative), 0), Format::BinarySi, mantissa & 0x07 != 0)
        }
    };
    Some(Quantity { amount, format, written: canonical.then(|| text.into()) })
}

fn signed(magnitude: i64, negative: bool) -> i64 {
    if negative { -magnitude } else { magnitude }
}

/// The quantity as upstream's unbounded path reads it: rounded up to whole nanos, binary amounts capped at `i64`.
fn large(parts: &Parts<'_>, unit: Unit) -> Result<Quantity, ParseQuantityError> {
    if !parts.has_digit {
        return Err(ParseQuantityError::Numeric);
    }
    let (mantissa, exponent, format) = match unit {
        Unit::Decimal { exponent, format } => {
            let (mantissa, exponent) = decimal_nanos(parts, exponent)?;
            (mantissa, exponent, format)
        }
        Unit::Binary { exponent } => binary_nanos(parts, exponent)?,
    };
    let mantissa = if parts.negative { -mantissa } else { mantissa };
    Ok(Quantity { amount: Amount::large(mantissa, exponent), format, written: None })
}

fn decimal_nanos(parts: &Parts<'_>, exponent: i32) -> Result<(i128, i32), ParseQuantityError> {
    let written = format!("{}{}", parts.whole, parts.fraction);
    let digits = written.trim_start_matches('0').trim_end_matches('0');
    if digits.is_empty() {
        return Ok((0, 0));
    }
    let zeros = written.len() - written.trim_end_matches('0').len();
    let position = i64::from(exponent) - parts.fraction.len() as i64 + zeros as i64;
    let too_fine = usize::try_from(i64::from(NANO) - position).unwrap_or(0).min(digits.len());
    // The last digit is not zero, so cutting anything off always loses something, and asking for a little must not
    // become asking for nothing: round up.
    let kept = &digits[..digits.len() - too_fine];
    if kept.len() > LARGE_DIGITS {
        return Err(ParseQuantityError::TooLarge);
    }
    let kept: i128 = if kept.is_empty() { 0 } else { kept.parse().map_err(|_| ParseQuantityError::TooLarge)? };
    let mantissa = kept + i128::from(too_fine > 0);
    let exponent = position.max(i64::from(NANO));
    Ok((mantissa, i32::try_from(exponent).map_err(|_| ParseQuantityError::TooLarge)?))
}

fn binary_nanos(parts: &Parts<'_>, exponent: u32) -> Result<(i128, i32, Format), ParseQuantityError> {
    const CAP: i128 = i64::MAX as i128;
    let capped = Ok((CAP, 0, Format::BinarySi));

    // More whole digits than an i64 has are above the cap whatever the suffix.
    let Some(whole) = parts.whole.parse::<i64>().ok().and_then(|whole| i128::from(whole).checked_mul(1 << exponent))
    else {
        return capped;
    };
    if whole > CAP {
        return capped;
    }

    let fraction = parts.fraction.trim_end_matches('0');
    if fraction.len() > LARGE_DIGITS {
        return Err(ParseQuantityError::TooLarge);
    }
    let nanos = whole * 1_000_000_000 + fraction_times_power_of_two(fraction, exponent);
    if nanos > CAP * 1_000_000_000 {
        return capped;
    }
    let below_one = 0 < nanos && nanos < 1_000_000_000;
    Ok((nanos, NANO, if below_one { Format::DecimalSi } else { Format::BinarySi }))
}

/// `0.<fraction> * 2^doublings` in nanos, rounded up.
fn fraction_times_power_of_two(fraction: &str, doublings: u32) -> i128 {
    let digits = fraction.len() as u32;
    let parsed: i128 = fraction.parse().unwrap_or(0);
    let numerator = parsed * 10_i128.pow(9_u32.saturating_sub(digits));
    let divisor = 10_i128.pow(digits.saturating_sub(9));
    // Long division, one bit at a time: the whole product would need more than 128 bits.
    let (mut quotient, mut remainder) = (numerator / divisor, numerator % divisor);
    for _ in 0..doublings {
        (quotient, remainder) = (quotient * 2, remainder * 2);
        if remainder >= divisor {
            (quotient, remainder) = (quotient + 1, remainder - divisor);
        }
    }
    quotient + i128::from(remainder > 0)
}
