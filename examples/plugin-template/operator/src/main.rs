//! Runs the operator in the cluster that the kubeconfig or the pod's service account names.

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt::init();
    batch_operator::run(kube::Client::try_default().await?).await;
    Ok(())
}
