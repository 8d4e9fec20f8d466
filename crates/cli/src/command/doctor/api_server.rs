//! The API server: whether it answers, its version, the user, and its clock.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};
use serde_json::Value;

use super::answer::Answer;
use super::finding::Finding;

pub const API_SERVER: &str = "api server";
pub const IDENTITY: &str = "identity";
pub const CLOCK: &str = "clock";

/// The oldest minor version of Kubernetes 1 that the chart accepts.
const OLDEST_MINOR: u32 = 27;

/// The largest difference of clocks without a warning. The header has whole seconds, and the answer takes a moment.
const TOLERATED_SKEW: SignedDuration = SignedDuration::from_secs(5);
/// From this difference on, time limits of tasks, garbage collection and the validity of tokens are visibly wrong.
const LARGEST_SKEW: SignedDuration = SignedDuration::from_secs(60);

/// What is known about the API server.
#[derive(Clone, Debug)]
pub struct ServerFacts {
    /// Its address, without credentials.
    pub server: String,
    pub version: Answer<VersionFacts>,
    /// The name of the user.
    pub user: Answer<String>,
}

/// The answer to `/version`.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionFacts {
    /// Such as `v1.34.0`.
    pub version: String,
    /// The clock of the server, from the header `Date`.
    pub date: Option<Timestamp>,
    /// The clock of this machine in the middle between request and answer.
    pub local: Timestamp,
}

/// Asks the API server.
pub async fn look(client: &Client, server: String, timeout: Duration) -> ServerFacts {
    let version = Answer::of(timeout, version(client));
    let review = SelfSubjectReview::default();
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let parameters = PostParams::default();
    let user = Answer::of(timeout, reviews.create(&parameters, &review));
    let (version, user) = tokio::join!(version, user);
    let user = user.map(|review| review.status.and_then(|status| status.user_info?.username).unwrap_or_default());
    ServerFacts { server, version, user }
}

async fn version(client: &Client) -> Result<VersionFacts, kube::Error> {
    let request = http::Request::get("/version").body(Body::empty()).map_err(kube::Error::HttpError)?;
    let before = Timestamp::now();
    let answer = client.send(request).await?;
    let local = before + Timestamp::now().duration_since(before) / 2;
    let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok()).and_then(parse_date);
    let code = answer.status();
    let body = answer.into_body().collect_bytes().await?;
    let Ok(value) = serde_json::from_slice::<Value>(&body) else {
        let text = format!("/version answered with HTTP status {code} and no JSON");
        return Err(kube::Error::Service(text.into()));
    };
    if !code.is_success() {
        let status = serde_json::from_value(value).map_err(kube::Error::SerdeError)?;
        return Err(kube::Error::Api(Box::new(status)));
    }
    let version = value["gitVersion"].as_str().unwrap_or("unknown").to_owned();
    Ok(VersionFacts { version, date, local })
}

fn parse_date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp())
}

/// Why nothing else can be asked of the API server; `None` if it can.
pub fn unusable(facts: &ServerFacts) -> Option<String> {
    match (&facts.version, &facts.user) {
        (Answer::Unauthenticated(_), _) | (_, Answer::Unauthenticated(_)) => {
            Some(format!("the API server {} does not accept the credentials", facts.server))
        }
        (Answer::Failed(_), Answer::Failed(_)) => Some(format!("the API server {} does not answer", facts.server)),
        _ => None,
    }
}

/// The time of the API server, if it tells its time, when this machine has `local`.
pub fn now(facts: &ServerFacts, local: Timestamp) -> Timestamp {
    match &facts.version {
        Answer::Found(VersionFacts { date: Some(date), local: then, .. }) => local + date.duration_since(*then),
        _ => local,
    }
}

/// What is wrong with the API server, the user and the clocks.
pub fn judge(facts: &ServerFacts) -> Vec<Finding> {
    vec![judge_version(facts), judge_user(facts), judge_clock(facts)]
}

fn judge_version(facts: &ServerFacts) -> Finding {
    let server = &facts.server;
    match &facts.version {
        Answer::Found(found) => {
            let text = format!("Kubernetes {} at {server}", found.version);
            match minor(&found.version) {
                Some(minor) if minor < OLDEST_MINOR => Finding::warning(
                    API_SERVER,
                    text,
                    format!("update Kubernetes: the executor is not made for versions before 1.{OLDEST_MINOR}"),
                ),
                _ => Finding::ok(API_SERVER, text),
            }
        }
        Answer::Failed(problem) => Finding::failed(
            API_SERVER,
            problem.clone(),
            format!("check that {server} is the API server (--kubeconfig, --context) and can be reached from here"),
        ),
        other => Finding::warning(
            API_SERVER,
            format!("{server} does not tell its version: {}", other.problem().unwrap_or_default()),
            "allow the user to get /version: the ClusterRole system:public-info-viewer does",
        ),
    }
}

