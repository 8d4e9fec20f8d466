//! Configuration keys on the command line: `--executor.cluster east`.
//!
//! Every flag with a dot in its name is a configuration key. These flags are removed before `clap` reads the command line,
//! so that they may stand anywhere in it, as with the Go executor.

use std::ffi::OsString;

use aileron_config::{ConfigErrors, Loader};

/// A command line without its configuration keys, and these keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// The arguments that are not configuration keys.
    pub rest: Vec<OsString>,
    /// The configuration keys and their values.
    pub overrides: Vec<(String, String)>,
}

/// Separates the configuration keys from the other arguments.
///
/// `loader` knows the keys. The key of a boolean needs no value, but a following `true` or `false` is its value.
pub fn split(loader: &Loader, arguments: impl IntoIterator<Item = OsString>) -> Result<Split, ConfigErrors> {
    let mut rest = Vec::new();
    let mut keys = Vec::new();
    let mut arguments = arguments.into_iter().peekable();
    // The first argument is the path of the program, which may contain dots.
    rest.extend(arguments.next());
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            rest.push(argument);
            rest.extend(arguments);
            break;
        }
        let Some(key) = argument.to_str().filter(|text| is_key(text)) else {
            rest.push(argument);
            continue;
        };
        let next = arguments.peek().and_then(|next| next.to_str());
        let value = match next {
            _ if key.contains('=') => None,
            Some("true" | "false") => next,
            // An argument that looks like a flag is not taken as the value: most likely the value was forgotten. Such a
            // value can be given as `--key=--value`.
            Some(next) if !next.starts_with("--") && loader.parse_arguments(&[key]).is_err() => Some(next),
            _ => None,
        };
        match value {
            Some(value) => {
                keys.push(format!("{key}={value}"));
                arguments.next();
            }
            None => keys.push(key.to_owned()),
        }
    }
    let overrides = if keys.is_empty() { Vec::new() } else { loader.parse_arguments(&keys)? };
    Ok(Split { rest, overrides })
}

fn is_key(argument: &str) -> bool {
    let name = argument.strip_prefix("--").map(|flag| flag.split('=').next().unwrap_or_default());
    name.is_some_and(|name| name.contains('.'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn split_line(line: &str) -> (String, Vec<(String, String)>) {
        let Split { rest, overrides } = split(&Loader::new(), line.split_whitespace().map(OsString::from)).unwrap();
        let rest: Vec<_> = rest.iter().map(|part| part.to_str().unwrap()).collect();
        (rest.join(" "), overrides)
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.into(), value.into())
    }

    #[test]
    fn keys_may_stand_anywhere_with_and_without_an_equals_sign() {
        let (rest, overrides) =
            split_line("./aileron run --executor.cluster east --config a.yaml --executor.maxSystemFailures=5 b.yaml");
        assert_eq!(rest, "./aileron run --config a.yaml b.yaml");
        assert_eq!(overrides, [pair("executor.cluster", "east"), pair("executor.maxSystemFailures", "5")]);
    }

    #[test]
    fn booleans_need_no_value_but_take_one() {
        let (rest, overrides) =
            split_line("aileron run --executor.leaderElect --executor.metricsSecure false --kubeconfig k");
        assert_eq!(rest, "aileron run --kubeconfig k");
        assert_eq!(overrides, [pair("executor.leaderElect", "true"), pair("executor.metricsSecure", "false")]);
    }

    #[test]
    fn the_value_of_an_unknown_key_is_separated_too() {
        let (rest, overrides) = split_line("aileron run --executor.clutser east");
        assert_eq!(
            (rest.as_str(), overrides.as_slice()),
            ("aileron run", [pair("executor.clutser", "east")].as_slice())
        );
    }

    #[test]
    fn a_forgotten_value_is_an_error_that_names_the_flag() {
        for line in ["aileron run --executor.cluster", "aileron run --executor.cluster --config a"] {
            let error = split(&Loader::new(), line.split_whitespace().map(OsString::from)).unwrap_err();
            assert_eq!(error.to_string(), "flag --executor.cluster: needs a value");
        }
    }

    #[test]
    fn arguments_after_two_dashes_are_not_keys() {
        let line = "a.b.c run --config ./conf.d/x.yaml -- --executor.cluster east";
        assert_eq!(split_line(line), (line.to_owned(), vec![]));
    }
}
