//! Writing plugin state: three type descriptions, then the value, each as a length-prefixed message.

use super::wire::{FIRST_USER_TYPE, builtin, time_bytes};
use super::{ManagerPhase, PluginState};

/// Go numbers types in the order it meets them: the outer struct, the plugin's struct, the time.
const OUTER: i64 = FIRST_USER_TYPE;
const K8S: i64 = FIRST_USER_TYPE + 1;
const TIME: i64 = FIRST_USER_TYPE + 2;

/// Positions of the struct and self-encoding variants among the fields of gob's `wireType`.
const WIRE_STRUCT: u64 = 3;
const WIRE_GOB_ENCODER: u64 = 5;

/// Bytes of a value under construction.
#[derive(Default)]
struct Writer(Vec<u8>);

/// A struct being written: gob stores the distance from the last field written, and leaves zero values out.
struct StructWriter<'a> {
    out: &'a mut Writer,
    last: u64,
}

impl Writer {
    fn uint(&mut self, value: u64) {
        if value < 0x80 {
            self.0.extend(value.to_be_bytes().last());
            return;
        }
        let bytes = value.to_be_bytes();
        let skip = (value.leading_zeros() / 8) as usize;
        let significant = bytes.get(skip..).unwrap_or_default();
        // 1..=8 bytes are left, so the negated count fits a byte.
        self.0.push((significant.len() as u8).wrapping_neg());
        self.0.extend_from_slice(significant);
    }

    fn int(&mut self, value: i64) {
        let raw = value.cast_unsigned() << 1;
        self.uint(if value < 0 { !raw } else { raw });
    }

    fn bytes(&mut self, value: &[u8]) {
        self.uint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// Appends what `fill` writes, with its length in front.
    fn message(&mut self, fill: impl FnOnce(&mut Self)) {
        let mut body = Self::default();
        fill(&mut body);
        self.bytes(&body.0);
    }

    fn structure(&mut self, fill: impl FnOnce(&mut StructWriter<'_>)) {
        fill(&mut StructWriter { out: self, last: 0 });
        self.0.push(0);
    }
}

impl StructWriter<'_> {
    /// Announces field `number`, counted from one, and returns where its value goes.
    fn field(&mut self, number: u64) -> &mut Writer {
        self.out.uint(number - self.last);
        self.last = number;
        self.out
    }
}

/// The bytes Go's `gob.Encoder` would write for `state` as the first value of a stream. Mirrors
/// `PluginStateManager.Put`. Times are written in UTC.
pub fn encode(state: &PluginState) -> Vec<u8> {
    let mut out = Writer::default();
    describe_struct(
        &mut out,
        OUTER,
        "PluginState",
        &[("Phase", builtin::UINT), ("K8sPluginState", K8S), ("LastEventUpdate", TIME), ("LastEventRecordedAt", TIME)],
    );
    describe_struct(
        &mut out,
        K8S,
        "PluginState",
        &[("Phase", builtin::INT), ("PhaseVersion", builtin::UINT), ("Reason", builtin::STRING)],
    );
    describe_time(&mut out);
    out.message(|message| {
        message.int(OUTER);
        message.structure(|outer| write_value(outer, state));
    });
    out.0
}

fn write_value(outer: &mut StructWriter<'_>, state: &PluginState) {
    match state.phase {
        ManagerPhase::NotStarted => {}
        ManagerPhase::Started => outer.field(1).uint(1),
    }
    // A struct is written even when all of it is zero.
    outer.field(2).structure(|inner| {
        let k8s = &state.k8s;
        if k8s.phase != 0 {
            inner.field(1).int(k8s.phase.into());
        }
        if k8s.phase_version != 0 {
            inner.field(2).uint(k8s.phase_version.into());
        }
        if !k8s.reason.is_empty() {
            inner.field(3).bytes(k8s.reason.as_bytes());
        }
    });
    for (number, time) in [(3, state.last_event_update), (4, state.last_event_recorded_at)] {
        if let Some(bytes) = time.and_then(time_bytes) {
            outer.field(number).bytes(&bytes);
        }
    }
}

/// A message that defines a type: its negated number, then a `wireType` with one variant set.
fn describe_struct(out: &mut Writer, id: i64, name: &str, fields: &[(&str, i64)]) {
    out.message(|message| {
        message.int(-id);
        message.structure(|wire| {
            wire.field(WIRE_STRUCT).structure(|description| {
                description.field(1).structure(|head| describe_head(head, id, name));
                let list = description.field(2);
                list.uint(fields.len() as u64);
                for (name, type_id) in fields {
                    list.structure(|field| {
                        field.field(1).bytes(name.as_bytes());
                        field.field(2).int(*type_id);
                    });
                }
            });
        });
    });
}

fn describe_time(out: &mut Writer) {
    out.message(|message| {
        message.int(-TIME);
        message.structure(|wire| {
            wire.field(WIRE_GOB_ENCODER).structure(|description| {
                description.field(1).structure(|head| describe_head(head, TIME, "Time"));
            });
        });
    });
}

fn describe_head(head: &mut StructWriter<'_>, id: i64, name: &str) {
    head.field(1).bytes(name.as_bytes());
    head.field(2).int(id);
}