fn judge_user(facts: &ServerFacts) -> Finding {
    match &facts.user {
        Answer::Found(user) => Finding::ok(IDENTITY, user.clone()),
        Answer::Unauthenticated(problem) => Finding::failed(
            IDENTITY,
            format!("{} does not accept the credentials: {problem}", facts.server),
            "use the kubeconfig of this cluster, or a token that has not expired",
        ),
        Answer::Forbidden(problem) => Finding::failed(
            IDENTITY,
            problem.clone(),
            "with --as, the user of the kubeconfig must be allowed to impersonate; otherwise grant system:basic-user",
        ),
        // Kubernetes has this review since 1.28.
        Answer::NotServed | Answer::Missing => Finding::skipped(IDENTITY, "the API server cannot tell who the user is"),
        Answer::Failed(_) => Finding::skipped(IDENTITY, format!("the API server {} does not answer", facts.server)),
    }
}

fn judge_clock(facts: &ServerFacts) -> Finding {
    let Answer::Found(found) = &facts.version else {
        return Finding::skipped(CLOCK, format!("the API server {} does not answer", facts.server));
    };
    let Some(date) = found.date else {
        return Finding::skipped(CLOCK, "the answer of the API server has no date");
    };
    // The header leaves out the part of the second that has passed.
    let skew = found.local.duration_since(date) - SignedDuration::from_millis(500);
    let word = if skew.is_negative() { "behind" } else { "ahead of" };
    let seconds = skew.abs().as_secs();
    let text = format!("this machine is {seconds} s {word} the API server");
    let remedy =
        "synchronise the clocks of both machines (NTP): time limits, garbage collection and tokens depend on them";
    match skew.abs() {
        skew if skew > LARGEST_SKEW => Finding::failed(CLOCK, text, remedy),
        skew if skew > TOLERATED_SKEW => Finding::warning(CLOCK, text, remedy),
        _ => Finding::ok(CLOCK, "less than 5 s from the API server"),
    }
}

/// The minor version of `v1.34.0`; `None` if it is another major version, or cannot be read.
fn minor(version: &str) -> Option<u32> {
    let rest = version.trim_start_matches('v').strip_prefix("1.")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Outcome;
    use super::*;

    fn facts(version: &str, ahead: i64) -> ServerFacts {
        let date = Timestamp::UNIX_EPOCH;
        let local = date + SignedDuration::from_secs(ahead);
        ServerFacts {
            server: "https://example.org:6443".into(),
            version: Answer::Found(VersionFacts { version: version.into(), date: Some(date), local }),
            user: Answer::Found("ada".into()),
        }
    }

    fn outcomes(facts: &ServerFacts) -> [Outcome; 3] {
        let found = judge(facts);
        [found[0].outcome, found[1].outcome, found[2].outcome]
    }

    #[test]
    fn a_usable_server_is_ok() {
        assert_eq!(outcomes(&facts("v1.34.0", 1)), [Outcome::Ok; 3]);
        assert_eq!(unusable(&facts("v1.34.0", 0)), None);
    }

    #[test]
    fn old_versions_and_wrong_clocks_are_noticed() {
        assert_eq!(outcomes(&facts("v1.26.3+k3s1", 0))[0], Outcome::Warning);
        assert_eq!(outcomes(&facts("v1.27.0-eks", 0))[0], Outcome::Ok);
        for (skew, expected) in
            [(4, Outcome::Ok), (20, Outcome::Warning), (-20, Outcome::Warning), (90, Outcome::Failed)]
        {
            assert_eq!(outcomes(&facts("v1.34.0", skew))[2], expected, "{skew}");
        }
        let behind = judge(&facts("v1.34.0", -90)).remove(2);
        assert_eq!(behind.found, "this machine is 90 s behind the API server");
    }

    #[test]
    fn without_an_answer_or_with_wrong_credentials_nothing_else_is_asked() {
        let away = ServerFacts {
            version: Answer::Failed("connection refused".into()),
            user: Answer::Failed("connection refused".into()),
            ..facts("", 0)
        };
        assert_eq!(outcomes(&away), [Outcome::Failed, Outcome::Skipped, Outcome::Skipped]);
        assert!(unusable(&away).is_some_and(|why| why.contains("does not answer")));
        let refused = ServerFacts { user: Answer::Unauthenticated("Unauthorized".into()), ..facts("v1.34.0", 0) };
        assert_eq!(outcomes(&refused), [Outcome::Ok, Outcome::Failed, Outcome::Ok]);
        assert!(unusable(&refused).is_some_and(|why| why.contains("credentials")));
    }

    #[test]
    fn the_time_of_the_api_server_is_the_one_that_counts() {
        let later = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1000);
        assert_eq!(now(&facts("v1.34.0", 90), later), later - SignedDuration::from_secs(90));
    }

    #[test]
    fn the_date_of_an_answer_is_read() {
        let expected = "1994-11-06T08:49:37Z".parse().ok();
        assert_eq!(parse_date("Sun, 06 Nov 1994 08:49:37 GMT"), expected);
        assert_eq!(parse_date("yesterday"), None);
    }
}
