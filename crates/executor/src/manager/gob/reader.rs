//! Reading gob's primitive values from a slice, never past its end.

use super::GobError;

/// A position in a byte slice. Offsets in errors are relative to the start of the whole stream.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, at: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], GobError> {
        let (head, tail) = self.rest.split_at_checked(count).ok_or(GobError::Truncated { at: self.at })?;
        self.rest = tail;
        self.at += count;
        Ok(head)
    }

    /// An unsigned integer: one byte below 128, else the negated count of big-endian bytes, then those bytes.
    pub fn uint(&mut self) -> Result<u64, GobError> {
        let at = self.at;
        let first = self.take(1)?[0];
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let count = usize::from(first.wrapping_neg());
        if count > 8 {
            return Err(GobError::BadInteger { at });
        }
        Ok(self.take(count)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// A signed integer: the sign is the lowest bit, and negative numbers are complemented.
    pub fn int(&mut self) -> Result<i64, GobError> {
        let raw = self.uint()?;
        let magnitude = (raw >> 1).cast_signed();
        Ok(if raw & 1 == 1 { !magnitude } else { magnitude })
    }

    /// A count of things that take at least one byte each, so a count above the bytes left is a lie.
    pub fn count(&mut self) -> Result<usize, GobError> {
        let at = self.at;
        let announced = self.uint()?;
        match usize::try_from(announced) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(GobError::TooLong { at, announced, left: self.rest.len() }),
        }
    }

    /// A byte string or string: a length and the bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], GobError> {
        let count = self.count()?;
        self.take(count)
    }

    /// A message: a length and a part of the stream that is read on its own.
    pub fn message(&mut self) -> Result<Self, GobError> {
        let count = self.count()?;
        let at = self.at;
        Ok(Self { rest: self.take(count)?, at })
    }
}
