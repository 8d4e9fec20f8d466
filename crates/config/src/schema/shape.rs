//! A typed view of the JSON Schema: which keys a group has, and which values a key accepts. The loader and the
//! explanations use this view instead of the raw schema.

use std::collections::BTreeMap;

use aileron_machinery::config::schema::{DURATION_FORMAT, QUANTITY_FORMAT};
use serde_json::{Map, Value};

use super::no_effect::NoEffect;

/// A part of a schema, together with the whole schema that its references point into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape<'a> {
    root: &'a Value,
    schema: &'a Value,
}

/// A known key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub name: &'a str,
    pub doc: &'a str,
    /// The key exists only in Aileron, not upstream.
    pub aileron_only: bool,
    /// Whether the key, or keys below it, have no effect.
    pub no_effect: NoEffect<'a>,
    /// The default as the schema states it. Entries of lists and maps have no other default.
    pub default: Option<&'a Value>,
    pub shape: Shape<'a>,
}

/// The type of a value.
#[derive(Clone, Debug)]
pub(crate) enum Kind<'a> {
    /// A group of known keys.
    Struct(&'a Map<String, Value>),
    /// A map whose keys the user chooses. The shape is that of its values.
    Map(Shape<'a>),
    List(Shape<'a>),
    Text,
    Duration,
    Quantity,
    /// One of these words.
    Word(Vec<&'a str>),
    /// A whole number in this range, both ends included.
    Integer {
        min: i64,
        max: i64,
    },
    Number,
    Bool,
    IntOrText,
    Any,
}

/// The names of the schemas of Kubernetes types begin with this.
const KUBERNETES: &str = "io.k8s.";
/// The Kubernetes type for quantities. Its schema is a plain string, so it must be recognised by its name.
const KUBERNETES_QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

impl<'a> Shape<'a> {
    /// The view of a whole schema.
    pub fn of(root: &'a Value) -> Self {
        Self { root, schema: root }
    }

    /// The name of the type, if it has one.
    pub fn type_name(self) -> Option<&'a str> {
        Self { schema: self.without_null(), ..self }.reference()
    }

    /// The name of the type, such as `Toleration`, if it is a Kubernetes type.
    pub fn kubernetes_type(self) -> Option<&'a str> {
        self.type_name().filter(|name| name.starts_with(KUBERNETES)).and_then(|name| name.rsplit('.').next())
    }

    /// The type of the values.
    pub fn kind(self) -> Kind<'a> {
        if self.type_name() == Some(KUBERNETES_QUANTITY) {
            return Kind::Quantity;
        }
        let schema = self.target();
        if let Some(words) = words(schema) {
            return Kind::Word(words);
        }
        if schema.get("x-kubernetes-int-or-string").is_some() {
            return Kind::IntOrText;
        }
        let format = schema.get("format").and_then(Value::as_str);
        match type_word(schema) {
            Some("string") if format == Some(DURATION_FORMAT) => Kind::Duration,
            Some("string") if format == Some(QUANTITY_FORMAT) => Kind::Quantity,
            Some("string") => Kind::Text,
            Some("integer") => integer(schema, format),
            Some("number") => Kind::Number,
            Some("boolean") => Kind::Bool,
            Some("array") => schema.get("items").map_or(Kind::Any, |items| Kind::List(self.part(items))),
            Some("object") => {
                if let Some(Value::Object(properties)) = schema.get("properties") {
                    return Kind::Struct(properties);
                }
                schema
                    .get("additionalProperties")
                    .filter(|values| values.is_object())
                    .map_or(Kind::Any, |values| Kind::Map(self.part(values)))
            }
            _ => Kind::Any,
        }
    }

    /// The keys of a group in alphabetical order. Other types have no keys.
    pub fn fields(self) -> impl Iterator<Item = Field<'a>> {
        let properties = match self.kind() {
            Kind::Struct(properties) => Some(properties),
            _ => None,
        };
        // Sorted here, because the order of a JSON object depends on the features that serde_json is compiled with.
        let sorted: BTreeMap<&String, &Value> = properties.into_iter().flatten().collect();
        sorted.into_iter().map(move |(name, schema)| self.field_of(name, schema))
    }

    /// A key of a group. The letter case of `key` does not matter.
    pub fn field(self, key: &str) -> Option<Field<'a>> {
        let Kind::Struct(properties) = self.kind() else { return None };
        let (name, schema) = properties
            .get_key_value(key)
            .or_else(|| properties.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)))?;
        Some(self.field_of(name, schema))
    }

    fn field_of(self, name: &'a str, schema: &'a Value) -> Field<'a> {
        Field {
            name,
            doc: schema.get("description").and_then(Value::as_str).unwrap_or_default(),
            aileron_only: schema.get("x-aileron").is_some(),
            no_effect: NoEffect::of(schema),
            default: schema.get("default"),
            shape: self.part(schema),
        }
    }

    fn part(self, schema: &'a Value) -> Self {
        Self { schema, ..self }
    }

    fn reference(self) -> Option<&'a str> {
        self.schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"))
    }

    /// The schema after following references, without the alternative "or null".
    fn target(self) -> &'a Value {
        let schema = self.without_null();
        match self.part(schema).reference() {
            Some(name) => self.root.get("$defs").and_then(|definitions| definitions.get(name)).unwrap_or(&Value::Null),
            None => schema,
        }
    }

    fn without_null(self) -> &'a Value {
        self.schema
            .get("anyOf")
            .and_then(Value::as_array)
            .and_then(|choices| choices.iter().find(|choice| type_word(choice) != Some("null")))
            .unwrap_or(self.schema)
    }
}

/// The type of a schema. The alternative "or null" is ignored.
fn type_word(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(word) => Some(word),
        Value::Array(words) => words.iter().filter_map(Value::as_str).find(|word| *word != "null"),
        _ => None,
    }
}

/// The range of a type of whole numbers. `i64` bounds it, because every number of a document is read as one.
fn integer<'a>(schema: &Value, format: Option<&str>) -> Kind<'a> {
    let (min, max) = match format {
        Some("int32") => (i32::MIN.into(), i32::MAX.into()),
        Some("uint8") => (0, u8::MAX.into()),
        Some("uint16") => (0, u16::MAX.into()),
        Some("uint32") => (0, u32::MAX.into()),
        Some("uint" | "uint64") => (0, i64::MAX),
        _ => (i64::MIN, i64::MAX),
    };
    let bound = |name: &str| schema.get(name).and_then(Value::as_i64);
    Kind::Integer { min: bound("minimum").unwrap_or(min).max(min), max: bound("maximum").unwrap_or(max).min(max) }
}

/// The words that an enumeration allows. A schema lists them either under `enum` or as constants under `oneOf`.
fn words(schema: &Value) -> Option<Vec<&str>> {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return Some(words.iter().filter_map(Value::as_str).collect());
    }
    let choices = schema.get("oneOf")?.as_array()?;
    choices.iter().map(|choice| choice.get("const").and_then(Value::as_str)).collect()
}
