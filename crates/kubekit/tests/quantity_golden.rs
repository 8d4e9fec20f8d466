//! Quantities against results of Kubernetes' own apimachinery (v0.34.4) for random texts.

#![allow(clippy::unwrap_used, clippy::panic)]

use aileron_kubekit::quantity::{ParseQuantityError, Quantity};

fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

#[test]
fn texts_are_read_and_printed_alike() {
    let mut checked = 0;
    for row in rows(include_str!("data/parse.tsv")) {
        let parsed = row[0].parse::<Quantity>();
        match (&row[1..], parsed) {
            ([canonical, format, value, milli_value, sign], Ok(parsed)) => {
                let got = [
                    parsed.to_string(),
                    parsed.format().as_str().to_owned(),
                    parsed.value().to_string(),
                    parsed.milli_value().to_string(),
                    parsed.signum().to_string(),
                ];
                assert_eq!(got, [*canonical, *format, *value, *milli_value, *sign], "{}", row[0]);
            }
            (["format"], Err(ParseQuantityError::Format))
            | (["numeric"], Err(ParseQuantityError::Numeric))
            | (["suffix"], Err(ParseQuantityError::Suffix)) => {}
            (want, got) => panic!("{:?}: got {got:?}, want {want:?}", row[0]),
        }
        checked += 1;
    }
    assert!(checked > 300, "only {checked} rows");
}

#[test]
fn sums_and_order_are_alike() {
    let mut checked = 0;
    for row in rows(include_str!("data/arithmetic.tsv")) {
        let (a, b): (Quantity, Quantity) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        let (sum, difference) = (a.plus(&b), a.minus(&b));
        let got = [
            (a.cmp(&b) as i32).to_string(),
            sum.to_string(),
            difference.to_string(),
            sum.format().as_str().to_owned(),
            difference.format().as_str().to_owned(),
        ];
        assert_eq!(got, row[2..], "{} and {}", row[0], row[1]);
        checked += 1;
    }
    assert_eq!(checked, 200);
}
