//! Reading plugin state: collect the type descriptions of a stream, then walk the first value along them.

use std::collections::HashMap;

use jiff::Timestamp;

use super::reader::Reader;
use super::wire::{Field, Shape, builtin, read_time};
use super::{GobError, K8sPluginState, ManagerPhase, PluginState};

/// Real states nest three levels; the bound only keeps a hostile stream from exhausting the stack.
const MAX_DEPTH: usize = 64;

/// The types a stream described so far.
#[derive(Default)]
struct Types(HashMap<i64, Shape>);

/// Reads the first value of a stream written by Go's `gob.Encoder`. Mirrors `PluginStateManager.Get`.
///
/// Fields are matched by name: unknown ones are skipped, missing ones are zero. Empty input is the zero state.
pub fn decode(bytes: &[u8]) -> Result<PluginState, GobError> {
    let mut stream = Reader::new(bytes);
    if stream.is_empty() {
        return Ok(PluginState::default());
    }
    let mut types = Types::default();
    while !stream.is_empty() {
        let mut message = stream.message()?;
        let id = message.int()?;
        if id < 0 {
            let id = id.checked_neg().ok_or(GobError::UnknownType(id))?;
            types.describe(id, &mut message)?;
        } else {
            return outer(&types, id, &mut message);
        }
    }
    Err(GobError::NoValue)
}

impl Types {
    fn describe(&mut self, id: i64, message: &mut Reader<'_>) -> Result<(), GobError> {
        let mut shape = None;
        wire_struct(message, |number, reader| {
            let described = match number {
                1 => element_of(reader).map(|elem| Shape::Array { elem })?,
                2 => element_of(reader).map(|elem| Shape::Slice { elem })?,
                3 => fields_of(reader).map(|fields| Shape::Struct { fields })?,
                4 => map_of(reader)?,
                5..=7 => element_of(reader).map(|_| Shape::Opaque)?,
                _ => return Err(GobError::BadTypeDescription(id)),
            };
            shape = Some(described);
            Ok(())
        })?;
        let shape = shape.ok_or(GobError::BadTypeDescription(id))?;
        match self.0.insert(id, shape) {
            None => Ok(()),
            Some(_) => Err(GobError::BadTypeDescription(id)),
        }
    }

    fn fields(&self, id: i64) -> Result<&[Field], GobError> {
        match self.0.get(&id) {
            Some(Shape::Struct { fields }) => Ok(fields),
            Some(_) => Err(GobError::TypeMismatch { field: "PluginState", expected: "struct", found: id }),
            None => Err(GobError::UnknownType(id)),
        }
    }

    /// Calls `read` for each field present in a struct value of type `id`.
    fn each_field<'a>(
        &self,
        id: i64,
        reader: &mut Reader<'a>,
        mut read: impl FnMut(&Field, &mut Reader<'a>) -> Result<(), GobError>,
    ) -> Result<(), GobError> {
        let fields = self.fields(id)?;
        wire_struct(reader, |number, reader| {
            let field = usize::try_from(number - 1)
                .ok()
                .and_then(|index| fields.get(index))
                .ok_or(GobError::NoSuchField { type_id: id, index: number - 1, fields: fields.len() })?;
            read(field, reader)
        })
    }

    fn skip(&self, id: i64, reader: &mut Reader<'_>, depth: usize) -> Result<(), GobError> {
        if depth == 0 {
            return Err(GobError::TooDeep(MAX_DEPTH));
        }
        match id {
            builtin::BOOL | builtin::INT | builtin::UINT | builtin::FLOAT => reader.uint().map(drop),
            builtin::COMPLEX => reader.uint().and_then(|_| reader.uint()).map(drop),
            builtin::BYTES | builtin::STRING => reader.bytes().map(drop),
            builtin::INTERFACE => skip_interface(reader),
            _ => match self.0.get(&id).ok_or(GobError::UnknownType(id))? {
                Shape::Opaque => reader.bytes().map(drop),
                Shape::Array { elem } | Shape::Slice { elem } => {
                    (0..reader.count()?).try_for_each(|_| self.skip(*elem, reader, depth - 1))
                }
                Shape::Map { key, elem } => (0..reader.count()?).try_for_each(|_| {
                    self.skip(*key, reader, depth - 1)?;
                    self.skip(*elem, reader, depth - 1)
                }),
                Shape::Struct { .. } => {
                    self.each_field(id, reader, |field, reader| self.skip(field.type_id, reader, depth - 1))
                }
            },
        }
    }

    fn time(&self, field: &'static str, id: i64, reader: &mut Reader<'_>) -> Result<Option<Timestamp>, GobError> {
        match self.0.get(&id) {
            Some(Shape::Opaque) => read_time(field, reader.bytes()?),
            Some(_) => Err(GobError::TypeMismatch { field, expected: "time", found: id }),
            None if id <= builtin::INTERFACE => Err(GobError::TypeMismatch { field, expected: "time", found: id }),
            None => Err(GobError::UnknownType(id)),
        }
    }
}

