use super::*;
use proptest::prelude::*;

fn messages(problems: &[NameProblem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn labels_and_subdomains_are_told_apart() {
    assert!(is_label("valid-name") && is_subdomain("valid-name"));
    assert!(!is_label("a.b") && is_subdomain("a.b"));
    for neither in ["", "-lead", "trail-", "UPPER", "a..b", "a.-b", "a b", "ünï", "a_b"] {
        assert!(!is_label(neither) && !is_subdomain(neither), "{neither:?}");
    }
    assert!(is_label(&"a".repeat(63)) && !is_label(&"a".repeat(64)));
    assert!(is_subdomain(&"a".repeat(253)) && !is_subdomain(&"a".repeat(254)));
}

#[test]
fn problems_speak_apimachinery() {
    assert_eq!(messages(&label_problems("a.b")), ["must not contain dots"]);
    assert_eq!(
        messages(&label_problems(&"A".repeat(64))),
        [
            "must be no more than 63 characters",
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
             and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        ]
    );
    assert_eq!(
        messages(&subdomain_problems("A")),
        ["a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
          start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
          '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]
    );
    assert_eq!(
        messages(&label_value_problems("a/b")),
        ["a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
          start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
          validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"]
    );
}

#[test]
fn label_keys_have_an_optional_prefix() {
    for valid in ["app", "flyte.org/run-id", "a/B_c.d"] {
        assert_eq!(label_key_problems(valid), [], "{valid}");
    }
    assert_eq!(label_key_problems("/a"), [NameProblem::EmptyPrefix]);
    assert_eq!(label_key_problems("A/a"), [NameProblem::Prefix(Box::new(NameProblem::NotSubdomain))]);
    assert_eq!(label_key_problems("a/b/c"), [NameProblem::TooManySlashes]);
    assert_eq!(label_key_problems("a/"), [NameProblem::EmptyNamePart, NameProblem::NotNamePart]);
}

#[test]
fn subdomains_are_made_from_class_names() {
    for (name, want) in [
        ("com.acme.MyJob$Inner", "com.acme.my-jobinner"),
        ("a b c", "abc"),
        ("..dots..", "dots"),
        ("---", ""),
        ("HTTPServer", "httpserver"),
        ("a.-b", "a.-b"),
    ] {
        assert_eq!(to_subdomain(name), want);
    }
    let long = to_subdomain(&"A".repeat(300));
    assert_eq!(long.len(), SUBDOMAIN_MAX_LENGTH - DIGEST_ROOM + 8);
    assert!(long.ends_with("a-fe5pi5ai"), "{long}");
}

#[test]
fn kebab_case_breaks_only_before_a_capital_after_lower_case() {
    assert_eq!(to_kebab_case("fooBar9Baz"), "foo-bar9-baz");
    assert_eq!(to_kebab_case("HTTPServer"), "httpserver");
    assert_eq!(to_kebab_case("éA İ"), "éa i");
}

#[test]
fn label_values_are_repaired() {
    for (value, want) in [("", ""), ("a/b:c", "a-b-c"), ("-", "x"), ("..dots..", "x.dots.x"), ("日本", "xx")] {
        assert_eq!(to_label_value(value), want);
    }
}

proptest! {
    #[test]
    fn every_sanitised_value_is_valid(value in ".{0,100}") {
        prop_assert_eq!(label_value_problems(&to_label_value(&value)), []);
    }

    #[test]
    fn valid_values_stay(value in "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?") {
        prop_assert_eq!(to_label_value(&value), value);
    }

    #[test]
    fn subdomains_stay_and_others_shrink(name in "\\PC{0,300}") {
        let converted = to_subdomain(&name);
        prop_assert!(converted.len() <= SUBDOMAIN_MAX_LENGTH);
        prop_assert_eq!(to_subdomain(&converted), converted);
    }
}
