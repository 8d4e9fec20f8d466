//! GET of many: selected, paged.

use std::sync::Arc;

use aileron_kubekit::selector::{FieldSelector, LabelSelector, ParseSelectorError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::field_names;
use crate::kind::Kind;
use crate::request::Query;
use crate::server::ApiServer;
use crate::status::ApiError;
use crate::store::{Key, Stored};

/// Which objects are meant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: Option<FieldSelector>,
}

/// A list at a revision.
pub(crate) struct Page {
    pub items: Vec<Arc<Stored>>,
    pub revision: u64,
    pub next: Option<String>,
    /// How many come after this page; unknown when selected.
    pub remaining: Option<usize>,
}

impl Selection {
    pub(crate) fn read(kind: &Kind, query: &Query) -> Result<Self, ApiError> {
        let text = query.get("labelSelector").unwrap_or_default();
        let labels = text.parse().map_err(|error| unparsable(&error))?;
        let fields = match query.get("fieldSelector") {
            None => None,
            Some(text) => {
                let selector: FieldSelector =
                    text.parse().map_err(|error: ParseSelectorError| ApiError::bad_request(error.to_string()))?;
                if let Some(unknown) = selector.fields().find(|field| !field_names::is_supported(kind, field)) {
                    return Err(field_names::unsupported(kind, unknown));
                }
                Some(selector).filter(|selector| selector.fields().next().is_some())
            }
        };
        Ok(Self { labels, fields })
    }

    pub(crate) fn takes(&self, stored: &Stored) -> bool {
        stored.is_selected(&self.labels, self.fields.as_ref())
    }

    fn is_everything(&self) -> bool {
        self.labels.requirements().is_empty() && self.fields.is_none()
    }
}

/// In the words of apimachinery where they are the commonest.
fn unparsable(error: &ParseSelectorError) -> ApiError {
    let text = match error {
        ParseSelectorError::Unexpected { found, expected: "one of =, ==, !=, in, notin", .. } => {
            format!("unable to parse requirement: found '{found}', expected: in, notin, =, ==, !=, gt, lt")
        }
        other => format!("unable to parse requirement: {other}"),
    };
    ApiError::bad_request(text)
}

/// The version that a read asks for; none if any will do.
pub(crate) fn asked_version(query: &Query) -> Result<Option<u64>, String> {
    let Some(text) = query.get("resourceVersion").filter(|text| *text != "0") else { return Ok(None) };
    let value = Value::from(text);
    let problem =
        |_| format!("resourceVersion: Invalid value: {value}: strconv.ParseUint: parsing {value}: invalid syntax");
    text.parse().map(Some).map_err(problem)
}

/// The objects of a kind that a query asks for.
pub(crate) fn list(server: &ApiServer, kind: &Kind, namespace: &str, query: &Query) -> Result<Page, ApiError> {
    let selection = Selection::read(kind, query)?;
    let limit = query.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
    let position = query.get("continue").map(read_token).transpose()?;
    let asked = asked_version(query).map_err(ApiError::bad_request)?;
    let (all, now) = {
        let transaction = server.store().lock();
        (transaction.list(&kind.place, namespace), transaction.revision())
    };
    if let Some(asked) = asked.filter(|asked| *asked > now) {
        return Err(ApiError::version_too_large(asked, now));
    }
    // Pages after the first keep its revision: a watch from there sees whatever changed between pages.
    let (revision, after) = match position {
        None => (now, None),
        Some((revision, after)) => (revision, Some(after)),
    };
    let mut rest = all.into_iter().filter(|stored| after.as_ref().is_none_or(|after| stored.key > *after));
    let mut items: Vec<_> =
        rest.by_ref().filter(|stored| selection.takes(stored)).take(limit.unwrap_or(usize::MAX)).collect();
    let left = rest.filter(|stored| selection.takes(stored)).count();
    let next = items.last().filter(|_| left > 0).map(|last| write_token(revision, &last.key));
    items.shrink_to_fit();
    let remaining = (left > 0 && selection.is_everything()).then_some(left);
    Ok(Page { items, revision, next, remaining })
}

fn write_token(revision: u64, after: &Key) -> String {
    URL_SAFE_NO_PAD.encode(json!({"rv": revision, "start": [after.namespace, after.name]}).to_string())
}

fn read_token(token: &str) -> Result<(u64, Key), ApiError> {
    let read = || {
        let value: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
        let after = Key::new(value["start"][0].as_str()?, value["start"][1].as_str()?);
        Some((value["rv"].as_u64()?, after))
    };
    read().ok_or_else(|| ApiError::bad_request("continue key is not valid: illegal base64 data"))
}

impl Page {
    /// `metadata` of the list.
    pub(crate) fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(next) = &self.next {
            metadata["continue"] = next.as_str().into();
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        metadata
    }

    /// The list as bytes. Items of built-in kinds leave out what they are: the list says it.
    pub(crate) fn encode(&self, kind: &Kind) -> Vec<u8> {
        let mut out = format!(
            "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{},\"items\":[",
            kind.kind,
            kind.api_version(),
            self.metadata()
        )
        .into_bytes();
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            encode_item(kind, item, kind.definition().is_some(), &mut out);
        }
        out.extend_from_slice(b"]}");
        out
    }
}

/// One object as bytes, with its type in front where `typed`.
pub(crate) fn encode_item(kind: &Kind, stored: &Stored, typed: bool, out: &mut Vec<u8>) {
    if kind.group == "events.k8s.io" {
        let event = crate::events::from_core(kind, if typed { stored.object(kind) } else { stored.body() });
        out.extend_from_slice(event.to_string().as_bytes());
        return;
    }
    out.push(b'{');
    if typed {
        let head = format!("\"kind\":\"{}\",\"apiVersion\":\"{}\"", kind.kind, kind.api_version());
        out.extend_from_slice(head.as_bytes());
        if stored.tail() != b"}" {
            out.push(b',');
        }
    }
    out.extend_from_slice(stored.tail());
}
