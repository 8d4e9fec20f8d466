#![allow(clippy::unwrap_used, clippy::panic)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::*;

/// Everything set, as Go wrote it: two times, a multi-byte reason, the largest version.
const FULL: &str = "ZH8DAQELUGx1Z2luU3RhdGUB/4AAAQQBBVBoYXNlAQYAAQ5LOHNQbHVnaW5TdGF0ZQH/ggABD0xhc3RFdmVudFVwZGF0ZQH/hAAB\
    E0xhc3RFdmVudFJlY29yZGVkQXQB/4QAAAA//4EDAQELUGx1Z2luU3RhdGUB/4IAAQMBBVBoYXNlAQQAAQxQaGFzZVZlcnNpb24BBgABBlJlYXNv\
    bgEMAAAAEP+DBQEBBFRpbWUB/4QAAAA4/4ABAQEBCgH8/////wEFw7xuw68AAQ8BAAAADt3KeNkAAAAA//8BDwEAAAAO3cp42QdbzRX//wA=";

/// The zero state, as Go wrote it.
const ZERO: &str = "ZH8DAQELUGx1Z2luU3RhdGUB/4AAAQQBBVBoYXNlAQYAAQ5LOHNQbHVnaW5TdGF0ZQH/ggABD0xhc3RFdmVudFVwZGF0ZQH/hAAB\
    E0xhc3RFdmVudFJlY29yZGVkQXQB/4QAAAA//4EDAQELUGx1Z2luU3RhdGUB/4IAAQMBBVBoYXNlAQQAAQxQaGFzZVZlcnNpb24BBgABBlJlYXNv\
    bgEMAAAAEP+DBQEBBFRpbWUB/4QAAAAF/4ACAAA=";

/// A later version of the struct, as Go wrote it: other type numbers, fields added of every kind gob has (array,
/// complex, interface, self-encoding, map, slice, bytes, bool), fields removed, and a time with seconds in its offset.
const EVOLVED: &str = "/43/gQMBAQtQbHVnaW5TdGF0ZQH/ggABCgEGQmVmb3JlAf+EAAEFUGhhc2UBBgABAUMBDgABA0FueQEQAAEEQWRkcgH/hgAB\
    Dks4c1BsdWdpblN0YXRlAf+IAAEETW9yZQH/kAABAUIBCgABBEZsYWcBAgABE0xhc3RFdmVudFJlY29yZGVkQXQB/5IAAAAW/4MBAQEGWzNdaW50\
    Af+EAAEEAQYAABD/hQYBAQRBZGRyAf+GAAAAMf+HAwEBA0s4cwH/iAABAwEFUGhhc2UBBAABBUFkZGVkAf+OAAEGUmVhc29uAQwAAAAm/40EAQEV\
    bWFwW3N0cmluZ11tYWluLkV4dHJhAf+OAAEMAf+KAAAi/4kDAQL/igABAwEBWAEIAAEBWQEIAAEEVGFncwH/jAAAABb/iwIBAQhbXXN0cmluZwH/\
    jAABDAAAG/+PAgEBDFtdbWFpbi5FeHRyYQH/kAAB/4oAABD/kQUBAQRUaW1lAf+SAAAAYP+CAQMCA/4CWAEBAf7wP0ABBWludDY0BAIACgEECgAA\
    AQEBBQEBAWsB/vg/AUABAgFhAWIAAQN3aHkAAQIAAf4IQAH+EEAAAQIBAgEBARACAAAADneR6NEAAAAFADweAA==";