fn outer(types: &Types, id: i64, reader: &mut Reader<'_>) -> Result<PluginState, GobError> {
    let mut state = PluginState::default();
    types.each_field(id, reader, |field, reader| {
        match field.name.as_str() {
            "Phase" => {
                let phase = uint("Phase", field, reader)?;
                // Go asks only whether the phase is zero.
                state.phase = match u8::try_from(phase).map_err(|_| out_of_range("Phase", phase))? {
                    0 => ManagerPhase::NotStarted,
                    _ => ManagerPhase::Started,
                };
            }
            "K8sPluginState" => state.k8s = k8s(types, field.type_id, reader)?,
            "LastEventUpdate" => state.last_event_update = types.time("LastEventUpdate", field.type_id, reader)?,
            "LastEventRecordedAt" => {
                state.last_event_recorded_at = types.time("LastEventRecordedAt", field.type_id, reader)?;
            }
            _ => types.skip(field.type_id, reader, MAX_DEPTH)?,
        }
        Ok(())
    })?;
    Ok(state)
}

fn k8s(types: &Types, id: i64, reader: &mut Reader<'_>) -> Result<K8sPluginState, GobError> {
    let mut state = K8sPluginState::default();
    types.each_field(id, reader, |field, reader| {
        match field.name.as_str() {
            "Phase" => {
                expect("K8sPluginState.Phase", field, builtin::INT, "int")?;
                let phase = reader.int()?;
                state.phase = i8::try_from(phase).map_err(|_| out_of_range("K8sPluginState.Phase", phase))?;
            }
            "PhaseVersion" => {
                let version = uint("K8sPluginState.PhaseVersion", field, reader)?;
                state.phase_version =
                    u32::try_from(version).map_err(|_| out_of_range("K8sPluginState.PhaseVersion", version))?;
            }
            "Reason" => {
                expect("K8sPluginState.Reason", field, builtin::STRING, "string")?;
                state.reason = text("K8sPluginState.Reason", reader)?;
            }
            _ => types.skip(field.type_id, reader, MAX_DEPTH)?,
        }
        Ok(())
    })?;
    Ok(state)
}

fn uint(name: &'static str, field: &Field, reader: &mut Reader<'_>) -> Result<u64, GobError> {
    expect(name, field, builtin::UINT, "uint")?;
    reader.uint()
}

fn expect(name: &'static str, field: &Field, type_id: i64, expected: &'static str) -> Result<(), GobError> {
    if field.type_id == type_id {
        Ok(())
    } else {
        Err(GobError::TypeMismatch { field: name, expected, found: field.type_id })
    }
}

fn out_of_range(field: &'static str, value: impl std::fmt::Display) -> GobError {
    GobError::OutOfRange { field, value: value.to_string() }
}

fn text(field: &'static str, reader: &mut Reader<'_>) -> Result<String, GobError> {
    String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| GobError::NotUtf8(field))
}

/// Walks a struct on the wire, giving each present field's number (counted from one) to `read`.
fn wire_struct<'a>(
    reader: &mut Reader<'a>,
    mut read: impl FnMut(u64, &mut Reader<'a>) -> Result<(), GobError>,
) -> Result<(), GobError> {
    let mut number = 0_u64;
    loop {
        match reader.uint()? {
            0 => return Ok(()),
            delta => {
                // Saturation keeps a hostile delta out of range, where every caller rejects it.
                number = number.saturating_add(delta);
                read(number, reader)?;
            }
        }
    }
}

/// Name and number of a type: already known from elsewhere, so only walked over.
fn skip_head(reader: &mut Reader<'_>) -> Result<(), GobError> {
    wire_struct(reader, |number, reader| match number {
        1 => reader.bytes().map(drop),
        2 => reader.int().map(drop),
        _ => Err(GobError::Unsupported("an unknown part of a type description")),
    })
}

/// Element type of an array or slice description; an array's length is repeated in each value. Descriptions of
/// self-encoding types have the head only, and then the result is zero.
fn element_of(reader: &mut Reader<'_>) -> Result<i64, GobError> {
    let mut elem = 0;
    wire_struct(reader, |number, reader| {
        match number {
            1 => skip_head(reader)?,
            2 => elem = reader.int()?,
            3 => drop(reader.int()?),
            _ => return Err(GobError::Unsupported("an unknown part of a type description")),
        }
        Ok(())
    })?;
    Ok(elem)
}

fn map_of(reader: &mut Reader<'_>) -> Result<Shape, GobError> {
    let (mut key, mut elem) = (0, 0);
    wire_struct(reader, |number, reader| {
        match number {
            1 => skip_head(reader)?,
            2 => key = reader.int()?,
            3 => elem = reader.int()?,
            _ => return Err(GobError::Unsupported("an unknown part of a type description")),
        }
        Ok(())
    })?;
    Ok(Shape::Map { key, elem })
}

fn fields_of(reader: &mut Reader<'_>) -> Result<Vec<Field>, GobError> {
    let mut fields = Vec::new();
    wire_struct(reader, |number, reader| match number {
        1 => skip_head(reader),
        2 => {
            for _ in 0..reader.count()? {
                let (mut name, mut type_id) = (String::new(), 0);
                wire_struct(reader, |number, reader| {
                    match number {
                        1 => name = text("type description", reader)?,
                        2 => type_id = reader.int()?,
                        _ => return Err(GobError::Unsupported("an unknown part of a type description")),
                    }
                    Ok(())
                })?;
                fields.push(Field { name, type_id });
            }
            Ok(())
        }
        _ => Err(GobError::Unsupported("an unknown part of a type description")),
    })?;
    Ok(fields)
}

/// An interface value: the concrete type's name, empty for nil, then its number, and a length over the value.
fn skip_interface(reader: &mut Reader<'_>) -> Result<(), GobError> {
    if reader.bytes()?.is_empty() {
        return Ok(());
    }
    if reader.int()? < 0 {
        return Err(GobError::Unsupported("a type description inside an interface value"));
    }
    reader.bytes().map(drop)
}
