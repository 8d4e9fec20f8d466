//! `config show` hides credentials.

use super::{files, loaded};
use crate::explain::located;
use crate::{Loader, Secrets, Selection, show};

/// Every key that can hold a credential. The credentials contain `hush`, everything else does not.
const CREDENTIALS: &str = r#"
executor:
  EventsServiceURL: http://user:hush-1@events/path
plugins:
  k8s:
    default-env-vars:
      - FLYTE_AWS_SECRET_ACCESS_KEY: hush-2
      - INNOCENT: hush-3
    co-pilot:
      storage-config-override:
        stow: {config: {secret_key: hush-4, region: shown-region}}
  spark:
    spark-config-default:
      - spark.hadoop.fs.s3a.secret.key: hush-5
      - spark.driver.cores: shown-cores
      - spark.authenticate.secret: hush-29
      - spark.hadoop.fs.azure.account.key.store.blob.core.windows.net: hush-30
      - spark.hadoop.javax.jdo.option.ConnectionURL: jdbc:mysql://h/db?user=u&password=hush-31
  connector-service:
    webApi: {resourceMeta: {token: hush-6, deep: [hush-7]}}
    defaultConnector: {endpoint: shown-connector, defaultServiceConfig: hush-8}
storage:
  type: stow
  container: shown-bucket
  stow:
    kind: s3
    config:
      auth_type: accesskey
      region: shown-region
      endpoint: https://user:hush-9@minio
      access_key_id: hush-10
      secret_key: hush-11
      secret-key: hush-12
      token: hush-13
      json: '{"private_key": "hush-14"}'
      key: hush-15
      never_seen_before: hush-16
  schemes:
    gs: {kind: google, config: {json: hush-17, project_id: shown-project}}
    abfs: {kind: azure, config: {account: shown-account, key: hush-18, endpoint: "https://h/?sig=hush-19"}}
    redis: {redis: {addr: shown-redis, username: hush-20, password: hush-21}}
  redis: {addr: 'u:hush-32@shown-addr', username: hush-22, password: hush-23}
  signedUrl: {stowConfigOverride: {secret_key: hush-24}}
  defaultHttpClient: {headers: {Authorization: [hush-25]}}
cache:
  redis: {options: {Addr: shown-cache, Password: hush-26, Username: hush-27, PasswordSecretName: shown-secret-name}}
webhook:
  serviceName: shown-service
  vaultSecretManager: {role: shown-role, annotations: {a: hush-28}}
"#;
/// How many credentials there are above.
const COUNT: usize = 32;

#[test]
fn credentials_are_hidden_in_both_formats() {
    let loaded = loaded(&files(&[CREDENTIALS]));
    let shown = CREDENTIALS.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
    let shown: Vec<_> = shown.filter(|word| word.starts_with("shown-")).collect();
    assert!(shown.len() > 10);
    for selection in [Selection::Set, Selection::All] {
        for text in
            [show(&loaded, selection, Secrets::Hidden), located(&loaded, selection, Secrets::Hidden).to_string()]
        {
            assert!(!text.contains("hush"), "{text}");
            for word in &shown {
                assert!(text.contains(word), "{word} is no credential: {text}");
            }
        }
    }
}

#[test]
fn credentials_are_shown_on_request() {
    let loaded = loaded(&files(&[CREDENTIALS]));
    for text in
        [show(&loaded, Selection::Set, Secrets::Shown), located(&loaded, Selection::Set, Secrets::Shown).to_string()]
    {
        assert!(!text.contains("<hidden>"), "{text}");
        for number in 1..=COUNT {
            assert!(text.contains(&format!("hush-{number}")), "hush-{number} is missing: {text}");
        }
    }
}

/// Errors are printed and logged, so they do not show a credential that is at the wrong place either.
#[test]
fn an_error_does_not_show_a_credential() {
    let mistakes = r#"
storage: {stow: hush-1, schemes: {gs: hush-2}, limits: {maxDownloadMBs: hush-3}}
cache: {redis: {options: {DB: hush-4}}}
plugins: {connector-service: {defaultConnector: hush-5}}
executor: {leaderElect: "https://u:hush-6@h"}
tasks: perhaps
"#;
    let errors = Loader::new().load(&files(&[mistakes])).unwrap_err().to_string();
    assert!(!errors.contains("hush"), "{errors}");
    assert_eq!(errors.matches("found a text that may be a credential").count(), 6, "{errors}");
    assert!(errors.contains("found the text \"perhaps\""), "{errors}");
}
