//! Amounts of a resource: `500m` of a CPU, `1.5Gi` of memory.
//!
//! [`Quantity`] follows `resource.Quantity` of Kubernetes' apimachinery, including what surprises: which texts are
//! kept as written, which are rewritten into canonical form, and that everything finer than a nano is rounded up.
//! Equality, order and hash are by value, so `1` equals `1000m`.
//!
//! # Differs from upstream
//!
//! * An amount needs at most 38 significant digits (upstream: any number); a longer one is
//!   [`ParseQuantityError::TooLarge`].
//! * An amount beyond the largest suffix keeps that suffix (`1000E`), where upstream drops the suffix and prints `1`.
//! * [`Quantity::value`] of a negative amount is right whatever its size; upstream rounds some towards zero and keeps
//!   only the low bits of others (`-9Pi`).
//! * An exponent beyond 32 bits is [`ParseQuantityError::Suffix`]; upstream cuts it and may compute forever.

mod amount;
mod parse;
mod text;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use amount::Amount;
pub use parse::ParseQuantityError;

/// The family of suffixes a quantity is written with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Powers of 1000: `12M`.
    #[default]
    DecimalSi,
    /// Powers of 1024: `12Mi`.
    BinarySi,
    /// Powers of ten: `12e6`.
    DecimalExponent,
}

/// A power of ten a quantity is counted in, see [`Quantity::scaled_value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale(pub i32);

/// An amount of a resource.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The text it was parsed from, where apimachinery holds that text to be canonical already.
    written: Option<Box<str>>,
}

// === impl Format ===

impl Format {
    /// The name Kubernetes gives the format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DecimalSi => "DecimalSI",
            Self::BinarySi => "BinarySI",
            Self::DecimalExponent => "DecimalExponent",
        }
    }
}

// === impl Scale ===

impl Scale {
    /// Thousandths.
    pub const MILLI: Self = Self(-3);
    /// Whole units.
    pub const ONE: Self = Self(0);
}

// === impl Quantity ===

impl Quantity {
    /// So many whole units.
    pub fn new(value: i64, format: Format) -> Self {
        Self { amount: Amount::small(value, 0), format, written: None }
    }

    /// So many thousandths of a unit.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self { amount: Amount::small(value, Scale::MILLI.0), format, written: None }
    }

    /// The suffix family used when printed.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the amount is nothing.
    pub fn is_zero(&self) -> bool {
        self.amount.is_zero()
    }

    /// -1, 0 or 1 as the amount is negative, zero or positive.
    pub fn signum(&self) -> i32 {
        self.amount.signum()
    }

    /// Whole units, a fraction rounded away from zero. See [`Quantity::scaled_value`] for amounts beyond `i64`.
    pub fn value(&self) -> i64 {
        self.scaled_value(Scale::ONE)
    }

    /// Thousandths, anything finer rounded away from zero. See [`Quantity::scaled_value`] for amounts beyond `i64`.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(Scale::MILLI)
    }

    /// The amount counted in units of `scale`, rounded away from zero.
    ///
    /// The result is meaningless when the amount does not fit: it is then the same remainder (or zero) that
    /// apimachinery returns, kept equal so that both sides derive the same pods. Callers that must know use
    /// [`Quantity::checked_scaled_value`].
    pub fn scaled_value(&self, scale: Scale) -> i64 {
        self.amount.wrapping_scaled(scale.0)
    }

    /// The amount counted in units of `scale`, rounded away from zero, or `None` if it does not fit.
    pub fn checked_scaled_value(&self, scale: Scale) -> Option<i64> {
        self.amount.checked_scaled(scale.0)
    }

    /// The sum. Nothing plus an amount takes the format of that amount.
    ///
    /// Exact while the sum has at most 38 significant digits; past that the finest digits are rounded away.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { amount: self.amount.plus(&other.amount), format, written: None }
    }

    /// The difference, under the rules of [`Quantity::plus`].
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.plus(&other.negated())
    }

    /// The amount with its sign turned.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self { amount: self.amount.negated(), format: self.format, written: None }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.compare(&other.amount)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.amount.reduced().hash(state);
    }
}

#[cfg(test)]
mod tests;
