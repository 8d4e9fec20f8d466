//! Malformed requests: the answer is always an object, a list or a `Status`, and the server keeps working.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use aileron_apiserver::{ApiServer, Options};
use http::Request;
use proptest::prelude::*;
use serde_json::Value;

/// Valid requests, from which the test makes malformed ones.
const VALID: [(&str, &str, &str, &str); 15] = [
    (
        "POST",
        "/api/v1/namespaces/default/pods",
        "application/json",
        r#"{"metadata":{"name":"p","labels":{"a":"b"}},"spec":{"containers":[{"name":"m","image":"i","resources":{"requests":{"cpu":"1"}}}]}}"#,
    ),
    (
        "PUT",
        "/api/v1/namespaces/default/configmaps/c",
        "application/json",
        r#"{"metadata":{"name":"c","resourceVersion":"1"},"data":{"a":"b"}}"#,
    ),
    (
        "PATCH",
        "/api/v1/namespaces/default/configmaps/c",
        "application/json-patch+json",
        r#"[{"op":"add","path":"/data/x","value":"y"}]"#,
    ),
    (
        "PATCH",
        "/api/v1/namespaces/default/configmaps/c",
        "application/merge-patch+json",
        r#"{"metadata":{"finalizers":["a.b/c"]},"data":{"a":null}}"#,
    ),
    (
        "PATCH",
        "/api/v1/namespaces/default/pods/q",
        "application/strategic-merge-patch+json",
        r#"{"spec":{"containers":[{"name":"m","image":"j","$patch":"replace"}]}}"#,
    ),
    (
        "PATCH",
        "/api/v1/namespaces/default/configmaps/c?fieldManager=x",
        "application/apply-patch+yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  a: b\n",
    ),
    (
        "DELETE",
        "/api/v1/namespaces/default/configmaps/d",
        "application/json",
        r#"{"propagationPolicy":"Foreground","preconditions":{"uid":"x"}}"#,
    ),
    ("GET", "/api/v1/pods?labelSelector=a%3Db,c+in+(d,e)&fieldSelector=status.phase%3DRunning&limit=1", "", ""),
    ("GET", "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1&resourceVersion=999999", "", ""),
    (
        "POST",
        "/apis/t.io/v1/namespaces/default/things",
        "application/json",
        r#"{"apiVersion":"t.io/v1","kind":"Thing","metadata":{"name":"t"},"spec":{"size":1,"list":["a"]}}"#,
    ),
    (
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "application/json",
        r#"{"metadata":{"name":"ks.a.b"},"spec":{"group":"a.b","scope":"Namespaced","names":{"kind":"K","plural":"ks"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#,
    ),
    (
        "POST",
        "/api/v1/namespaces/default/resourcequotas",
        "application/yaml",
        "metadata:\n  name: q\nspec:\n  hard:\n    pods: \"100000\"\n",
    ),
    (
        "POST",
        "/api/v1/namespaces/default/pods/q/binding",
        "application/json",
        r#"{"metadata":{"name":"q"},"target":{"kind":"Node","name":"n"}}"#,
    ),
    (
        "POST",
        "/api/v1/namespaces",
        "application/vnd.kubernetes.protobuf",
        // A namespace called `team`.
        "k8s\0\n\x0f\n\x02v1\x12\tNamespace\x12\x0e\n\x08\n\x04team\x12\0\x12\0\x1a\0\x1a\0\"\0",
    ),
    ("GET", "/api/v1/namespaces/default/pods/q/log?tailLines=5&sinceSeconds=10&timestamps=true&previous=false", "", ""),
];

/// Time limit of an answer. Answers take a few milliseconds; the machine may be busy with other programs.
const PATIENCE: Duration = Duration::from_secs(120);
/// The same for a watch. One that is still valid stays open, so this is how long it takes.
const WATCH_PATIENCE: Duration = Duration::from_millis(500);

/// Texts that are inserted into requests because they often reveal errors of parsers.
const PIECES: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "0",
    "-1",
    "1e999",
    "99999999999999999999",
    "\\u0000",
    "\u{fffd}",
    "/",
    "..",
    "%",
    "%zz",
    "true",
    "{}",
    "[]",
    "\"$patch\":\"delete\"",
    "metadata",
    "\n- a: *b",
];

