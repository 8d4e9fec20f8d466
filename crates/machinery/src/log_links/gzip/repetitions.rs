//! Finding what was there before.

use std::collections::HashMap;

/// Repetitions shorter than this are not looked for.
const MIN_MATCH: usize = 4;
/// The longest repetition that the format can express.
const MAX_MATCH: usize = 258;
/// How far back the format can point.
const WINDOW: usize = 1 << 15;
/// A repetition of the shortest length costs more than its bytes if it points further back than this.
const NEAR: usize = 4096;
/// A repetition this long is taken without looking at the next position first. Level 6 of Go's compressor.
const LAZY: usize = 16;
/// A repetition this long ends the search for a longer one. Level 6 of Go's compressor.
const NICE: usize = 128;
/// How many earlier places are compared. Level 6 of Go's compressor.
const TRIES: usize = 128;

/// One step of the compressed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A byte.
    Literal(u8),
    /// So many bytes as they stand so far back.
    Repeat { length: usize, distance: usize },
}

/// A distance as the format writes it.
pub(super) struct Distance {
    pub(super) symbol: usize,
    pub(super) extra: u32,
    pub(super) extra_bits: u32,
}

impl Token {
    /// Bytes that the token stands for.
    pub(super) fn length(self) -> usize {
        match self {
            Self::Literal(_) => 1,
            Self::Repeat { length, .. } => length,
        }
    }

    /// The symbol in the alphabet of literals and lengths.
    pub(super) fn literal_symbol(self) -> usize {
        match self {
            Self::Literal(byte) => usize::from(byte),
            Self::Repeat { length, .. } => 257 + length_code(length).0,
        }
    }

    /// What follows a length symbol: value and bits.
    pub(super) fn length_extra(self) -> (u32, u32) {
        match self {
            Self::Literal(_) => (0, 0),
            Self::Repeat { length, .. } => {
                let (_, extra, bits) = length_code(length);
                (extra, bits)
            }
        }
    }

    /// The symbol in the alphabet of distances.
    pub(super) fn distance_symbol(self) -> Option<Distance> {
        let Self::Repeat { distance, .. } = self else { return None };
        let (symbol, extra, extra_bits) = stepped(distance - 1, 2);
        Some(Distance { symbol, extra, extra_bits })
    }
}

/// The data as bytes and repetitions. At each place the longest repetition is sought, and taken only if the next place
/// has no longer one.
pub(super) fn tokens(data: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut seen = Seen { data, latest: HashMap::new(), earlier: vec![None; data.len()] };
    let mut previous: Option<(usize, usize)> = None;
    let mut held_back = false;
    let mut at = 0;
    while at < data.len() {
        let candidate = seen.add(at);
        let before = previous.map_or(MIN_MATCH - 1, |(length, _)| length);
        let found = if data.len() - at > before && before < LAZY { seen.longest(at, candidate) } else { None };
        match previous {
            Some((length, distance)) if found.is_none_or(|(found, _)| found <= length) => {
                tokens.push(Token::Repeat { length, distance });
                let next = at + length - 1;
                (at + 1..next).for_each(|place| {
                    seen.add(place);
                });
                (at, previous, held_back) = (next, None, false);
            }
            _ => {
                if held_back {
                    tokens.push(Token::Literal(data[at - 1]));
                }
                (at, previous, held_back) = (at + 1, found, true);
            }
        }
    }
    if held_back {
        tokens.extend(data.last().map(|byte| Token::Literal(*byte)));
    }
    tokens
}

/// The places seen so far, by the bytes that begin there.
struct Seen<'a> {
    data: &'a [u8],
    latest: HashMap<[u8; MIN_MATCH], usize>,
    /// The place before each with the same bytes.
    earlier: Vec<Option<usize>>,
}

impl Seen<'_> {
    /// Adds a place; returns the latest one before it that begins with the same bytes.
    fn add(&mut self, at: usize) -> Option<usize> {
        let key = *self.data[at..].first_chunk()?;
        let before = self.latest.insert(key, at);
        self.earlier[at] = before;
        before
    }

    /// Length and distance of the longest repetition, the nearest among equals.
    fn longest(&self, at: usize, candidate: Option<usize>) -> Option<(usize, usize)> {
        let limit = MAX_MATCH.min(self.data.len() - at);
        let mut best: Option<(usize, usize)> = None;
        let places = std::iter::successors(candidate, |place| self.earlier[*place]);
        for place in places.take_while(|place| at - place <= WINDOW).take(TRIES) {
            let length = (0..limit).take_while(|i| self.data[place + i] == self.data[at + i]).count();
            let distance = at - place;
            let longer = length > best.map_or(MIN_MATCH - 1, |(length, _)| length);
            if longer && (length > MIN_MATCH || distance <= NEAR) {
                best = Some((length, distance));
                if length >= NICE.min(limit) {
                    break;
                }
            }
        }
        best
    }
}

/// Symbol from 0, value of the extra bits, their number.
fn length_code(length: usize) -> (usize, u32, u32) {
    // The longest length has a symbol of its own, because it is frequent.
    if length == MAX_MATCH { (28, 0, 0) } else { stepped(length - 3, 4) }
}

/// Symbols that each stand for a range of values: `step` symbols per doubling, the first ranges one value wide.
fn stepped(value: usize, step: usize) -> (usize, u32, u32) {
    if value < 2 * step {
        return (value, 0, 0);
    }
    let extra_bits = (value / step).ilog2();
    let symbol = (extra_bits as usize) * step + (value >> extra_bits);
    (symbol, (value & ((1 << extra_bits) - 1)) as u32, extra_bits)
}
