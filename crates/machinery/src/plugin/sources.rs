//! The plugins of an installation before its configuration is known.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::PluginSet;
use super::core::CorePlugin;
use super::k8s::K8sPlugin;
use super::object_plugin::{ObjectPlugin, erase};
use super::section::{PluginSection, Section, SectionError, SectionValues};

type Make<P> = dyn Fn(&SectionValues) -> Result<Arc<P>, SectionError> + Send + Sync;

#[derive(Clone)]
enum Source {
    Object(Arc<Make<dyn ObjectPlugin>>),
    Core(Arc<Make<dyn CorePlugin>>),
}

/// The plugins of an installation, in the order in which they are added, before the configuration is known.
///
/// ```
/// # use aileron_machinery::{K8sPlugin, PluginSources, PluginSection, PhaseContext, PhaseInfo, PluginEntry, PluginError};
/// # use aileron_machinery::{SectionValues, TaskContext, k8s_openapi::api::core::v1::Pod};
/// # #[derive(Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct OvenConfig { degrees: u32 }
/// # impl PluginSection for OvenConfig { const KEY: &'static str = "oven"; }
/// # struct Oven(OvenConfig);
/// # impl K8sPlugin for Oven {
/// #     type Resource = Pod;
/// #     fn entry(&self) -> PluginEntry { PluginEntry::new("oven", &["oven"]) }
/// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
/// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
/// #         Ok(PhaseInfo::undefined())
/// #     }
/// # }
/// let sources = PluginSources::new().with_section(|section: OvenConfig| Oven(section));
/// let configured = [("oven".to_owned(), serde_json::json!({"degrees": 200}))];
/// let plugins = sources.build(&SectionValues::new(configured.into())).unwrap();
/// assert_eq!(&*plugins.k8s()[0].entry().id, "oven");
/// ```
#[derive(Clone, Default)]
pub struct PluginSources {
    sources: Vec<Source>,
    sections: Vec<Section>,
}

impl PluginSources {
    /// No plugins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a plugin without settings.
    ///
    /// ```
    /// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
    /// # struct Kettles;
    /// # impl K8sPlugin for Kettles {
    /// #     type Resource = Pod;
    /// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
    /// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
    /// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
    /// #         Ok(PhaseInfo::undefined())
    /// #     }
    /// # }
    /// use aileron_machinery::{PluginSources, erase};
    ///
    /// /// What a crate with several plugins offers, for `Program::with_plugins`.
    /// fn kitchen(plugins: PluginSources) -> PluginSources {
    ///     plugins.and(PluginSources::new().with(Kettles).with_object_plugin(erase(Kettles)))
    /// }
    /// assert!(kitchen(PluginSources::new()).sections().is_empty(), "these plugins have no settings");
    /// ```
    #[must_use]
    pub fn with(self, plugin: impl K8sPlugin) -> Self {
        self.with_object_plugin(erase(plugin))
    }

    /// Adds a plugin whose kind of object is known only at run time.
    #[must_use]
    pub fn with_object_plugin(self, plugin: Arc<dyn ObjectPlugin>) -> Self {
        self.add(Source::Object(Arc::new(move |_| Ok(Arc::clone(&plugin)))))
    }

    /// Adds a plugin that is made from its section.
    #[must_use]
    pub fn with_section<S, P>(self, make: impl Fn(S) -> P + Send + Sync + 'static) -> Self
    where
        S: PluginSection,
        P: K8sPlugin,
    {
        self.own::<S>().add(Source::Object(Arc::new(move |values| Ok(erase(make(values.section()?))))))
    }

    /// Adds a plugin without settings that does its own driving.
    #[must_use]
    pub fn with_core(self, plugin: impl CorePlugin + 'static) -> Self {
        let plugin: Arc<dyn CorePlugin> = Arc::new(plugin);
        self.add(Source::Core(Arc::new(move |_| Ok(Arc::clone(&plugin)))))
    }

    /// Adds a plugin that does its own driving and is made from its section.
    ///
    /// ```
    /// use aileron_machinery::{PluginSources, SectionValues};
    /// # use aileron_machinery::{CorePlugin, CoreRequest, CoreStep, PhaseInfo, PluginEntry, PluginError, PluginSection};
    /// # #[derive(Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// # struct QueryConfig { endpoint: String }
    /// # impl PluginSection for QueryConfig { const KEY: &'static str = "query"; }
    /// # struct Queries(String);
    /// # #[aileron_machinery::async_trait]
    /// # impl CorePlugin for Queries {
    /// #     fn entry(&self) -> PluginEntry { PluginEntry::new("query", &["query"]) }
    /// #     async fn handle(&self, _: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
    /// #         Ok(CoreStep::of(PhaseInfo::undefined()))
    /// #     }
    /// #     async fn abort(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> { Ok(()) }
    /// #     async fn finalize(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> { Ok(()) }
    /// # }
    ///
    /// let sources = PluginSources::new()
    ///     .with_core_section(|section: QueryConfig| Queries(section.endpoint))
    ///     .with_core(Queries("https://query.example.com".into()));
    /// assert_eq!(sources.sections()[0].key(), "query");
    /// assert_eq!(sources.build(&SectionValues::default()).unwrap().core().len(), 2);
    /// ```
    #[must_use]
    pub fn with_core_section<S, P>(self, make: impl Fn(S) -> P + Send + Sync + 'static) -> Self
    where
        S: PluginSection,
        P: CorePlugin + 'static,
    {
        self.own::<S>()
            .add(Source::Core(Arc::new(move |values| Ok(Arc::new(make(values.section()?)) as Arc<dyn CorePlugin>))))
    }

    /// Adds all plugins of another list behind those of this one.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.sources.extend(others.sources);
        let known: BTreeSet<_> = self.sections.iter().map(Section::key).collect();
        self.sections.extend(others.sections.into_iter().filter(|section| !known.contains(section.key())));
        self
    }

    /// The sections that the plugins own, each once.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The plugins under these values of their sections. A section that is not there has its defaults.
    ///
    /// # Errors
    /// A section does not fit its type. The configuration loader has checked that before.
    pub fn build(&self, values: &SectionValues) -> Result<PluginSet, SectionError> {
        self.sources.iter().try_fold(PluginSet::new(), |plugins, source| {
            Ok(match source {
                Source::Object(make) => plugins.with_object_plugin(make(values)?),
                Source::Core(make) => plugins.with_core_plugin(make(values)?),
            })
        })
    }

    fn add(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// Two plugins may share a section.
    fn own<S: PluginSection>(mut self) -> Self {
        if !self.sections.iter().any(|section| section.key() == S::KEY) {
            self.sections.push(Section::of::<S>());
        }
        self
    }
}
