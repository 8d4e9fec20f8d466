//! The descriptors of our own `.proto` files, decoded once.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, MessageDescriptor};

use crate::error::JsonError;

/// Written by the build script: names and numbers without comments, which keeps decoding to a few milliseconds.
const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Every message, enum and service of this crate, for example
/// `descriptors().get_service_by_name("flyteidl2.workflow.EventsProxyService")`.
///
/// The value never changes after its first use. The bytes come from the build script and a test decodes them; were
/// they damaged, the pool would be empty and every conversion would say which message it misses.
pub fn descriptors() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| DescriptorPool::decode(BYTES).unwrap_or_default());
    &POOL
}

/// The descriptor of a generated type.
pub(crate) fn descriptor_of<M: prost::Name>() -> Result<MessageDescriptor, JsonError> {
    let name = M::full_name();
    descriptors().get_message_by_name(&name).ok_or(JsonError::UnknownMessage { name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flyteidl2::cacheservice::v2;
    use crate::flyteidl2::core::{TaskTemplate, container_error};

    #[test]
    fn every_generated_package_has_descriptors() {
        let packages: std::collections::BTreeSet<_> =
            descriptors().all_messages().map(|message| message.package_name().to_owned()).collect();
        for package in ["core", "common", "task", "workflow", "cacheservice", "cacheservice.v2", "connector", "plugins"]
        {
            assert!(packages.contains(&format!("flyteidl2.{package}")), "{package} is missing in {packages:?}");
        }
        assert!(descriptor_of::<TaskTemplate>().is_ok());
        assert!(descriptor_of::<v2::GetCacheRequest>().is_ok());
    }

    #[test]
    fn nested_names_keep_their_scope() {
        assert_eq!(<TaskTemplate as prost::Name>::full_name(), "flyteidl2.core.TaskTemplate");
        assert_eq!(container_error::Kind::Recoverable.as_str_name(), "RECOVERABLE");
    }

    #[test]
    fn services_are_known_by_their_connect_paths() {
        let service = descriptors().get_service_by_name("flyteidl2.workflow.EventsProxyService");
        let methods: Vec<_> = service
            .into_iter()
            .flat_map(|it| it.methods().map(|m| m.full_name().to_owned()).collect::<Vec<_>>())
            .collect();
        assert_eq!(methods, ["flyteidl2.workflow.EventsProxyService.Record"]);
    }
}
