//! The generated Python module of the template's message. It contains the serialised description of the message, so new
//! names also change lengths and offsets in it.

use prost::Message as _;
use prost_types::FileDescriptorProto;

use super::names::Names;

const BEGIN: &str = "AddSerializedFile(b'";
const END: &str = "')\n";

/// The module with other names, as protoc would generate it.
pub fn renamed(module: &str, names: &Names) -> String {
    let Some((before, rest)) = module.split_once(BEGIN) else { return names.rename(module) };
    let Some((literal, after)) = rest.split_once(END) else { return names.rename(module) };
    let Ok(mut file) = FileDescriptorProto::decode(unescaped(literal).as_slice()) else { return names.rename(module) };
    let rename = |text: &mut Option<String>| *text = text.as_deref().map(|text| names.rename(text));
    rename(&mut file.name);
    rename(&mut file.package);
    file.message_type.iter_mut().for_each(|message| rename(&mut message.name));
    let bytes = file.encode_to_vec();
    let mut after = names.rename(after);
    for message in &file.message_type {
        let global = message.name().to_uppercase();
        let encoded = message.encode_to_vec();
        let Some(start) = bytes.windows(encoded.len()).position(|window| window == encoded) else { continue };
        after = with_number(&after, &format!("_globals['_{global}']._serialized_start="), start);
        after = with_number(&after, &format!("_globals['_{global}']._serialized_end="), start + encoded.len());
    }
    format!("{}{BEGIN}{}{END}{after}", names.rename(before), escaped(&bytes))
}

/// The text with another number behind this key.
fn with_number(text: &str, key: &str, number: usize) -> String {
    let Some((before, after)) = text.split_once(key) else { return text.to_owned() };
    format!("{before}{key}{number}{}", after.trim_start_matches(|one: char| one.is_ascii_digit()))
}

/// The bytes of a Python literal.
fn unescaped(literal: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = literal.as_bytes();
    while let [first, tail @ ..] = rest {
        let (byte, length) = match (first, tail) {
            (b'\\', [b'x', high, low, ..]) => (hex(*high) * 16 + hex(*low), 4),
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [other, ..]) => (*other, 2),
            (other, _) => (*other, 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    bytes
}

fn hex(digit: u8) -> u8 {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok()).unwrap_or_default()
}

/// The literal that protoc writes: after a hexadecimal escape, a character that could belong to it is escaped too.
fn escaped(bytes: &[u8]) -> String {
    let mut literal = String::new();
    let mut after_hex = false;
    for byte in bytes {
        let (text, is_hex) = match byte {
            b'\n' => ("\\n".to_owned(), false),
            b'\r' => ("\\r".to_owned(), false),
            b'\t' => ("\\t".to_owned(), false),
            b'"' | b'\'' | b'\\' => (format!("\\{}", char::from(*byte)), false),
            b' '..=b'~' if !(after_hex && byte.is_ascii_hexdigit()) => (char::from(*byte).to_string(), false),
            _ => (format!("\\x{byte:02x}"), true),
        };
        literal.push_str(&text);
        after_hex = is_hex;
    }
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_escaped_as_protoc_does() {
        let literal = r#"\n\x0b\x62\x61tch.proto\x12\x10\x65xample.batch.v1\"3\n\r"#;
        assert_eq!(escaped(&unescaped(literal)), literal);
    }
}
