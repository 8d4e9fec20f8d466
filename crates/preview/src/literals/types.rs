//! Names of types: `int`, `list<string>`, `map<float>`.

use aileron_config::suggest::nearest;
use aileron_idl::flyteidl2::core::{BlobType, LiteralType, SimpleType, blob_type, literal_type};

/// A name that is no type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// Nobody knows it.
    #[error("{name:?} is not a type; {remedy}")]
    Unknown {
        /// The name.
        name: String,
        /// What to write instead.
        remedy: String,
    },
    /// Lists of lists of lists.
    #[error("lists and maps are nested too deeply; use `json` for such values")]
    Depth,
}

/// The types that have a single word.
const SIMPLE: [(&str, SimpleType); 7] = [
    ("string", SimpleType::String),
    ("int", SimpleType::Integer),
    ("float", SimpleType::Float),
    ("bool", SimpleType::Boolean),
    ("datetime", SimpleType::Datetime),
    ("duration", SimpleType::Duration),
    ("json", SimpleType::Struct),
];
const FILE: &str = "file";
const DIRECTORY: &str = "directory";
const LIST: &str = "list";
const MAP: &str = "map";

/// Nobody nests values deeper by hand.
const MAX_DEPTH: usize = 8;

/// The type that a name stands for.
///
/// # Errors
/// When it stands for none; the message says what there is.
pub fn parse_type(name: &str) -> Result<LiteralType, TypeError> {
    parse(name, 0)
}

fn parse(name: &str, depth: usize) -> Result<LiteralType, TypeError> {
    if depth > MAX_DEPTH {
        return Err(TypeError::Depth);
    }
    let name = name.trim();
    let inside = |word: &str| {
        let rest = name.strip_prefix(word)?.trim_start();
        let both = [('<', '>'), ('[', ']')].map(|(open, close)| rest.strip_prefix(open)?.strip_suffix(close));
        both.into_iter().flatten().next()
    };
    let kind = if let Some((_, simple)) = SIMPLE.iter().find(|(word, _)| *word == name) {
        literal_type::Type::Simple((*simple).into())
    } else if let Some(inner) = inside(LIST) {
        literal_type::Type::CollectionType(Box::new(parse(inner, depth + 1)?))
    } else if let Some(inner) = inside(MAP) {
        literal_type::Type::MapValueType(Box::new(parse(inner, depth + 1)?))
    } else if name == FILE || name == DIRECTORY {
        let dimensionality = if name == FILE { SINGLE } else { MULTIPART };
        literal_type::Type::Blob(BlobType { format: String::new(), dimensionality: dimensionality.into() })
    } else {
        return Err(TypeError::Unknown { name: name.to_owned(), remedy: remedy(name) });
    };
    Ok(LiteralType { r#type: Some(kind), ..LiteralType::default() })
}

const SINGLE: blob_type::BlobDimensionality = blob_type::BlobDimensionality::Single;
const MULTIPART: blob_type::BlobDimensionality = blob_type::BlobDimensionality::Multipart;

fn remedy(name: &str) -> String {
    let words = || SIMPLE.iter().map(|(word, _)| *word).chain([FILE, DIRECTORY]);
    // What other languages call them.
    let meant = match name {
        "str" | "text" => Some("string"),
        "integer" => Some("int"),
        "boolean" => Some("bool"),
        "number" | "double" => Some("float"),
        "dict" | "object" | "struct" | "any" => Some("json"),
        LIST | "array" => Some("list<string>"),
        MAP => Some("map<string>"),
        "time" | "date" | "timestamp" => Some("datetime"),
        other => nearest(other, words()),
    };
    match meant {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("use {}, list<type> or map<type>", words().collect::<Vec<_>>().join(", ")),
    }
}

/// The name of a type, for people.
pub fn type_name(kind: &LiteralType) -> String {
    use literal_type::Type;
    match &kind.r#type {
        Some(Type::Simple(simple)) => {
            let simple = SimpleType::try_from(*simple).unwrap_or(SimpleType::None);
            match SIMPLE.iter().find(|(_, kind)| *kind == simple) {
                Some((word, _)) => (*word).to_owned(),
                None => simple.as_str_name().to_lowercase(),
            }
        }
        Some(Type::CollectionType(inner)) => format!("{LIST}<{}>", type_name(inner)),
        Some(Type::MapValueType(inner)) => format!("{MAP}<{}>", type_name(inner)),
        Some(Type::Blob(blob)) if blob.dimensionality == i32::from(MULTIPART) => DIRECTORY.to_owned(),
        Some(Type::Blob(_)) => FILE.to_owned(),
        Some(Type::EnumType(words)) => format!("one of {}", words.values.join(", ")),
        Some(Type::UnionType(union)) => union.variants.iter().map(type_name).collect::<Vec<_>>().join(" or "),
        Some(Type::Schema(_) | Type::StructuredDatasetType(_)) => "dataset".to_owned(),
        None => "nothing".to_owned(),
    }
}