fn bytes(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

fn full() -> PluginState {
    PluginState {
        phase: ManagerPhase::Started,
        k8s: K8sPluginState { phase: 5, phase_version: u32::MAX, reason: "ünï".into() },
        last_event_update: Some("2024-05-06T07:08:09Z".parse().unwrap()),
        last_event_recorded_at: Some("2024-05-06T07:08:09.123456789Z".parse().unwrap()),
    }
}

#[test]
fn writes_the_bytes_go_writes() {
    assert_eq!(STANDARD.encode(encode(&full())), FULL);
    assert_eq!(STANDARD.encode(encode(&PluginState::default())), ZERO);
}

#[test]
fn reads_what_go_wrote() {
    assert_eq!(decode(&bytes(FULL)).unwrap(), full());
    assert_eq!(decode(&bytes(ZERO)).unwrap(), PluginState::default());
    assert_eq!(decode(&[]).unwrap(), PluginState::default());
}

#[test]
fn follows_the_descriptors_of_another_version() {
    let state = decode(&bytes(EVOLVED)).unwrap();
    assert_eq!(
        state,
        PluginState {
            phase: ManagerPhase::Started,
            k8s: K8sPluginState { phase: -3, phase_version: 0, reason: "why".into() },
            last_event_update: None,
            last_event_recorded_at: Some("1969-12-31T22:59:29.000000005Z".parse().unwrap()),
        }
    );
}

#[test]
fn names_the_field_that_does_not_fit() {
    // `struct { Phase string }` and `struct { Phase uint64 }` holding 300, as Go wrote them.
    let string_phase = decode(&bytes("G/+TAwEBA0JhZAH/lAABAQEFUGhhc2UBDAAAAAb/lAEBeAA=")).unwrap_err();
    assert_eq!(string_phase, GobError::TypeMismatch { field: "Phase", expected: "uint", found: 6 });
    let big_phase = decode(&bytes("G/+VAwEBA05lZwH/lgABAQEFUGhhc2UBBgAAAAf/lgH+ASwA")).unwrap_err();
    assert_eq!(big_phase, GobError::OutOfRange { field: "Phase", value: "300".into() });
    // A bare string.
    assert_eq!(decode(&bytes("CAwABWhlbGxv")).unwrap_err(), GobError::UnknownType(6));
}

#[test]
fn rejects_a_length_beyond_the_input_without_allocating() {
    let error = decode(&[0xf8, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
    assert!(matches!(error, GobError::TooLong { left: 0, .. }), "{error}");
    assert_eq!(decode(&[0x80]).unwrap_err(), GobError::BadInteger { at: 0 });
}

#[test]
fn bounds_the_depth_of_recursive_types() {
    // A struct {Phase uint; Deep []Deep...}: type 64 has one unknown field of type 65, a slice of itself.
    let mut stream =
        vec![0x13, 0x7f, 0x03, 0x01, 0x01, 0x01, b'P', 0x01, 0xff, 0x80, 0x00, 0x01, 0x01, 0x01, 0x01, b'd'];
    stream.extend([0x01, 0xff, 0x82, 0x00, 0x00, 0x00]);
    stream[0] = u8::try_from(stream.len() - 1).unwrap();
    let slice = [0xff, 0x81, 0x02, 0x01, 0x01, 0x01, b'S', 0x01, 0xff, 0x82, 0x00, 0x01, 0xff, 0x82, 0x00, 0x00];
    stream.push(u8::try_from(slice.len()).unwrap());
    stream.extend(slice);
    let mut value = vec![0xff, 0x80, 0x01];
    value.extend([0x01; 100]);
    value.extend([0x00, 0x00]);
    stream.push(u8::try_from(value.len()).unwrap());
    stream.extend(value);
    assert_eq!(decode(&stream).unwrap_err(), GobError::TooDeep(64));
}

fn any_time() -> impl Strategy<Value = Option<Timestamp>> {
    // Whole range of jiff; the zero time of Go is "no time".
    prop::option::of((-377_705_023_201_i64..=253_402_207_199, 0_i32..1_000_000_000).prop_filter_map(
        "Go's zero time",
        |(seconds, nanos)| {
            let time = Timestamp::new(seconds, nanos).ok()?;
            (time != Timestamp::new(-62_135_596_800, 0).ok()?).then_some(time)
        },
    ))
}

prop_compose! {
    fn any_state()(
        started: bool, phase: i8, phase_version: u32, reason in ".*",
        last_event_update in any_time(), last_event_recorded_at in any_time(),
    ) -> PluginState {
        PluginState {
            phase: if started { ManagerPhase::Started } else { ManagerPhase::NotStarted },
            k8s: K8sPluginState { phase, phase_version, reason },
            last_event_update,
            last_event_recorded_at,
        }
    }
}

proptest! {
    #[test]
    fn round_trip(state in any_state()) {
        prop_assert_eq!(decode(&encode(&state)).unwrap(), state);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn damaged_streams_never_panic(at in 0..600_usize, byte: u8, cut in 0..600_usize) {
        let mut stream = bytes(EVOLVED);
        let length = stream.len();
        stream[at % length] = byte;
        let _ = decode(&stream);
        stream.truncate(cut % length);
        let _ = decode(&stream);
    }

    #[test]
    fn every_truncation_is_an_error(state in any_state(), cut in 1..300_usize) {
        let stream = encode(&state);
        let cut = cut % stream.len();
        prop_assume!(cut > 0);
        prop_assert!(decode(&stream[..cut]).is_err());
    }
}
