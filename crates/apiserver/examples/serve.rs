//! Serves an empty cluster on loopback and prints a kubeconfig for it.
//!
//! `cargo run -p aileron-apiserver --example serve > kubeconfig & kubectl --kubeconfig kubeconfig get namespaces`

use aileron_apiserver::{ApiServer, Options};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let server = ApiServer::new(Options::default());
    let token = server.new_token();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", server.kubeconfig(listener.local_addr()?, &token));
    server.serve(listener, &token).await.map_err(std::io::Error::other)?
}
