//! FNV-1a digests and the base-32 alphabet that is safe in Kubernetes names.

/// A digest of the FNV-1a family, big-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fnv1a {
    /// 4 bytes.
    #[default]
    Bits32,
    /// 8 bytes.
    Bits64,
    /// 16 bytes.
    Bits128,
}

/// Letters and digits of [`base32`]: all are allowed anywhere in a DNS-1123 label.
const ALPHABET: [u8; 32] = *b"abcdefghijklmnopqrstuvwxyz123456";

impl Fnv1a {
    /// The digest of `bytes`.
    pub fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Bits32 => fnv1a_32(bytes).to_be_bytes().to_vec(),
            Self::Bits64 => {
                fold(bytes, 0xcbf2_9ce4_8422_2325_u64, |hash| hash.wrapping_mul(0x100_0000_01b3)).to_be_bytes().to_vec()
            }
            Self::Bits128 => fold(bytes, 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash| {
                hash.wrapping_mul(0x0100_0000_0000_0000_0000_013b)
            })
            .to_be_bytes()
            .to_vec(),
        }
    }
}

/// The 32-bit FNV-1a digest as a number.
pub fn fnv1a_32(bytes: &[u8]) -> u32 {
    fold(bytes, 0x811c_9dc5_u32, |hash| hash.wrapping_mul(0x0100_0193))
}

fn fold<T: From<u8> + std::ops::BitXor<Output = T>>(bytes: &[u8], offset: T, multiply: impl Fn(T) -> T) -> T {
    bytes.iter().fold(offset, |hash, byte| multiply(hash ^ T::from(*byte)))
}

/// Base 32 without padding, in lower-case letters and the digits 1 to 6.
pub fn base32(bytes: &[u8]) -> String {
    let mut text = String::with_capacity((bytes.len() * 8).div_ceil(5));
    for chunk in bytes.chunks(5) {
        let mut block = [0; 8];
        block[..chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(block);
        for index in 0..(chunk.len() * 8).div_ceil(5) {
            let letter = (bits >> (59 - 5 * index)) & 0x1f;
            text.push(char::from(ALPHABET[letter as usize]));
        }
    }
    text
}

/// The bytes behind a text of [`base32`], `None` if it holds other characters or has an impossible length.
pub fn base32_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 5 / 8);
    for chunk in text.as_bytes().chunks(8) {
        if matches!(chunk.len(), 1 | 3 | 6) {
            return None;
        }
        let mut bits = 0_u64;
        for (index, letter) in chunk.iter().enumerate() {
            let value = ALPHABET.iter().position(|candidate| candidate == letter)? as u64;
            bits |= value << (59 - 5 * index);
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[..chunk.len() * 5 / 8]);
    }
    Some(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn digests_match_published_values() {
        assert_eq!(fnv1a_32(b""), 0x811c_9dc5);
        assert_eq!(fnv1a_32(b"foobar"), 0xbf9c_f968);
        assert_eq!(Fnv1a::Bits64.digest(b"foobar"), 0x8594_4171_f739_67e8_u64.to_be_bytes());
        assert_eq!(Fnv1a::Bits128.digest(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18_u128.to_be_bytes());
    }

    #[test]
    fn foreign_text_is_not_decoded() {
        assert_eq!(base32_decode("A"), None);
        assert_eq!(base32_decode("a0"), None);
        assert_eq!(base32_decode("abc"), None);
        assert_eq!(base32_decode("nnsq").unwrap(), b"ke");
    }

    proptest! {
        #[test]
        fn base32_round_trips(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let text = base32(&bytes);
            prop_assert!(text.bytes().all(|byte| ALPHABET.contains(&byte)));
            prop_assert_eq!(base32_decode(&text), Some(bytes));
        }
    }
}
