//! Objects as files: what a plugin builds is compared with a file that a person has read once.

use std::path::Path;

use serde::Serialize;

/// Set this variable to write the files instead of comparing with them.
const UPDATE: &str = "UPDATE_GOLDEN";

/// Compares an object with a YAML file below `tests/golden` of the crate that calls this macro.
///
/// With `UPDATE_GOLDEN=1` in the environment the file is written instead. The test fails with the lines that differ.
///
/// ```no_run
/// # let pod = aileron_machinery::k8s_openapi::api::core::v1::Pod::default();
/// aileron_testkit::golden!("kettle.yaml", &pod);
/// ```
#[macro_export]
macro_rules! golden {
    ($file:expr, $object:expr) => {{
        let folder = ::std::path::Path::new(::core::env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        if let ::core::result::Result::Err(problem) = $crate::compare_with_golden(&folder.join($file), $object) {
            ::core::panic!("{problem}");
        }
    }};
}

/// Compares an object with a YAML file, or writes the file with `UPDATE_GOLDEN=1`. [`golden!`](crate::golden) calls it.
///
/// # Errors
/// A text for people: the lines that differ, or why the file cannot be read or written.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("golden-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let file = folder.join("kettle.yaml");
/// std::fs::write(&file, "litres: 1\n")?;
/// assert_eq!(aileron_testkit::compare_with_golden(&file, &[("litres", 1)].into_iter().collect::<std::collections::BTreeMap<_, _>>()), Ok(()));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn compare_with_golden(file: &Path, object: &impl Serialize) -> Result<(), String> {
    let built = to_yaml(object).map_err(|error| format!("the object cannot be written as YAML: {error}"))?;
    if std::env::var_os(UPDATE).is_some() {
        let written = file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(file, built));
        return written.map_err(|error| format!("cannot write {}: {error}", file.display()));
    }
    let expected = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}; {UPDATE}=1 writes it", file.display()))?;
    if expected == built {
        return Ok(());
    }
    Err(format!(
        "the object differs from {} ({UPDATE}=1 writes the file anew):\n{}",
        file.display(),
        differing_lines(&expected, &built)
    ))
}

/// Through JSON, so that members stand in the order of their names, whatever the type of the object.
fn to_yaml(object: &impl Serialize) -> Result<String, String> {
    let mut document = serde_json::to_value(object).map_err(|error| error.to_string())?;
    document.sort_all_objects();
    let text = serde_saphyr::to_string(&document).map_err(|error| error.to_string())?;
    Ok(if text.ends_with('\n') { text } else { format!("{text}\n") })
}

/// The lines between the common beginning and the common end, `-` in the file and `+` in the object.
fn differing_lines(file: &str, object: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (file.lines().collect(), object.lines().collect());
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let marked = |mark: &'static str, lines: &[&str]| -> String {
        lines.iter().map(|line| format!("{mark} {line}\n")).collect()
    };
    format!("line {}:\n{}{}", head + 1, marked("-", old), marked("+", new))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_shown_as_lines_and_the_order_of_members_does_not_matter() {
        let folder = std::env::temp_dir().join(format!("aileron-golden-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("object.yaml");
        std::fs::write(&file, "a: 1\nb: two\nc:\n  d: 3\n").unwrap();
        assert_eq!(compare_with_golden(&file, &json!({"c": {"d": 3}, "b": "two", "a": 1})), Ok(()));
        let problem = compare_with_golden(&file, &json!({"a": 1, "b": "three", "c": {"d": 3}})).unwrap_err();
        assert!(problem.ends_with("line 2:\n- b: two\n+ b: three\n"), "{problem}");
        let missing = compare_with_golden(&folder.join("none.yaml"), &json!({})).unwrap_err();
        assert!(missing.ends_with("; UPDATE_GOLDEN=1 writes it"), "{missing}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
