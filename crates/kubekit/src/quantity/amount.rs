//! The number inside a quantity: `mantissa * 10^exponent`.

use std::cmp::Ordering;

/// Which of apimachinery's two number types this amount would be held in there.
///
/// The value does not depend on it, but what is left of an amount too large for `i64` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Width {
    /// A 64-bit mantissa.
    #[default]
    Small,
    /// An unbounded mantissa.
    Large,
}

/// Digits of the largest mantissa.
const MAX_DIGITS: i32 = 39;

/// An exact decimal number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    mantissa: i128,
    exponent: i32,
    width: Width,
}

impl Amount {
    pub(super) fn small(mantissa: i64, exponent: i32) -> Self {
        Self { mantissa: mantissa.into(), exponent, width: Width::Small }
    }

    pub(super) fn large(mantissa: i128, exponent: i32) -> Self {
        Self { mantissa, exponent, width: Width::Large }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    pub(super) fn signum(&self) -> i32 {
        self.compare(&Self::default()) as i32
    }

    pub(super) fn negated(&self) -> Self {
        // A small mantissa of i64::MIN has no small negative; the width then no longer matches upstream's, which
        // wraps instead and keeps the number negative.
        Self { mantissa: self.mantissa.saturating_neg(), ..*self }
    }

    /// Mantissa and exponent with every factor of ten moved into the exponent: one form per value.
    pub(super) fn reduced(&self) -> (i128, i32) {
        if self.mantissa == 0 {
            return (0, 0);
        }
        let (mut mantissa, mut exponent) = (self.mantissa, self.exponent);
        while mantissa % 10 == 0 {
            mantissa /= 10;
            exponent = exponent.saturating_add(1);
        }
        (mantissa, exponent)
    }

    /// The amount as a whole number, if it is one and fits.
    pub(super) fn whole(&self) -> Option<i128> {
        let (mantissa, exponent) = self.reduced();
        mantissa.checked_mul(pow10(u32::try_from(exponent).ok()?)?)
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let (left, left_exponent) = self.reduced();
        let (right, right_exponent) = other.reduced();
        if left.signum() != right.signum() || left == 0 {
            return left.signum().cmp(&right.signum());
        }
        let by_size = compare_sizes((left.unsigned_abs(), left_exponent), (right.unsigned_abs(), right_exponent));
        if left < 0 { by_size.reverse() } else { by_size }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        if other.is_zero() {
            return *self;
        }
        if self.is_zero() {
            return *other;
        }
        let both_small = self.width == Width::Small && other.width == Width::Small;
        // Lower exponents are exact; each coarser one gives up a digit, which only happens past 38 digits. Whatever has
        // the larger exponent cannot be written more than that many digits below it.
        let coarsest = self.exponent.max(other.exponent);
        let finest = self.exponent.min(other.exponent).max(coarsest.saturating_sub(MAX_DIGITS));
        let sum = (finest..=coarsest).find_map(|exponent| {
            let mantissa = self.at(exponent)?.checked_add(other.at(exponent)?)?;
            Some((mantissa, exponent))
        });
        let largest = if self.mantissa < 0 { i128::MIN } else { i128::MAX };
        let (mantissa, exponent) = sum.unwrap_or((largest, coarsest));
        let width = if both_small && i64::try_from(mantissa).is_ok() { Width::Small } else { Width::Large };
        Self { mantissa, exponent, width }
    }

    /// The mantissa this amount has at another exponent, rounded away from zero.
    fn at(&self, exponent: i32) -> Option<i128> {
        match self.exponent.checked_sub(exponent)? {
            up @ 0.. => self.mantissa.checked_mul(pow10(up.unsigned_abs())?),
            down => Some(divide_away_from_zero(self.mantissa, down.unsigned_abs())),
        }
    }

    pub(super) fn checked_scaled(&self, scale: i32) -> Option<i64> {
        i64::try_from(self.at(scale)?).ok()
    }

    /// The value in units of `10^scale`, and whatever apimachinery returns in place of a value that does not fit.
    pub(super) fn wrapping_scaled(&self, scale: i32) -> i64 {
        if let Some(fits) = self.checked_scaled(scale) {
            return fits;
        }
        let up = self.exponent.saturating_sub(scale);
        if up < 0 {
            return divide_away_from_zero(self.mantissa, up.unsigned_abs()) as i64;
        }
        match (self.width, up) {
            // Upstream multiplies by these powers at once and returns the wrapped product; for all others it
            // multiplies step by step and gives up with zero.
            (Width::Small, 0..=3 | 6 | 9) | (Width::Large, _) => {
                (self.mantissa as i64).wrapping_mul(10_i64.wrapping_pow(up.unsigned_abs()))
            }
            (Width::Small, _) => 0,
        }
    }
}

/// Order of two positive numbers `mantissa * 10^exponent`.
fn compare_sizes((left, left_exponent): (u128, i32), (right, right_exponent): (u128, i32)) -> Ordering {
    let digits = |mantissa: u128| i64::from(mantissa.ilog10());
    let magnitude = |mantissa, exponent: i32| digits(mantissa) + i64::from(exponent);
    magnitude(left, left_exponent).cmp(&magnitude(right, right_exponent)).then_with(|| {
        // Same magnitude: the exponents differ by less than the digits of a mantissa, so only the top end of u128
        // can overflow, and what overflows is the larger one.
        let shift = left_exponent.abs_diff(right_exponent);
        let widened = |mantissa: u128| 10_u128.checked_pow(shift).and_then(|factor| mantissa.checked_mul(factor));
        if left_exponent >= right_exponent {
            widened(left).map_or(Ordering::Greater, |left| left.cmp(&right))
        } else {
            widened(right).map_or(Ordering::Less, |right| left.cmp(&right))
        }
    })
}

fn divide_away_from_zero(mantissa: i128, digits: u32) -> i128 {
    let Some(divisor) = pow10(digits) else {
        return mantissa.signum();
    };
    let quotient = mantissa / divisor;
    if mantissa % divisor == 0 { quotient } else { quotient + mantissa.signum() }
}

fn pow10(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
}
