//! What the header of a Linux program says about it.

use anyhow::{Context as _, Result, bail, ensure};

/// The entry of the program header that names a dynamic linker.
const INTERPRETER: u32 = 3;

/// The processors that releases are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// 64-bit x86.
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

/// A program in the format ELF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elf {
    /// The processor that it runs on.
    pub architecture: Architecture,
    /// It needs no file besides itself: neither a dynamic linker nor libraries.
    pub is_static: bool,
}

impl Architecture {
    /// The name in images.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

impl Elf {
    /// Reads the header of a program.
    ///
    /// # Errors
    /// It is not a 64-bit little-endian ELF program for one of the processors above.
    pub fn read(program: &[u8]) -> Result<Self> {
        ensure!(program.get(..6) == Some(b"\x7fELF\x02\x01"), "not a 64-bit little-endian ELF program");
        let architecture = match half(program, 18)? {
            62 => Architecture::Amd64,
            183 => Architecture::Arm64,
            other => bail!("a program for the processor {other} of ELF"),
        };
        let offset = bytes::<8>(program, 32).map(u64::from_le_bytes)?;
        let (size, count) = (half(program, 54)?, half(program, 56)?);
        let mut is_static = true;
        for index in 0..u64::from(count) {
            let at = usize::try_from(offset + index * u64::from(size))?;
            is_static &= bytes::<4>(program, at).map(u32::from_le_bytes)? != INTERPRETER;
        }
        Ok(Self { architecture, is_static })
    }
}

fn half(program: &[u8], at: usize) -> Result<u16> {
    bytes::<2>(program, at).map(u16::from_le_bytes)
}

fn bytes<const N: usize>(program: &[u8], at: usize) -> Result<[u8; N]> {
    let found = program.get(at..at + N).context("the ELF header is cut off")?;
    Ok(found.try_into()?)
}
