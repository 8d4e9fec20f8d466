//! What may stand where: a view of the JSON Schema that the loader and the explanations walk along.

use std::collections::BTreeMap;

use aileron_machinery::config::schema::{DURATION_FORMAT, QUANTITY_FORMAT};
use serde_json::{Map, Value};

/// Part of a schema, with the whole schema at hand for references.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    root: &'a Value,
    schema: &'a Value,
}

/// A known key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub name: &'a str,
    pub doc: &'a str,
    /// The key exists only here, not upstream.
    pub ours: bool,
    pub shape: Shape<'a>,
}

/// The form of a value.
#[derive(Clone, Debug)]
pub(super) enum Kind<'a> {
    /// A group of known keys.
    Struct(&'a Map<String, Value>),
    /// Keys of the user's choice.
    Map(Shape<'a>),
    List(Shape<'a>),
    Text,
    Duration,
    Quantity,
    /// One of these words.
    Word(Vec<&'a str>),
    Integer {
        bits: u32,
    },
    Number,
    Bool,
    IntOrText,
    Any,
}

/// Names of definitions that are Kubernetes types begin with this.
const KUBERNETES: &str = "io.k8s.";
/// The Kubernetes type whose text is a quantity; its own schema does not say so.
const KUBERNETES_QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

impl<'a> Shape<'a> {
    /// The view of a whole schema.
    pub fn of(root: &'a Value) -> Self {
        Self { root, schema: root }
    }

    /// Name of the type, if it has one.
    pub fn type_name(self) -> Option<&'a str> {
        Self { schema: self.without_null(), ..self }.reference()
    }

    /// The name of the Kubernetes type, if it is one.
    pub fn kubernetes_type(self) -> Option<&'a str> {
        self.type_name().filter(|name| name.starts_with(KUBERNETES)).and_then(|name| name.rsplit('.').next())
    }

    /// The form of the values.
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
            Some("integer") => Kind::Integer { bits: if format == Some("int32") { 32 } else { 64 } },
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

    /// The known keys of a group, in alphabetical order; none for anything else.
    pub fn fields(self) -> impl Iterator<Item = Field<'a>> {
        let properties = match self.kind() {
            Kind::Struct(properties) => Some(properties),
            _ => None,
        };
        // Sorted here, because whether a JSON object keeps its order is a build option of the library.
        let sorted: BTreeMap<&String, &Value> = properties.into_iter().flatten().collect();
        sorted.into_iter().map(move |(name, schema)| self.field_of(name, schema))
    }

    /// A known key of a group, whatever its letter case.
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
            ours: schema.get("x-aileron").is_some(),
            shape: self.part(schema),
        }
    }

    fn part(self, schema: &'a Value) -> Self {
        Self { schema, ..self }
    }

    fn reference(self) -> Option<&'a str> {
        self.schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"))
    }

    /// The schema itself, references followed and "or null" taken away.
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

/// The type of a schema, "or null" ignored.
fn type_word(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(word) => Some(word),
        Value::Array(words) => words.iter().filter_map(Value::as_str).find(|word| *word != "null"),
        _ => None,
    }
}

/// The words an enumeration allows, in either of the two ways a schema spells that.
fn words(schema: &Value) -> Option<Vec<&str>> {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return Some(words.iter().filter_map(Value::as_str).collect());
    }
    let choices = schema.get("oneOf")?.as_array()?;
    choices.iter().map(|choice| choice.get("const").and_then(Value::as_str)).collect()
}
