//! A target by its name.

use std::sync::Arc;

use crate::error::TargetError;
use crate::{
    api_request, configuration, error_document, literals, object, plugin_state, quota_message, task_file, task_template,
};

type Function = dyn Fn(&[u8]) + Send + Sync;

/// A function for any bytes.
#[derive(Clone)]
pub struct Target(Arc<Function>);

impl Target {
    /// Prepares the target of this name.
    ///
    /// # Errors
    /// There is no such target, or what it needs cannot be made.
    pub fn new(name: &str) -> Result<Self, TargetError> {
        Ok(match name {
            "task_template" => {
                let builder = task_template::Builder::new()?;
                Self::of(move |data| drop(builder.build(data)))
            }
            "object" => {
                let reader = object::Reader::new()?;
                Self::of(move |data| drop(reader.read(data)))
            }
            "literals" => {
                let reader = literals::Reader::new()?;
                Self::of(move |data| reader.read(data))
            }
            "error_document" => {
                let reader = error_document::Reader::new()?;
                Self::of(move |data| reader.read(data))
            }
            "plugin_state" => Self::of(plugin_state::read),
            "configuration" => {
                let reader = configuration::Reader::new();
                Self::of(move |data| reader.read(data))
            }
            "task_file" => {
                let reader = task_file::Reader::new()?;
                Self::of(move |data| reader.read(data))
            }
            "api_request" => {
                let client = api_request::Client::new()?;
                Self::of(move |data| client.send(data))
            }
            "quota_message" => Self::of(quota_message::read),
            other => return Err(TargetError::Unknown(other.to_owned())),
        })
    }

    fn of(function: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    /// Runs the target.
    pub fn run(&self, data: &[u8]) {
        (self.0)(data);
    }
}
