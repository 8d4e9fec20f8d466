//! The `otel` section: traces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where traces go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OtelConfig {
    /// `noop`, `file`, `jaeger`, `otlpgrpc` or `otlphttp`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Traces in a file.
    pub file: OtelFileConfig,
    /// Traces sent to Jaeger.
    pub jaeger: OtelEndpoint,
    /// Traces sent to an OpenTelemetry collector by gRPC.
    pub otlpgrpc: OtelEndpoint,
    /// Traces sent to an OpenTelemetry collector by HTTP.
    pub otlphttp: OtelEndpoint,
    /// Which traces are kept.
    pub sampler: SamplerConfig,
}

/// Traces in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OtelFileConfig {
    /// The file.
    pub filename: String,
}

/// A service that takes traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OtelEndpoint {
    /// Address of the service.
    pub endpoint: String,
}

/// Which traces are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct SamplerConfig {
    /// `always`, or `traceid` for a share of all traces.
    pub parent_sampler: String,
    /// The share of traces kept by `traceid`.
    pub trace_id_ratio: f64,
}

/// Jaeger's usual address.
const JAEGER: &str = "http://localhost:14268/api/traces";
/// An OpenTelemetry collector's usual gRPC address.
const OTLP_GRPC: &str = "http://localhost:4317";
/// An OpenTelemetry collector's usual HTTP address.
const OTLP_HTTP: &str = "http://localhost:4318/v1/traces";

impl Default for OtelConfig {
    fn default() -> Self {
        Self {
            kind: "noop".into(),
            file: OtelFileConfig::default(),
            jaeger: OtelEndpoint { endpoint: JAEGER.into() },
            otlpgrpc: OtelEndpoint { endpoint: OTLP_GRPC.into() },
            otlphttp: OtelEndpoint { endpoint: OTLP_HTTP.into() },
            sampler: SamplerConfig::default(),
        }
    }
}

impl Default for OtelFileConfig {
    fn default() -> Self {
        Self { filename: "/tmp/trace.txt".into() }
    }
}

impl Default for SamplerConfig {
    fn default() -> Self {
        Self { parent_sampler: "always".into(), trace_id_ratio: 0.01 }
    }
}
