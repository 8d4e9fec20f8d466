//! Messages that are not Flyte's: read through the descriptors that their owner brings along.

use std::fmt;

use prost::{Message, Name};
use prost_reflect::{DescriptorError, DescriptorPool};
use prost_types::Struct;

use crate::error::JsonError;
use crate::json::message_with;
use crate::path::Path;
use crate::structs::struct_to_json_at;

/// The messages of a compiled file descriptor set, as `prost-build` and `protox` write it.
#[derive(Clone)]
pub struct Messages(DescriptorPool);

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.files().map(|file| file.name().to_owned())).finish()
    }
}

impl Messages {
    /// Decodes a file descriptor set. It must hold the files that its own files import.
    ///
    /// # Errors
    /// The bytes are not a file descriptor set, or an imported file is missing.
    pub fn decode(descriptor_set: &[u8]) -> Result<Self, DescriptorError> {
        DescriptorPool::decode(descriptor_set).map(Self)
    }

    /// Reads free-form settings as one of the messages; see [`message_from_struct`](crate::message_from_struct).
    ///
    /// # Errors
    /// The set does not have the message, or names the field whose value does not fit.
    pub fn message_from_struct<M: Message + Name + Default>(&self, fields: &Struct) -> Result<M, JsonError> {
        let name = M::full_name();
        let descriptor = self.0.get_message_by_name(&name).ok_or(JsonError::UnknownMessage { name })?;
        message_with(&descriptor, &struct_to_json_at(fields, &Path::Root(M::NAME))?)
    }
}
