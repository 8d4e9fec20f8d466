//! The kubeconfig with which clients find the server.

/// A kubeconfig with one cluster, one user and one context; all three have the name `sandbox`.
pub(crate) fn render(url: &str, token: &str) -> String {
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         current-context: sandbox\n\
         clusters:\n\
         - name: sandbox\n\
         \x20 cluster:\n\
         \x20   server: {url}\n\
         users:\n\
         - name: sandbox\n\
         \x20 user:\n\
         \x20   token: \"{token}\"\n\
         contexts:\n\
         - name: sandbox\n\
         \x20 context:\n\
         \x20   cluster: sandbox\n\
         \x20   user: sandbox\n\
         \x20   namespace: default\n"
    )
}
