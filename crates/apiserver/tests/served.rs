//! The server over HTTP: only requests with the token are served.
#![allow(clippy::unwrap_used, clippy::panic)]

use aileron_apiserver::{ApiServer, Options};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

#[tokio::test]
async fn only_requests_with_the_token_of_the_kubeconfig_are_served() {
    let server = ApiServer::new(Options::default());
    let token = server.new_token();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = server.serve(listener, &token);

    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig(address, &token)).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(Client::try_from(config).unwrap());
    assert_eq!(namespaces.list(&ListParams::default()).await.unwrap().items.len(), 4);

    let client = reqwest::Client::new();
    let code = async |path: &str, given: &str| {
        let request = client.get(format!("http://{address}{path}")).header("authorization", given);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(code("/api/v1/namespaces", &format!("Bearer {token}")).await, 200);
    assert_eq!(code(&format!("/{token}/api/v1/namespaces?limit=1"), "").await, 200);
    assert_eq!(code("/api/v1/namespaces", "").await, 401);
    assert_eq!(code("/api/v1/namespaces", "Bearer other").await, 401);
    assert_eq!(code("/other/api/v1/namespaces", "").await, 401);
    assert_eq!(code("/healthz", "").await, 200);
    serving.abort();
}
