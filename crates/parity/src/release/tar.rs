//! Archives in the format `ustar`, with the same bytes for the same files.

use std::io::{Read as _, Write as _};

use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// The size of a header. Contents are filled up to a multiple of it, and two empty blocks end the archive.
const BLOCK: usize = 512;
/// The longest path in a header without its extension for long paths, which nothing here needs.
const LONGEST_PATH: usize = 100;
/// The fields of a header that are used here, by their first byte and their length.
const NAME: (usize, usize) = (0, LONGEST_PATH);
const MODE: (usize, usize) = (100, 8);
const OWNER: (usize, usize) = (108, 8);
const GROUP: (usize, usize) = (116, 8);
const SIZE: (usize, usize) = (124, 12);
const TIME: (usize, usize) = (136, 12);
const SUM: (usize, usize) = (148, 8);
const TYPE: usize = 156;
const MAGIC: usize = 257;

/// A file or a folder in an archive. It belongs to root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path without a leading slash.
    pub path: String,
    /// The permissions.
    pub mode: u32,
    /// What it is.
    pub kind: Kind,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Directory,
    /// A file with its content.
    File(Vec<u8>),
}

impl Entry {
    /// A folder that everybody may read.
    #[must_use]
    pub fn directory(path: &str) -> Self {
        Self { path: path.to_owned(), mode: 0o755, kind: Kind::Directory }
    }

    /// A file.
    #[must_use]
    pub fn file(path: &str, mode: u32, content: Vec<u8>) -> Self {
        Self { path: path.to_owned(), mode, kind: Kind::File(content) }
    }
}

/// An archive of these entries in their order. All have this time, in seconds since 1970.
///
/// # Errors
/// A path is too long.
pub fn archive(entries: &[Entry], time: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for entry in entries {
        let (path, content, kind): (String, &[u8], u8) = match &entry.kind {
            Kind::Directory => (format!("{}/", entry.path), &[], b'5'),
            Kind::File(content) => (entry.path.clone(), content, b'0'),
        };
        ensure!(path.len() <= LONGEST_PATH, "{path} is longer than {LONGEST_PATH} bytes");
        let mut header = [0; BLOCK];
        header[..path.len()].copy_from_slice(path.as_bytes());
        write_number(&mut header, MODE, u64::from(entry.mode));
        write_number(&mut header, OWNER, 0);
        write_number(&mut header, GROUP, 0);
        write_number(&mut header, SIZE, content.len() as u64);
        write_number(&mut header, TIME, time);
        header[TYPE] = kind;
        header[MAGIC..MAGIC + 8].copy_from_slice(b"ustar\x0000");
        write_sum(&mut header);
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    Ok(bytes)
}

/// The entries of an archive with their times.
///
/// # Errors
/// It is not such an archive, or an entry does not belong to root or is neither a file nor a folder.
pub fn entries(archive: &[u8]) -> Result<Vec<(Entry, u64)>> {
    let mut found = Vec::new();
    for at in headers(archive)? {
        let header = &archive[at..at + BLOCK];
        let path = text(header, NAME)?;
        ensure!(read_number(header, OWNER)? == 0 && read_number(header, GROUP)? == 0, "{path} does not belong to root");
        let size = usize::try_from(read_number(header, SIZE)?)?;
        let kind = match header[TYPE] {
            b'5' => Kind::Directory,
            b'0' => Kind::File(archive[at + BLOCK..at + BLOCK + size].to_vec()),
            other => anyhow::bail!("{path} has the type {other}"),
        };
        let mode = u32::try_from(read_number(header, MODE)?)?;
        found.push((Entry { path: path.trim_end_matches('/').to_owned(), mode, kind }, read_number(header, TIME)?));
    }
    Ok(found)
}

/// Replaces the times in an archive that another program wrote.
///
/// # Errors
/// It is not an archive.
pub fn with_time(mut archive: Vec<u8>, time: u64) -> Result<Vec<u8>> {
    for at in headers(&archive)? {
        let header = &mut archive[at..at + BLOCK];
        write_number(header, TIME, time);
        write_sum(header);
    }
    Ok(archive)
}

/// Compresses with the compressor that `Cargo.lock` pins, so that the result is the same everywhere. Level 0 only stores.
///
/// # Errors
/// None for bytes in memory.
pub fn gzip(bytes: &[u8], level: u32) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// The opposite of [`gzip`].
///
/// # Errors
/// The bytes were not compressed so.
pub fn gunzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).context("reading gzip")?;
    Ok(plain)
}

/// Where the headers begin.
fn headers(archive: &[u8]) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(header) = archive.get(at..at + BLOCK).filter(|header| header.iter().any(|byte| *byte != 0)) {
        ensure!(&header[MAGIC..MAGIC + 5] == b"ustar", "no header at byte {at}");
        found.push(at);
        let size = usize::try_from(read_number(header, SIZE)?)?;
        at += BLOCK + size.next_multiple_of(BLOCK);
        ensure!(at <= archive.len(), "the archive ends inside of a file");
    }
    Ok(found)
}

/// Numbers are octal digits and end with a zero byte.
fn write_number(header: &mut [u8], (at, length): (usize, usize), number: u64) {
    let digits = format!("{number:0width$o}\0", width = length - 1);
    header[at..at + length].copy_from_slice(digits.as_bytes());
}

fn read_number(header: &[u8], field: (usize, usize)) -> Result<u64> {
    let digits = text(header, field)?;
    u64::from_str_radix(digits.trim(), 8).with_context(|| format!("{digits:?} is not an octal number"))
}

fn text(header: &[u8], (at, length): (usize, usize)) -> Result<&str> {
    let field = header[at..at + length].split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(std::str::from_utf8(field)?)
}

/// The sum of all bytes of the header, in which the sum itself counts as spaces.
fn write_sum(header: &mut [u8]) {
    header[SUM.0..SUM.0 + SUM.1].fill(b' ');
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    // One digit fewer than other numbers: the last byte stays a space.
    write_number(header, (SUM.0, SUM.1 - 1), sum);
}
