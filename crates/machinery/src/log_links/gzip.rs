//! Compressed data as links carry it (RFC 1951 and 1952).
//!
//! A link must read the same from round to round and from one executor to the next, or every round looks like news. So
//! the choices that the formats leave open (which repetition to take, how to break ties between code lengths) are made
//! as Go's `compress/gzip` makes them at its default level, and no general library does that.

mod huffman;
mod repetitions;

use huffman::{Codes, FIXED_DISTANCES, fixed_literals};
use repetitions::{Token, tokens};

/// Symbol that ends a block; those above it stand for lengths.
const END_OF_BLOCK: usize = 256;
/// Number of literal and length symbols.
const LITERALS: usize = 286;
/// Number of distance symbols.
const DISTANCES: usize = 30;
/// Most symbols that one block holds.
const BLOCK_TOKENS: usize = 1 << 14;
/// The order in which RFC 1951 lists the lengths of the codes for code lengths: the rarely used last.
const LENGTH_CODE_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// The data in the gzip format.
pub(super) fn gzip(data: &[u8]) -> Vec<u8> {
    // Deflate, no flags, no time, no hint, origin unknown.
    let mut out = Bits { bytes: vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff], ..Bits::default() };
    let mut start = 0;
    for block in tokens(data).chunks(BLOCK_TOKENS) {
        let end = start + block.iter().map(|token| token.length()).sum::<usize>();
        write_block(&mut out, block, &data[start..end]);
        start = end;
    }
    out.stored_header(0, true);
    out.bytes.extend(crc32(data).to_le_bytes());
    out.bytes.extend(u32::try_from(data.len() & 0xffff_ffff).unwrap_or_default().to_le_bytes());
    out.bytes
}

/// Bits in the order in which deflate packs them: the lowest first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    pending: u64,
    count: u32,
}

impl Bits {
    fn put(&mut self, value: u32, bits: u32) {
        self.pending |= u64::from(value) << self.count;
        self.count += bits;
        while self.count >= 8 {
            self.bytes.push((self.pending & 0xff) as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    fn stored_header(&mut self, length: u16, last: bool) {
        self.put(u32::from(last), 3);
        if self.count > 0 {
            self.put(0, 8 - self.count);
        }
        self.put(u32::from(length), 16);
        self.put(u32::from(!length), 16);
    }
}

/// Writes a block in the smallest of the three forms there are.
fn write_block(out: &mut Bits, block: &[Token], data: &[u8]) {
    let (mut literal_counts, mut distance_counts) = ([0_u32; LITERALS], [0_u32; DISTANCES]);
    let mut extra_bits = 0;
    literal_counts[END_OF_BLOCK] = 1;
    for token in block {
        literal_counts[token.literal_symbol()] += 1;
        if let Some(distance) = token.distance_symbol() {
            distance_counts[distance.symbol] += 1;
            extra_bits += distance.extra_bits + token.length_extra().1;
        }
    }
    if distance_counts.iter().all(|count| *count == 0) {
        // A block without repetitions still has to describe one distance code.
        distance_counts[0] = 1;
    }
    let literals = Codes::for_counts(&literal_counts, 15);
    let distances = Codes::for_counts(&distance_counts, 15);
    let description = Description::of(&literals, &distances);

    let (fixed_literals, fixed_distances) = (fixed_literals(), Codes::from_lengths(&FIXED_DISTANCES));
    let fixed_size = 3 + fixed_literals.size(&literal_counts) + fixed_distances.size(&distance_counts);
    let dynamic_size = description.size() + literals.size(&literal_counts) + distances.size(&distance_counts);
    let size = fixed_size.min(dynamic_size) + extra_bits;
    match u16::try_from(data.len()) {
        Ok(length) if (u32::from(length) + 5) * 8 < size => {
            out.stored_header(length, false);
            out.bytes.extend_from_slice(data);
        }
        _ if dynamic_size < fixed_size => {
            description.write(out);
            write_tokens(out, block, &literals, &distances);
        }
        _ => {
            out.put(0b010, 3);
            write_tokens(out, block, &fixed_literals, &fixed_distances);
        }
    }
}

fn write_tokens(out: &mut Bits, block: &[Token], literals: &Codes, distances: &Codes) {
    for token in block {
        literals.write(out, token.literal_symbol());
        if let Some(distance) = token.distance_symbol() {
            let (value, bits) = token.length_extra();
            out.put(value, bits);
            distances.write(out, distance.symbol);
            out.put(distance.extra, distance.extra_bits);
        }
    }
    literals.write(out, END_OF_BLOCK);
}

/// How a block tells its own codes: the code lengths of both alphabets as one list, runs shortened, coded once more.
struct Description {
    literal_count: usize,
    distance_count: usize,
    /// Symbol of the code for code lengths, then the repeat count in so many bits.
    runs: Vec<(usize, u32, u32)>,
    counts: [u32; 19],
    codes: Codes,
    listed: usize,
}

impl Description {
    fn of(literals: &Codes, distances: &Codes) -> Self {
        let (literal_lengths, distance_lengths) = (literals.used_lengths(), distances.used_lengths());
        let lengths: Vec<u8> = literal_lengths.iter().chain(distance_lengths).copied().collect();
        let mut runs = Vec::new();
        for run in lengths.chunk_by(|a, b| a == b) {
            push_run(run[0], run.len(), &mut runs);
        }
        let mut counts = [0; 19];
        for (symbol, _, _) in &runs {
            counts[*symbol] += 1;
        }
        let listed = LENGTH_CODE_ORDER.iter().rposition(|symbol| counts[*symbol] > 0).map_or(4, |last| last + 1).max(4);
        Self {
            literal_count: literal_lengths.len(),
            distance_count: distance_lengths.len(),
            codes: Codes::for_counts(&counts, 7),
            runs,
            counts,
            listed,
        }
    }

    fn size(&self) -> u32 {
        let repeats: u32 = self.runs.iter().map(|(_, _, bits)| bits).sum();
        3 + 5 + 5 + 4 + 3 * self.listed as u32 + self.codes.size(&self.counts) + repeats
    }

    fn write(&self, out: &mut Bits) {
        out.put(0b100, 3);
        out.put((self.literal_count - 257) as u32, 5);
        out.put((self.distance_count - 1) as u32, 5);
        out.put((self.listed - 4) as u32, 4);
        for symbol in &LENGTH_CODE_ORDER[..self.listed] {
            out.put(u32::from(self.codes.length(*symbol)), 3);
        }
        for (symbol, repeat, bits) in &self.runs {
            self.codes.write(out, *symbol);
            out.put(*repeat, *bits);
        }
    }
}

/// A run of equal code lengths. 16 repeats the length before it, 17 and 18 are short and long runs of zero.
fn push_run(length: u8, mut count: usize, runs: &mut Vec<(usize, u32, u32)>) {
    let symbol = usize::from(length);
    if length == 0 {
        while count >= 11 {
            let taken = count.min(138);
            runs.push((18, (taken - 11) as u32, 7));
            count -= taken;
        }
        if count >= 3 {
            runs.push((17, (count - 3) as u32, 3));
            count = 0;
        }
    } else {
        runs.push((symbol, 0, 0));
        count -= 1;
        while count >= 3 {
            let taken = count.min(6);
            runs.push((16, (taken - 3) as u32, 2));
            count -= taken;
        }
    }
    runs.extend(std::iter::repeat_n((symbol, 0, 0), count));
}

fn crc32(data: &[u8]) -> u32 {
    /// The polynomial of RFC 1952, its bits reversed.
    const POLYNOMIAL: u32 = 0xedb8_8320;
    !data.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests;
