//! Tables, which `kubectl get` prints: one row for each object.

mod age;
mod pods;

use std::sync::Arc;

use aileron_kubekit::json_path;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::object::meta;
use crate::store::Stored;

/// A column of a table.
pub(super) struct Column {
    name: String,
    kind: String,
    /// Columns with a priority above zero are shown in wide output only.
    priority: i64,
    cell: Cell,
}

/// Where the value of a cell comes from.
enum Cell {
    Name,
    Age,
    Path { path: String, is_date: bool },
    Computed(fn(&Value) -> Value),
}

impl Column {
    fn new(name: &str, kind: &str, priority: i64, cell: Cell) -> Self {
        Self { name: name.to_owned(), kind: kind.to_owned(), priority, cell }
    }

    fn path(name: &str, path: &str) -> Self {
        Self::new(name, "string", 0, Cell::Path { path: path.to_owned(), is_date: false })
    }

    fn value(&self, object: &Value, now: Timestamp) -> Value {
        match &self.cell {
            Cell::Name => meta(object, "name").into(),
            Cell::Age => age::since(meta(object, "creationTimestamp"), now).into(),
            Cell::Computed(compute) => compute(object),
            Cell::Path { path, is_date } => {
                let found = json_path::find(object, path);
                match found.first() {
                    Some(Value::String(text)) if *is_date => age::since(text, now).into(),
                    Some(value) if found.len() == 1 && !value.is_object() && !value.is_array() => (*value).clone(),
                    Some(value) if found.len() == 1 => value.to_string().into(),
                    Some(_) => found.iter().map(|value| text_of(value)).collect::<Vec<_>>().join(",").into(),
                    None => Value::Null,
                }
            }
        }
    }

    fn definition(&self) -> Value {
        let format = if matches!(self.cell, Cell::Name) { "name" } else { "" };
        json!({"name": self.name, "type": self.kind, "format": format, "description": "", "priority": self.priority})
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn columns(kind: &Kind) -> Vec<Column> {
    let name = Column::new("Name", "string", 0, Cell::Name);
    let age = || Column::new("Age", "string", 0, Cell::Age);
    let mut columns = vec![name];
    if let Some(definition) = kind.definition() {
        let own = definition.columns(&kind.version);
        for column in own {
            let text = |field: &str| column[field].as_str().unwrap_or_default().to_owned();
            let cell = Cell::Path { path: text("jsonPath"), is_date: column["type"] == "date" };
            columns.push(Column::new(&text("name"), &text("type"), column["priority"].as_i64().unwrap_or(0), cell));
        }
        if own.is_empty() {
            columns.push(age());
        }
        return columns;
    }
    let data = |object: &Value| {
        ["data", "binaryData"]
            .iter()
            .map(|f| object[f].as_object().map_or(0, serde_json::Map::len))
            .sum::<usize>()
            .into()
    };
    match &*kind.resource {
        "pods" => columns.extend(pods::columns()),
        "events" => {
            columns = vec![
                Column::new("Last Seen", "string", 0, Cell::Path { path: ".lastTimestamp".to_owned(), is_date: true }),
                Column::path("Type", ".type"),
                Column::path("Reason", ".reason"),
                Column::new(
                    "Object",
                    "string",
                    0,
                    Cell::Computed(|event| {
                        let about = &event["involvedObject"];
                        format!("{}/{}", text_of(&about["kind"]).to_lowercase(), text_of(&about["name"])).into()
                    }),
                ),
                Column::path("Message", ".message"),
            ];
        }
        "namespaces" => columns.extend([Column::path("Status", ".status.phase"), age()]),
        "configmaps" => columns.extend([Column::new("Data", "string", 0, Cell::Computed(data)), age()]),
        "secrets" => {
            columns.extend([
                Column::path("Type", ".type"),
                Column::new("Data", "string", 0, Cell::Computed(data)),
                age(),
            ]);
        }
        "nodes" => columns.extend([
            Column::new(
                "Status",
                "string",
                0,
                Cell::Computed(|node| {
                    let ready = json_path::find(node, ".status.conditions[?(@.type==\"Ready\")].status");
                    if ready.first().is_some_and(|status| **status == "True") {
                        "Ready".into()
                    } else {
                        "NotReady".into()
                    }
                }),
            ),
            Column::new("Roles", "string", 0, Cell::Computed(|_| "<none>".into())),
            age(),
            Column::path("Version", ".status.nodeInfo.kubeletVersion"),
        ]),
        "leases.coordination.k8s.io" => columns.extend([Column::path("Holder", ".spec.holderIdentity"), age()]),
        "customresourcedefinitions.apiextensions.k8s.io" => {
            columns.push(Column::path("Created At", ".metadata.creationTimestamp"));
        }
        _ => columns.push(age()),
    }
    columns
}

fn row(columns: &[Column], stored: &Stored, now: Timestamp) -> Value {
    let body = stored.body();
    let cells: Vec<Value> = columns.iter().map(|column| column.value(&body, now)).collect();
    let object = json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"],
    });
    json!({"cells": cells, "object": object})
}

fn table(columns: &[Column], metadata: &Value, rows: &[Value]) -> Value {
    let definitions: Vec<Value> = columns.iter().map(Column::definition).collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": definitions, "rows": rows,
    })
}

/// A list as a table.
pub(crate) fn list(kind: &Kind, items: &[Arc<Stored>], metadata: &Value, now: Timestamp) -> Value {
    let columns = columns(kind);
    let rows: Vec<Value> = items.iter().map(|stored| row(&columns, stored, now)).collect();
    table(&columns, metadata, &rows)
}

/// One object as a table.
pub(crate) fn object(kind: &Kind, stored: &Stored, now: Timestamp) -> Value {
    let columns = columns(kind);
    let metadata = json!({"resourceVersion": stored.revision.to_string()});
    table(&columns, &metadata, &[row(&columns, stored, now)])
}
