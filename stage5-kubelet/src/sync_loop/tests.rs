//! Tests of the loop's table: who is wanted after a restart of the kubelet.

use super::*;
use crate::cri::SharedRuntime;
use crate::cri::sim::Sim;
use crate::options::Config;
use crate::sync_pod::PodMemory;
use serde_json::json;
use stage1_kubectl::client::{Client, ClientConfig};
use stage3_controllers::reflector::Delta;

fn pod(uid: &str) -> Arc<Pod> {
    let meta = json!({"name": uid, "namespace": "default", "uid": uid, "resourceVersion": "1"});
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    Arc::new(serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap())
}

/// A kubelet that begins on a runtime in which these pods run since an earlier one.
async fn restarted(root: &std::path::Path, running: &[Arc<Pod>]) -> SyncLoop {
    let runtime: SharedRuntime = Arc::new(Sim::new());
    let config = Config::new("n", "127.0.0.1".parse().unwrap(), root.to_path_buf());
    let client = Client::new(ClientConfig::new("http://127.0.0.1:9")).unwrap();
    let kubelet =
        Arc::new(Kubelet::new(config.clone(), client.clone(), runtime.clone(), mpsc::unbounded_channel().0));
    for pod in running {
        let (mut memory, stop) = (PodMemory::default(), CancellationToken::new());
        while kubelet.sync_pod(pod, &mut memory, &stop).await.again {}
    }
    SyncLoop {
        kubelet: Arc::new(Kubelet::new(config, client, runtime, mpsc::unbounded_channel().0)),
        workers: HashMap::new(),
        rejected: HashMap::new(),
        removing: HashSet::new(),
        snapshot: Snapshot::default(),
        shutdown: CancellationToken::new(),
    }
}

#[tokio::test]
async fn a_running_pod_of_the_list_is_wanted_before_its_event_is_handled() {
    let root = tempfile::tempdir().unwrap();
    let (first, second, stranger) = (pod("first"), pod("second"), pod("stranger"));
    let mut this = restarted(root.path(), &[first.clone(), second.clone(), stranger]).await;
    this.relist().await;
    this.clean_up_pods();
    assert_eq!(this.removing, HashSet::new(), "nothing is removed before the list is complete");
    this.kubelet.pods.apply(Delta::Replace(vec![first.clone(), second.clone()], "1".to_owned()));
    this.handle_pod(Event::Added(first));
    this.clean_up_pods();
    assert_eq!(this.removing, HashSet::from(["stranger".to_owned()]), "the second one's event still waits");
    this.handle_pod(Event::Added(second));
    assert_eq!(this.workers.len(), 2);
    this.shutdown.cancel();
}
