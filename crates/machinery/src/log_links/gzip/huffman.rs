//! Prefix codes of bounded length.

use super::{Bits, LITERALS};

/// Code lengths of the distance symbols in a block that describes no codes of its own.
pub(super) const FIXED_DISTANCES: [u8; super::DISTANCES] = [5; super::DISTANCES];

/// A prefix code: what each symbol is written as.
pub(super) struct Codes {
    /// Bits of each symbol; 0 if the symbol does not occur.
    lengths: Vec<u8>,
    /// The bits themselves, first bit lowest.
    codes: Vec<u16>,
}

impl Codes {
    /// The code that makes symbols with these counts shortest without any code above `max_length`.
    pub(super) fn for_counts(counts: &[u32], max_length: usize) -> Self {
        Self::from_lengths(&code_lengths(counts, max_length))
    }

    /// The canonical code of RFC 1951: shorter codes first, and in symbol order among equal lengths.
    pub(super) fn from_lengths(lengths: &[u8]) -> Self {
        let mut codes = vec![0; lengths.len()];
        let mut next: u16 = 0;
        for length in 1..=15_u8 {
            next <<= 1;
            for (symbol, _) in lengths.iter().enumerate().filter(|(_, bits)| **bits == length) {
                codes[symbol] = (next << (16 - u32::from(length))).reverse_bits();
                next += 1;
            }
        }
        Self { lengths: lengths.to_vec(), codes }
    }

    pub(super) fn length(&self, symbol: usize) -> u8 {
        self.lengths[symbol]
    }

    /// The lengths up to the last symbol that occurs.
    pub(super) fn used_lengths(&self) -> &[u8] {
        let used = self.lengths.iter().rposition(|length| *length > 0).map_or(0, |last| last + 1);
        &self.lengths[..used]
    }

    /// Bits that symbols with these counts take.
    pub(super) fn size(&self, counts: &[u32]) -> u32 {
        counts.iter().zip(&self.lengths).map(|(count, length)| count * u32::from(*length)).sum()
    }

    pub(super) fn write(&self, out: &mut Bits, symbol: usize) {
        out.put(u32::from(self.codes[symbol]), u32::from(self.lengths[symbol]));
    }
}

/// The code of literals and lengths in a block that describes no codes of its own.
pub(super) fn fixed_literals() -> Codes {
    // RFC 1951 counts two symbols that never occur; they only take their place in the order of codes.
    let mut lengths = [8_u8; LITERALS + 2];
    lengths[144..256].fill(9);
    lengths[256..280].fill(7);
    Codes::from_lengths(&lengths)
}

/// Package-merge: of all items on the top level the cheapest are taken, and each pair among them takes two items of the
/// level below. How often a symbol is taken is its length. Where a symbol and a pair cost the same, the pair comes first.
fn code_lengths(counts: &[u32], max_length: usize) -> Vec<u8> {
    let mut symbols: Vec<usize> = (0..counts.len()).filter(|symbol| counts[*symbol] > 0).collect();
    let mut lengths = vec![0; counts.len()];
    if symbols.len() <= 2 {
        symbols.iter().for_each(|symbol| lengths[*symbol] = 1);
        return lengths;
    }
    symbols.sort_by_key(|symbol| (counts[*symbol], *symbol));

    let levels = max_length.min(symbols.len() - 1);
    let mut rows: Vec<Vec<Item>> = Vec::with_capacity(levels);
    for _ in 0..levels {
        let pairs = rows.last().map_or(&[][..], |row| row.as_slice()).chunks_exact(2);
        let mut pairs = pairs.map(|pair| Item { cost: pair[0].cost + pair[1].cost, leaf: false }).peekable();
        let mut row = Vec::with_capacity(2 * symbols.len());
        for symbol in &symbols {
            let cost = u64::from(counts[*symbol]);
            while let Some(pair) = pairs.next_if(|pair| pair.cost <= cost) {
                row.push(pair);
            }
            row.push(Item { cost, leaf: true });
        }
        row.extend(pairs);
        rows.push(row);
    }

    let mut wanted = 2 * symbols.len() - 2;
    for row in rows.iter().rev() {
        let taken = &row[..wanted.min(row.len())];
        let leaves = taken.iter().filter(|item| item.leaf).count();
        symbols[..leaves].iter().for_each(|symbol| lengths[*symbol] += 1);
        wanted = 2 * (taken.len() - leaves);
    }
    lengths
}

#[derive(Clone, Copy)]
struct Item {
    cost: u64,
    leaf: bool,
}
