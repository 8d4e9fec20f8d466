//! List (GET of a collection): selectors and pages.

use std::sync::Arc;

use aileron_kubekit::selector::{FieldSelector, LabelSelector, ParseSelectorError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::errors::ApiError;
use crate::kinds::{Kind, selectable_fields};
use crate::object::Key;
use crate::request::Query;
use crate::state::ServerState;
use crate::store::Stored;
use crate::strategy::events;

/// The label and field selectors of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: Option<FieldSelector>,
}

/// One page of a list.
pub(crate) struct Page {
    pub items: Vec<Arc<Stored>>,
    pub revision: u64,
    /// The `continue` token of the next page; `None` on the last page.
    pub next: Option<String>,
    /// How many objects follow this page; `None` if the list has selectors.
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
                if let Some(unknown) = selector.fields().find(|field| !selectable_fields::is_supported(kind, field)) {
                    return Err(unsupported_field(kind, unknown));
                }
                Some(selector).filter(|selector| selector.fields().next().is_some())
            }
        };
        Ok(Self { labels, fields })
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        stored.is_selected(&self.labels, self.fields.as_ref())
    }

    fn is_everything(&self) -> bool {
        self.labels.requirements().is_empty() && self.fields.is_none()
    }
}

/// A label selector that cannot be parsed. The most common error has the text of kube-apiserver.
fn unparsable(error: &ParseSelectorError) -> ApiError {
    let text = match error {
        ParseSelectorError::Unexpected { found, expected: "one of =, ==, !=, in, notin", .. } => {
            format!("unable to parse requirement: found '{found}', expected: in, notin, =, ==, !=, gt, lt")
        }
        other => format!("unable to parse requirement: {other}"),
    };
    ApiError::bad_request(text)
}

fn unsupported_field(kind: &Kind, field: &str) -> ApiError {
    let text = if selectable_fields::has_only_metadata(kind) {
        format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else {
        format!("field label not supported: {field}")
    };
    ApiError::bad_request(text)
}

/// The resourceVersion that a request asks for; `None` if it accepts any.
pub(crate) fn requested_version(query: &Query) -> Result<Option<u64>, String> {
    let Some(text) = query.get("resourceVersion").filter(|text| *text != "0") else { return Ok(None) };
    let value = Value::from(text);
    let problem =
        |_| format!("resourceVersion: Invalid value: {value}: strconv.ParseUint: parsing {value}: invalid syntax");
    text.parse().map(Some).map_err(problem)
}

/// The page of objects that a query asks for.
pub(crate) fn list(state: &ServerState, kind: &Kind, namespace: &str, query: &Query) -> Result<Page, ApiError> {
    let selection = Selection::read(kind, query)?;
    let limit = query.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
    let position = query.get("continue").map(read_token).transpose()?;
    let asked = requested_version(query).map_err(ApiError::bad_request)?;
    let (all, now) = {
        let transaction = state.store.lock();
        (transaction.list(&kind.resource, namespace), transaction.revision())
    };
    if let Some(asked) = asked.filter(|asked| *asked > now) {
        return Err(ApiError::version_too_large(asked, now));
    }
    // All pages report the revision of the first one. A watch from this revision sees every change between the pages.
    let (revision, after) = match position {
        None => (now, None),
        Some((revision, after)) => (revision, Some(after)),
    };
    let mut rest = all.into_iter().filter(|stored| after.as_ref().is_none_or(|after| stored.key > *after));
    let mut items: Vec<_> =
        rest.by_ref().filter(|stored| selection.matches(stored)).take(limit.unwrap_or(usize::MAX)).collect();
    let left = rest.filter(|stored| selection.matches(stored)).count();
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
    /// `metadata` of the list object.
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

    /// The encoded list. Items of built-in kinds have no `kind` and `apiVersion`, as in lists of kube-apiserver.
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

/// Encodes one object; with `kind` and `apiVersion` if `typed`.
pub(crate) fn encode_item(kind: &Kind, stored: &Stored, typed: bool, out: &mut Vec<u8>) {
    if kind.group == "events.k8s.io" {
        let event = events::from_core(kind, if typed { stored.object(kind) } else { stored.body() });
        out.extend_from_slice(event.to_string().as_bytes());
        return;
    }
    out.push(b'{');
    if typed {
        let head = format!("\"kind\":\"{}\",\"apiVersion\":\"{}\"", kind.kind, kind.api_version());
        out.extend_from_slice(head.as_bytes());
        if stored.encoded_fields() != b"}" {
            out.push(b',');
        }
    }
    out.extend_from_slice(stored.encoded_fields());
}
