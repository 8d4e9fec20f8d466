//! Any bytes as the stored state of a plugin, in the encoding of Go's `encoding/gob`.

use aileron_executor::manager::gob::{decode, encode};

/// Decodes the bytes. A state that can be read must be the same after it was written and read again.
pub fn read(data: &[u8]) {
    if let Ok(state) = decode(data) {
        assert_eq!(decode(&encode(&state)).as_ref(), Ok(&state), "another state after writing it");
    }
}
