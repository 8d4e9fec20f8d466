//! Keys that have no effect: which ones they are, and the warning about them.

use std::collections::BTreeSet;

use super::{files, loaded};
use crate::schema;
use crate::schema::shape::{Kind, Shape};
use crate::{Sources, check, example, markdown};

fn warnings(sources: &Sources) -> Vec<String> {
    loaded(sources).warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn one_warning_lists_all_settings_without_effect() {
    let mut sources = files(&[
        "webhook:\n  localCert: true\n  certDir: /certs\nexecutor:\n  cluster: east\n",
        "plugins:\n  logs:\n    templates:\n      - displayName: Logs\n        iconUri: http://icon\n",
    ]);
    sources.environment.insert("OTEL.TYPE".into(), "file".into());
    sources.flags.push(("executor.webhookCertPath".into(), "/certs".into()));
    assert_eq!(
        warnings(&sources),
        [
            "these settings have no effect: executor.webhookCertPath (flag --executor.webhookCertPath): the executor contains \
          no webhook; otel.type (environment variable OTEL.TYPE): the executor writes no traces; \
          plugins.logs.templates.0.iconUri (b.yaml:5): it is not sent with the link, as in Flyte's executor; \
          webhook.certDir (a.yaml:3), webhook.localCert (a.yaml:2): Aileron has no pod webhook; in Flyte 2 the Go \
          executor serves it in its own process"
        ]
    );
}

#[test]
fn a_setting_equal_to_its_default_gives_no_warning() {
    let text = "\
webhook: {listenPort: 9443, certDir: /etc/webhook/certs, localCert: false, secretManagerTypes: []}
cache: {inMemoryFixedSize: {defaultExpiration: 24h, size: 100M}}
storage: {defaultHttpClient: {maxIdleConns: 1024, idleConnTimeout: 1m30s, headers: {}}}
plugins: {logs: {templates: [{displayName: Logs, scheme: Pod, iconUri: ''}]}}
";
    assert_eq!(warnings(&files(&[text])), [""; 0]);
}

#[test]
fn a_key_without_effect_in_one_place_may_have_an_effect_in_another() {
    let link = |key: &str| format!("plugins: {{logs: {{{key}: [{{displayName: Logs, linkType: ide}}]}}}}\n");
    assert_eq!(warnings(&files(&[&link("templates")])), [""; 0]);
    assert_eq!(
        warnings(&files(&[&link("azure-log-templates")])),
        [
            "these settings have no effect: plugins.logs.azure-log-templates.0.linkType (a.yaml:1): not used for Azure links"
        ]
    );
    let storage = "plugins: {k8s: {co-pilot: {storage-config-override: {type: s3, limits: {maxDownloadMBs: 9}}}}}\n";
    assert_eq!(
        warnings(&files(&[storage])),
        [
            "these settings have no effect: plugins.k8s.co-pilot.storage-config-override.limits.maxDownloadMBs (a.yaml:1): \
          co-pilot downloads without a limit"
        ]
    );
}

#[test]
fn the_warning_is_given_even_if_the_configuration_has_mistakes() {
    let report = check(&files(&["otel: {type: file}\nexecutor: {clutser: east}\n"]));
    assert!(!report.is_ok());
    assert_eq!(report.warnings.len(), 1);
}

#[test]
fn the_reference_page_says_no_effect_and_the_example_leaves_the_key_out() {
    let page = markdown();
    let row = page.lines().find(|line| line.starts_with("| `send-object-events` ")).unwrap();
    assert!(row.contains("**No effect:** the executor always sends these events."), "{row}");
    let row = page.lines().find(|line| line.starts_with("| `ioutils` ")).unwrap();
    assert!(row.contains("Accepted keys: `remoteFileOutputPaths`."), "{row}");
    assert!(page.contains("\n## `otel`\n\nTraces (OpenTelemetry).\n\n**No effect:** "));
    let example = example();
    for key in ["\nwebhook:", "\notel:", "send-object-events:", "connector-service:"] {
        assert!(!example.contains(key), "{key}");
    }
    assert!(example.contains("maxCacheAge:"));
}

/// All marked keys, as `Type.key`. A reviewer sees here which keys get or lose a mark. `Type.key.below` is a mark for
/// one place of a type that is used in several places; `*` stands for the entries of a list or map. Types that are used
/// only below a marked key are not listed.
const MARKED: &[&str] = &[
    "AzureLogTemplate.iconUri",
    "AzureLogTemplate.scheme",
    "CatalogCacheConfig.cacheKey",
    "CatalogCacheConfig.reader",
    "CatalogCacheConfig.writer",
    "CoPilotConfig.start-timeout",
    "CoPilotConfig.storage",
    "CoPilotConfig.storage-config-override.defaultHttpClient",
    "CoPilotConfig.storage-config-override.limits",
    "CoPilotConfig.storage-config-override.schemes",
    "Config.cache",
    "Config.otel",
    "Config.webhook",
    "ExecutorConfig.webhookCertKey",
    "ExecutorConfig.webhookCertName",
    "ExecutorConfig.webhookCertPath",
    "HttpClientConfig.headers",
    "HttpClientConfig.idleConnTimeout",
    "HttpClientConfig.maxConnsPerHost",
    "HttpClientConfig.maxIdleConns",
    "HttpClientConfig.maxIdleConnsPerHost",
    "K8sConfig.default-pod-template-resync",
    "K8sConfig.send-object-events",
    "LogConfig.azure-log-templates.*.dynamicTemplateUris",
    "LogConfig.azure-log-templates.*.hideOnceFinished",
    "LogConfig.azure-log-templates.*.linkType",
    "LogConfig.azure-log-templates.*.messageFormat",
    "LogConfig.azure-log-templates.*.name",
    "LogConfig.azure-log-templates.*.showWhilePending",
    "LogConfig.dynamic-log-links.*.dynamicTemplateUris",
    "LogConfig.dynamic-log-links.*.messageFormat",
    "LogConfig.dynamic-log-links.*.name",
    "LogTemplate.iconUri",
    "LogTemplate.scheme",
    "PluginsConfig.connector-service",
    "PluginsConfig.ioutils",
    "RayConfig.dashboardURLTemplate.linkType",
    "RayConfig.remoteClusterConfig",
    "SchemeConfig.redis",
    "SecretsConfig.type",
    "SparkConfig.pod-template-detection-timeout",
    "StorageConfig.cache",
    "StorageConfig.redis",
    "StorageConfig.signedUrl",
];

#[test]
fn the_marked_keys_are_these() {
    let schema = schema::keys(&[]);
    let mut marked = Marked::default();
    marked.collect(Shape::of(&schema));
    assert_eq!(marked.keys.into_iter().collect::<Vec<_>>(), MARKED);
}

#[derive(Default)]
struct Marked<'a> {
    types: BTreeSet<&'a str>,
    keys: BTreeSet<String>,
}

impl<'a> Marked<'a> {
    fn collect(&mut self, shape: Shape<'a>) {
        let type_name = shape.type_name().unwrap_or("Config");
        if shape.kubernetes_type().is_some() || !self.types.insert(type_name) {
            return;
        }
        for field in shape.fields() {
            let key = format!("{type_name}.{}", field.name);
            if field.no_effect.reason().is_some() {
                self.keys.insert(key);
                continue;
            }
            let (group, star) = match field.shape.kind() {
                Kind::Map(entries) | Kind::List(entries) => (entries, ".*"),
                _ => (field.shape, ""),
            };
            for (below, _) in field.no_effect.keys_below() {
                assert!(group.field(below).is_some(), "{key} marks the key {below}, which does not exist");
                self.keys.insert(format!("{key}{star}.{below}"));
            }
            self.collect(group);
        }
    }
}
