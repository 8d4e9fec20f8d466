//! What a plugin tells about a phase beyond its name.

use aileron_idl::flyteidl2::core::{CatalogCacheStatus, LogContext, TaskLog};
use aileron_idl::form;
use jiff::Timestamp;
use prost_types::Struct;
use serde::{Deserialize, Serialize};

use super::Phase;

/// One more thing that happened, beside the reason of the phase.
///
/// ```
/// use aileron_machinery::{ReasonInfo, TaskInfo};
/// # use aileron_machinery::{testing::task, serde_json::Value};
/// # let task = task("batch", &Value::Null);
///
/// let mut info = TaskInfo::at(task.now);
/// info.additional_reasons.push(ReasonInfo { reason: "worker-1 was restarted".into(), occurred_at: Some(task.now) });
/// assert_eq!(info.additional_reasons[0].reason, "worker-1 was restarted");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasonInfo {
    /// What happened.
    pub reason: String,
    /// When, if known.
    pub occurred_at: Option<Timestamp>,
}

/// Something outside the action that does part of its work.
///
/// ```
/// use aileron_machinery::{ExternalResource, Phase, TaskInfo};
/// # use aileron_machinery::{testing::task, serde_json::Value};
/// # let task = task("batch", &Value::Null);
///
/// let workers = (0..3).map(|index| ExternalResource {
///     external_id: format!("worker-{index}"),
///     index,
///     phase: Phase::Running,
///     ..ExternalResource::default()
/// });
/// let info = TaskInfo { external_resources: workers.collect(), ..TaskInfo::at(task.now) };
/// assert_eq!(info.external_resources[2].external_id, "worker-2");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalResource {
    /// Its name.
    pub external_id: String,
    /// What the cache said about it.
    #[serde(with = "cache_status_name")]
    pub cache_status: CatalogCacheStatus,
    /// Its place among its siblings.
    pub index: u32,
    /// Its log links.
    #[serde(with = "form::list")]
    pub logs: Vec<TaskLog>,
    /// Where its logs can be streamed from.
    #[serde(with = "form::optional")]
    pub log_context: Option<LogContext>,
    /// Its attempt.
    pub retry_attempt: u32,
    /// Where it stands.
    pub phase: Phase,
    /// Anything else the plugin wants to show.
    #[serde(with = "form::optional_struct")]
    pub custom_info: Option<Struct>,
}

/// What a plugin tells about a phase beyond its name.
///
/// ```
/// use aileron_machinery::pod::log_context::log_context;
/// use aileron_machinery::testing::{pod, task};
/// use aileron_machinery::{PhaseInfo, TaskInfo};
/// # use aileron_machinery::serde_json::{Value, json};
///
/// let task = task("batch", &Value::Null);
/// let pod = pod("driver-0", "main", &json!({"phase": "Running"}));
/// let info = TaskInfo { log_context: Some(log_context(&pod)), ..TaskInfo::at(task.now) };
/// assert_eq!(PhaseInfo::running(info).info().unwrap().occurred_at, task.now);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskInfo {
    /// When the task entered the phase.
    pub occurred_at: Timestamp,
    /// When the platform noticed.
    pub reported_at: Option<Timestamp>,
    /// Log links.
    #[serde(default, with = "form::list")]
    pub logs: Vec<TaskLog>,
    /// Where logs can be streamed from.
    #[serde(default, with = "form::optional")]
    pub log_context: Option<LogContext>,
    /// Anything else the plugin wants to show.
    #[serde(default, with = "form::optional_struct")]
    pub custom_info: Option<Struct>,
    /// Things outside the action that do part of its work.
    #[serde(default)]
    pub external_resources: Vec<ExternalResource>,
    /// More reasons, oldest first.
    #[serde(default)]
    pub additional_reasons: Vec<ReasonInfo>,
}

impl TaskInfo {
    /// Nothing but a time.
    pub fn at(occurred_at: Timestamp) -> Self {
        Self {
            occurred_at,
            reported_at: None,
            logs: Vec::new(),
            log_context: None,
            custom_info: None,
            external_resources: Vec::new(),
            additional_reasons: Vec::new(),
        }
    }
}

/// The cache status by its name in protobuf.
mod cache_status_name {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::CatalogCacheStatus;

    pub(super) fn serialize<S: Serializer>(status: &CatalogCacheStatus, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(status.as_str_name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<CatalogCacheStatus, D::Error> {
        let name = String::deserialize(source)?;
        CatalogCacheStatus::from_str_name(&name)
            .ok_or_else(|| de::Error::custom(format!("{name:?} is not a cache status")))
    }
}
