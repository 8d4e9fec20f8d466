//! The vocabulary of the format: bootstrap type numbers, the shapes a stream can describe, and Go's binary time.

use jiff::Timestamp;

use super::GobError;

/// Type numbers every stream knows without describing them (`encoding/gob/type.go`, bootstrap order).
pub(super) mod builtin {
    pub const BOOL: i64 = 1;
    pub const INT: i64 = 2;
    pub const UINT: i64 = 3;
    pub const FLOAT: i64 = 4;
    pub const BYTES: i64 = 5;
    pub const STRING: i64 = 6;
    pub const COMPLEX: i64 = 7;
    pub const INTERFACE: i64 = 8;
}

/// First number Go gives to a type of the program; the plugin state is the first type such a process encodes.
pub(super) const FIRST_USER_TYPE: i64 = 64;

/// Seconds from the start of year 1, the origin of Go's time, to the Unix epoch.
const YEAR_ONE_TO_UNIX: i64 = 62_135_596_800;

/// One field of a described struct.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub name: String,
    pub type_id: i64,
}

/// What a type description in a stream says.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    Array {
        elem: i64,
    },
    Slice {
        elem: i64,
    },
    Map {
        key: i64,
        elem: i64,
    },
    Struct {
        fields: Vec<Field>,
    },
    /// A type that encodes itself (`GobEncoder`, `BinaryMarshaler`, `TextMarshaler`): a byte string.
    Opaque,
}

/// The 15 bytes of `time.Time.MarshalBinary`, version 1, in UTC; `None` for the zero time, which gob leaves out.
pub(super) fn time_bytes(time: Timestamp) -> Option<[u8; 15]> {
    // jiff counts nanoseconds towards the sign of the second; Go always counts them upwards.
    let (mut seconds, mut nanos) = (time.as_second(), time.subsec_nanosecond());
    if nanos < 0 {
        seconds -= 1;
        nanos += 1_000_000_000;
    }
    let seconds = seconds + YEAR_ONE_TO_UNIX;
    if seconds == 0 && nanos == 0 {
        return None;
    }
    let mut out = [0; 15];
    out[0] = 1;
    out[1..9].copy_from_slice(&seconds.to_be_bytes());
    out[9..13].copy_from_slice(&nanos.to_be_bytes());
    // Minutes east of Greenwich; minus one is how Go marks UTC itself.
    out[13..15].copy_from_slice(&(-1_i16).to_be_bytes());
    Some(out)
}

/// Reads `time.Time.MarshalBinary`, versions 1 and 2. The offset says how to print the instant, not which instant it
/// is, so it is checked for presence only.
pub(super) fn read_time(field: &'static str, bytes: &[u8]) -> Result<Option<Timestamp>, GobError> {
    let bad = |detail| GobError::BadTime { field, detail };
    let body = match bytes {
        [1, body @ ..] if body.len() == 14 => body,
        [2, body @ ..] if body.len() == 15 => body,
        [1 | 2, ..] => return Err(bad("wrong length")),
        _ => return Err(bad("unknown version")),
    };
    let (Some(seconds), Some(nanos)) = (body.first_chunk::<8>(), body.get(8..).and_then(<[u8]>::first_chunk::<4>))
    else {
        return Err(bad("wrong length"));
    };
    let (seconds, nanos) = (i64::from_be_bytes(*seconds), i32::from_be_bytes(*nanos));
    if seconds == 0 && nanos == 0 {
        return Ok(None);
    }
    let seconds = seconds.checked_sub(YEAR_ONE_TO_UNIX).ok_or_else(|| bad("out of range"))?;
    if !(0..1_000_000_000).contains(&nanos) {
        return Err(bad("nanoseconds out of range"));
    }
    Timestamp::new(seconds, nanos).map(Some).map_err(|_| bad("out of range"))
}
