//! What roles allow, and what was used of it.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::Client;
use kube::api::{Api, PostParams};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::{AuditRecord, User};

/// Limit for the API server to know new roles. Its authorizer normally knows them within a second.
const KNOWN_TIMEOUT: Duration = Duration::from_secs(120);
/// Pause between two questions.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// The permission for one verb on one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// The namespace; `None` for all namespaces and for objects without one.
    namespace: Option<String>,
    group: String,
    /// The plural name, with the subresource if there is one. A path, if the permission is for no resource.
    resource: String,
    /// The only object; `None` for all.
    object: Option<String>,
    verb: String,
}

/// The permissions of one user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    permissions: BTreeSet<Permission>,
}

impl Permission {
    /// All permissions of a rule.
    fn of_rule<'a>(namespace: Option<&'a str>, rule: &'a PolicyRule) -> impl Iterator<Item = Self> + 'a {
        let groups = rule.api_groups.iter().flatten();
        let resources =
            move |group: &'a String| rule.resources.iter().flatten().map(move |name| (group.as_str(), name));
        let paths = rule.non_resource_urls.iter().flatten().map(|path| ("", path));
        let places = groups.flat_map(resources).chain(paths);
        let objects: Vec<_> = match &rule.resource_names {
            None => vec![None],
            Some(names) => names.iter().cloned().map(Some).collect(),
        };
        places.flat_map(move |(group, resource)| {
            let of_verb = move |verb: &String, object: Option<String>| Self {
                namespace: namespace.map(str::to_owned),
                group: group.to_owned(),
                resource: resource.clone(),
                object,
                verb: verb.clone(),
            };
            let objects = objects.clone();
            rule.verbs.iter().flat_map(move |verb| objects.clone().into_iter().map(move |object| of_verb(verb, object)))
        })
    }

    /// The permission that is enough for a request and for no other. `None` for requests that name no resource, such as
    /// discovery.
    fn of_request(request: &AuditRecord) -> Option<Self> {
        let AuditRecord { verb, resource, subresource, namespace, name, uri, .. } = request;
        if resource.is_empty() {
            return None;
        }
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let group = uri.strip_prefix("/apis/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let resource = if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
        let object = text(name).filter(|_| verb != "create");
        Some(Self { namespace: text(namespace), group: group.to_owned(), resource, object, verb: verb.clone() })
    }

    /// Whether this permission allows what the other one allows.
    fn covers(&self, other: &Self) -> bool {
        (&self.group, &self.resource, &self.verb) == (&other.group, &other.resource, &other.verb)
            && (self.namespace.is_none() || self.namespace == other.namespace)
            && (self.object.is_none() || self.object == other.object)
    }

    fn review(&self, user: User) -> SubjectAccessReview {
        let Self { namespace, group, resource, object, verb } = self;
        let (name, sub) = resource.split_once('/').unwrap_or((resource, ""));
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let mut spec = SubjectAccessReviewSpec { user: Some(user.username().into_owned()), ..Default::default() };
        if resource.starts_with('/') {
            spec.non_resource_attributes = Some(NonResourceAttributes { path: text(resource), verb: text(verb) });
        } else {
            spec.resource_attributes = Some(ResourceAttributes {
                group: text(group),
                resource: text(name),
                subresource: text(sub),
                name: object.clone(),
                verb: text(verb),
                namespace: namespace.clone(),
                ..ResourceAttributes::default()
            });
        }
        SubjectAccessReview { spec, ..SubjectAccessReview::default() }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, group, resource, object, verb } = self;
        write!(f, "{verb} {resource}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if let Some(object) = object {
            write!(f, " {object}")?;
        }
        match namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

impl Grants {
    /// What the roles and bindings among these objects grant to a service account.
    ///
    /// # Errors
    /// A role or binding cannot be read, or a binding names a role that is not among the objects.
    pub fn of(objects: &[Value], user: User) -> Result<Self> {
        let mut grants = Self::default();
        for binding in all::<ClusterRoleBinding>(objects)? {
            if names(binding.subjects.as_deref(), user) {
                grants.add(None, &rules(objects, &binding.role_ref, None)?);
            }
        }
        for binding in all::<RoleBinding>(objects)? {
            if names(binding.subjects.as_deref(), user) {
                let namespace = binding.metadata.namespace.as_deref();
                grants.add(namespace, &rules(objects, &binding.role_ref, namespace)?);
            }
        }
        Ok(grants)
    }

    fn add(&mut self, namespace: Option<&str>, rules: &[PolicyRule]) {
        self.permissions.extend(rules.iter().flat_map(|rule| Permission::of_rule(namespace, rule)));
    }

    /// The permissions that none of these requests needed, as text.
    #[must_use]
    pub fn unused(&self, requests: &[AuditRecord]) -> Vec<String> {
        let needed: BTreeSet<_> = requests.iter().filter_map(Permission::of_request).collect();
        let is_unused = |granted: &&Permission| !needed.iter().any(|one| granted.covers(one));
        self.permissions.iter().filter(is_unused).map(ToString::to_string).collect()
    }

    /// The requests that need a permission which is not among these.
    #[must_use]
    pub fn ungranted<'a>(&self, requests: &'a [AuditRecord]) -> Vec<&'a AuditRecord> {
        let is_granted = |needed: &Permission| self.permissions.iter().any(|granted| granted.covers(needed));
        requests.iter().filter(|one| Permission::of_request(one).is_some_and(|needed| !is_granted(&needed))).collect()
    }

