//! Runs the operator in the cluster that the kubeconfig or the pod's service account names. `batch-operator crd` prints the
//! definition of its kind instead.

use aileron_plugin_batch::BatchJob;
use kube::CustomResourceExt as _;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("crd") {
        print!("{}", serde_saphyr::to_string(&BatchJob::crd())?);
        return Ok(());
    }
    tracing_subscriber::fmt::init();
    batch_operator::run(kube::Client::try_default().await?).await;
    Ok(())
}