/// How a valid request is changed.
#[derive(Clone, Debug)]
struct Mutation {
    which: usize,
    method: Option<&'static str>,
    media: Option<&'static str>,
    /// Position (as a fraction of the length), index of the inserted text, and number of replaced characters.
    edits: Vec<(u16, usize, usize)>,
    /// Whether the path is edited instead of the body.
    in_path: bool,
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let method = prop::option::weighted(
        0.2,
        prop::sample::select(vec!["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]),
    );
    let media = prop::option::weighted(
        0.2,
        prop::sample::select(vec![
            "application/json",
            "application/yaml",
            "application/merge-patch+json",
            "application/json-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
            "text/plain",
            "",
            "application/vnd.kubernetes.protobuf",
        ]),
    );
    let edits = prop::collection::vec((any::<u16>(), 0..PIECES.len(), 0usize..12), 1..4);
    (0..VALID.len(), method, media, edits, prop::bool::weighted(0.3))
        .prop_map(|(which, method, media, edits, in_path)| Mutation { which, method, media, edits, in_path })
}

fn edited(text: &str, edits: &[(u16, usize, usize)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (position, piece, replaced) in edits {
        let at = usize::from(*position) * chars.len() / usize::from(u16::MAX);
        let end = (at + replaced).min(chars.len());
        chars.splice(at..end, PIECES[*piece].chars());
    }
    chars.into_iter().collect()
}

async fn send(
    server: &ApiServer,
    method: &str,
    path: &str,
    media: &str,
    body: &str,
) -> Option<(u16, String, bytes::Bytes)> {
    let mut request = Request::builder().method(method).uri(path);
    if !media.is_empty() {
        request = request.header("content-type", media);
    }
    // A client cannot send a path that is not a valid URI.
    let request = request.body(axum::body::Body::from(body.to_owned())).ok()?;
    let response = tower::ServiceExt::oneshot(server.router(), request).await.unwrap();
    let code = response.status().as_u16();
    let media = response.headers().get("content-type").map_or("", |value| value.to_str().unwrap()).to_owned();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    Some((code, media, bytes))
}

async fn server() -> ApiServer {
    let server = ApiServer::new(Options::default());
    let schema = r#"{"type":"object","properties":{"spec":{"type":"object","required":["size"],"properties":{"size":{"type":"integer"},"list":{"type":"array","items":{"type":"string"}}}}}}"#;
    let definition = format!(
        r#"{{"metadata":{{"name":"things.t.io"}},"spec":{{"group":"t.io","scope":"Namespaced","names":{{"kind":"Thing","plural":"things"}},"versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
    );
    for (path, body) in [
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition.as_str()),
        ("/api/v1/namespaces/default/configmaps", r#"{"metadata":{"name":"c"},"data":{"a":"b"}}"#),
        ("/api/v1/namespaces/default/configmaps", r#"{"metadata":{"name":"d"}}"#),
        (
            "/api/v1/namespaces/default/pods",
            r#"{"metadata":{"name":"q"},"spec":{"containers":[{"name":"m","image":"i"}]}}"#,
        ),
    ] {
        let (code, _, body) = send(&server, "POST", path, "application/json", body).await.unwrap();
        assert_eq!(code, 201, "{body:?}");
    }
    server
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_malformed_request_gets_a_valid_answer(mutation in mutation()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = server().await;
            let (method, path, media, body) = VALID[mutation.which];
            let method = mutation.method.unwrap_or(method);
            let media = mutation.media.unwrap_or(media);
            let (path, body) = if mutation.in_path {
                (format!("/{}", edited(&path[1..], &mutation.edits)), body.to_owned())
            } else {
                (path.to_owned(), edited(body, &mutation.edits))
            };
            let patience = if path.contains("watch") { WATCH_PATIENCE } else { PATIENCE };
            let answer = tokio::time::timeout(patience, send(&server, method, &path, media, &body)).await;
            let Ok(answer) = answer else { return assert!(path.contains("watch"), "no answer: {method} {path} {body}") };
            let Some((code, media, answer)) = answer else { return };
            // kube-apiserver also answers 500 to delete options and revisions that it cannot parse.
            let text = String::from_utf8_lossy(&answer);
            let may_be_internal = method == "DELETE"
                || path.contains("resourceVersion")
                || (body.contains("resourceVersion") && text.contains("strconv.ParseUint: parsing"));
            assert!(code < 500 || may_be_internal, "{code} {method} {path} {body}");
            if code >= 400 && method != "HEAD" && media == "application/json" {
                let status: Value = serde_json::from_slice(&answer).unwrap();
                assert_eq!((&status["kind"], &status["code"]), (&"Status".into(), &code.into()), "{method} {path} {body}");
                assert!(!status["message"].as_str().unwrap().is_empty());
            } else {
                assert!(code < 400 || code == 404 || method == "HEAD", "{code} {media} {method} {path}");
            }
            // The server still works.
            let (code, _, _) = send(&server, "GET", "/api/v1/namespaces/default/pods/q", "", "").await.unwrap();
            assert!(code == 200 || code == 404);
        });
    }
}

#[tokio::test]
async fn the_unchanged_requests_are_valid() {
    let server = server().await;
    for (method, path, media, body) in VALID {
        let (code, _, answer) = send(&server, method, path, media, body).await.unwrap();
        // These are well-formed, but refused because of another revision, another uid or an added container.
        let is_refused =
            ["watch=1", "configmaps/d", "pods/q"].iter().any(|part| path.ends_with(part)) || method == "PUT";
        assert!(code < 300 || [404, 409, 422, 504].contains(&code), "{method} {path}: {code} {answer:?}");
        assert!(code < 300 || is_refused || path.contains("watch"), "{method} {path}: {code} {answer:?}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_or_too_deep_is_refused() {
    let server = server().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let large = format!(r#"{{"metadata":{{"name":"x"}},"data":{{"a":"{}"}}}}"#, "x".repeat(4 << 20));
    let (code, _, answer) = send(&server, "POST", maps, "application/json", &large).await.unwrap();
    assert_eq!(code, 413, "{answer:?}");
    for deep in ["[".repeat(100_000), format!(r#"{{"a":{}"#, r#"{"a":"#.repeat(100_000)), "- ".repeat(50_000)] {
        for media in
            ["application/json", "application/yaml", "application/apply-patch+yaml", "application/merge-patch+json"]
        {
            let method = if media.contains("patch") { "PATCH" } else { "POST" };
            let path =
                if media.contains("patch") { "/api/v1/namespaces/default/configmaps/c?fieldManager=x" } else { maps };
            let (code, _, answer) = send(&server, method, path, media, &deep).await.unwrap();
            assert!((400..500).contains(&code), "{code} {answer:?}");
        }
    }
    // A YAML document whose aliases expand to millions of items ("billion laughs").
    let laughs = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n";
    let (code, _, answer) = send(&server, "POST", maps, "application/yaml", laughs).await.unwrap();
    assert!((400..500).contains(&code), "{code} {answer:?}");
}

/// The clock is paused: it jumps to the end of the watch.
#[tokio::test(start_paused = true)]
async fn a_watch_may_ask_for_any_timeout() {
    let server = server().await;
    for seconds in [i64::MAX as u64, 1 << 63, u64::MAX] {
        let begin = tokio::time::Instant::now();
        let path = format!("/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0&timeoutSeconds={seconds}");
        let (code, _, answer) = send(&server, "GET", &path, "", "").await.unwrap();
        assert_eq!(code, 200, "{answer:?}");
        assert!(begin.elapsed() >= Duration::from_secs(24 * 60 * 60), "the watch ended after {:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn a_definition_may_describe_fields_that_hold_quantities_elsewhere() {
    let server = server().await;
    let limits =
        r#"{"type":"object","description":"The most that may be used","additionalProperties":{"type":"string"}}"#;
    let list = r#"{"type":"array","default":[],"example":{"a":[]},"enum":[[],[1]],"items":{"type":"string"}}"#;
    let schema = format!(
        r#"{{"type":"object","required":[],"properties":{{"limits":{limits},"default":{{"type":"string","required":[]}},"list":{list}}}}}"#
    );
    let definition = format!(
        r#"{{"metadata":{{"name":"pods.t.io"}},"spec":{{"group":"t.io","scope":"Namespaced","names":{{"kind":"Pod","plural":"pods"}},"versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
    );
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, _, answer) = send(&server, "POST", path, "application/json", &definition).await.unwrap();
    assert_eq!(code, 201, "{answer:?}");
    let made: Value = serde_json::from_slice(&answer).unwrap();
    let kept = &made["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let parsed = |text| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(kept["properties"]["limits"], parsed(limits));
    assert_eq!(kept["properties"]["list"], parsed(list), "values of the described type are not changed");
    assert_eq!(kept["properties"]["default"], parsed(r#"{"type":"string"}"#), "the property has only this name");
    assert_eq!(kept["required"], Value::Null);
}
