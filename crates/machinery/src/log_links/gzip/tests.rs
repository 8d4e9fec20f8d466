use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::gzip;

/// Written by Go's `compress/gzip`: nothing, fixed codes, one long repetition, a query, codes of its own.
#[test]
fn the_bytes_are_those_of_go() {
    let query = "ContainerLogV2\n| where PodName == \"p\" and PodNamespace == \"ns\" and ContainerName == \"c\"";
    for (text, expected) in [
        ("", "H4sIAAAAAAAA/wEAAP//AAAAAAAAAAA="),
        ("a", "H4sIAAAAAAAA/0oEBAAA//9DvrfoAQAAAA=="),
        (&"a".repeat(300), "H4sIAAAAAAAA/0ocBUQDQAAAAP//CRmXiSwBAAA="),
        ("hello hello hello hello", "H4sIAAAAAAAA/8pIzcnJV8AgAQEAAP//41E9jRcAAAA="),
        (
            query,
            "H4sIAAAAAAAA/3LOzytJzMxLLfLJTw8z4qpRKM9ILUpVCMhP8UvMTVWwtVVQKlBSSMxLgQkVFyQmQ8TziiEScCPgOpKVAAEAAP//1ZfKmlcAAAA=",
        ),
        (&"0123456789abcdef".repeat(40), "H4sIAAAAAAAA/zIwNDI2MTUzt7BMTEpOSU0b5Y/y6ckHBAAA//8Ao4EqgAIAAA=="),
    ] {
        assert_eq!(STANDARD.encode(gzip(text.as_bytes())), expected, "{text}");
    }
}