    /// Waits until the API server knows all of them: its authorizer reads roles by a watch.
    ///
    /// # Errors
    /// The API server still refuses one of them when the wait times out.
    pub async fn until_known(&self, admin: &Client, user: User) -> Result<()> {
        let reviews: Api<SubjectAccessReview> = Api::all(admin.clone());
        for permission in &self.permissions {
            let review = permission.review(user);
            let begin = Instant::now();
            loop {
                let answer = reviews.create(&PostParams::default(), &review).await?;
                if answer.status.is_some_and(|status| status.allowed) {
                    break;
                }
                if begin.elapsed() > KNOWN_TIMEOUT {
                    bail!("{} may not {permission}", user.username());
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }
}

/// Whether one of the subjects is this service account.
fn names(subjects: Option<&[Subject]>, user: User) -> bool {
    let name = |subject: &Subject| {
        let namespace = subject.namespace.as_deref().unwrap_or_default();
        format!("system:serviceaccount:{namespace}:{}", subject.name)
    };
    let mut accounts = subjects.unwrap_or_default().iter().filter(|subject| subject.kind == "ServiceAccount");
    accounts.any(|subject| name(subject) == user.username())
}

fn rules(objects: &[Value], role: &RoleRef, namespace: Option<&str>) -> Result<Vec<PolicyRule>> {
    let found = if role.kind == "ClusterRole" {
        let found = all::<ClusterRole>(objects)?.into_iter().find(|one| one.metadata.name.as_ref() == Some(&role.name));
        found.map(|role| role.rules)
    } else {
        let is_it = |one: &Role| {
            one.metadata.name.as_ref() == Some(&role.name) && one.metadata.namespace.as_deref() == namespace
        };
        all::<Role>(objects)?.into_iter().find(is_it).map(|role| role.rules)
    };
    Ok(found.with_context(|| format!("there is no {} {}", role.kind, role.name))?.unwrap_or_default())
}

/// The objects of one kind.
fn all<K: k8s_openapi::Resource + DeserializeOwned>(objects: &[Value]) -> Result<Vec<K>> {
    let of_kind = objects.iter().filter(|object| object["apiVersion"] == K::API_VERSION && object["kind"] == K::KIND);
    of_kind.map(|object| Ok(serde_json::from_value(object.clone())?)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    const USER: User = User::ServiceAccount("flyte", "executor");

    #[test]
    fn grants_are_those_of_the_bindings_of_the_user() {
        let subject = |name: &str| json!([{"kind": "ServiceAccount", "namespace": "flyte", "name": name}]);
        let binding = |kind: &str, namespace: Option<&str>, role: &str, name: &str| {
            let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": {"name": "b", "namespace": namespace}, "roleRef": role, "subjects": subject(name),
            })
        };
        let role = |name: &str, group: &str, resources: &[&str], verbs: &[&str]| {
            let rules = json!([{"apiGroups": [group], "resources": resources, "verbs": verbs}]);
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
                "rules": rules,
            })
        };
        let objects = [
            role("read", "", &["pods"], &["list", "watch"]),
            role("write", "flyte.org", &["taskactions", "taskactions/status"], &["patch"]),
            role("all", "*", &["*"], &["*"]),
            binding("ClusterRoleBinding", None, "read", "executor"),
            binding("RoleBinding", Some("team"), "write", "executor"),
            binding("ClusterRoleBinding", None, "all", "other"),
        ];
        let grants = Grants::of(&objects, USER).unwrap();
        let granted: Vec<_> = grants.permissions.iter().map(ToString::to_string).collect();
        let expected = [
            "list pods",
            "watch pods",
            "patch taskactions.flyte.org in team",
            "patch taskactions/status.flyte.org in team",
        ];
        assert_eq!(granted, expected);
        let missing = [binding("RoleBinding", Some("team"), "gone", "executor")];
        assert!(Grants::of(&missing, USER).unwrap_err().to_string().contains("there is no ClusterRole gone"));
    }

    #[test]
    fn a_grant_covers_requests_in_its_namespace_for_its_object() {
        let request = |verb: &str, uri: &str, namespace: &str, name: &str, subresource: &str| AuditRecord {
            verb: verb.into(),
            resource: uri.rsplit('/').next().unwrap().into(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
            code: 200,
            uri: uri.into(),
        };
        let rule = |group: &str, resource: &str, verb: &str, name: Option<&str>| PolicyRule {
            api_groups: Some(vec![group.into()]),
            resources: Some(vec![resource.into()]),
            resource_names: name.map(|name| vec![name.into()]),
            verbs: vec![verb.into()],
            non_resource_urls: None,
        };
        let mut grants = Grants::default();
        grants.add(None, &[rule("", "pods", "list", None)]);
        grants.add(Some("team"), &[rule("flyte.org", "taskactions/status", "patch", None)]);
        grants.add(Some("flyte"), &[rule("coordination.k8s.io", "leases", "update", Some("lock"))]);
        let (status, leases) = ("/apis/flyte.org/v1/namespaces/n/taskactions", "/apis/coordination.k8s.io/v1/leases");
        let allowed = [
            request("list", "/api/v1/pods", "", "", ""),
            request("patch", status, "team", "a", "status"),
            request("update", leases, "flyte", "lock", ""),
            request("get", "/apis/flyte.org/v1/", "", "", ""),
        ];
        assert_eq!(grants.ungranted(&allowed), Vec::<&AuditRecord>::new());
        assert_eq!(grants.unused(&allowed), Vec::<String>::new());
        let refused = [
            request("watch", "/api/v1/pods", "", "", ""),
            request("list", "/apis/metrics.k8s.io/v1/pods", "", "", ""),
            request("patch", status, "other", "a", "status"),
            request("patch", status, "team", "a", ""),
            request("update", leases, "flyte", "another", ""),
        ];
        assert_eq!(grants.ungranted(&refused).len(), refused.len());
        let unused = ["list pods", "update leases.coordination.k8s.io lock in flyte"];
        assert_eq!(grants.unused(&allowed[1..2]), unused);
    }
}
