//! Stock helms: a chart with a CRD, a hook and objects of ten kinds, from its installation to its end.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::process::Command;

use super::raw::{Raw, TestCluster, cluster};
use super::stock;

struct Helm {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: tempfile::TempDir,
}

impl Helm {
    fn new(program: &Path, cluster: &TestCluster) -> Self {
        let kubeconfig = cluster.cluster.kubeconfig("admin").unwrap();
        Self { program: program.to_owned(), kubeconfig, home: tempfile::tempdir().unwrap() }
    }

    async fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.args(["-n", "shop"]).args(arguments).current_dir(stock::folder(""));
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", self.home.path());
        let output = command.output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    async fn ok(&self, arguments: &[&str]) -> String {
        let answer = self.run(arguments).await;
        answer.unwrap_or_else(|error| panic!("{} {arguments:?}: {error}", self.program.display()))
    }

    /// Revisions with their statuses and descriptions.
    async fn history(&self) -> Vec<String> {
        let history: Value =
            serde_json::from_str(&self.ok(&["history", "shop", "-o", "json"]).await).unwrap();
        let text = |revision: &Value, field: &str| revision[field].as_str().unwrap_or_default().to_owned();
        let line = |r: &Value| format!("{} {} {}", r["revision"], text(r, "status"), text(r, "description"));
        history.as_array().unwrap().iter().map(line).collect()
    }
}

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/shop";
const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_is_installed_upgraded_rolled_back_and_uninstalled() {
    for (version, program) in stock::programs("helm") {
        let cluster = cluster().await;
        let helm = Helm::new(&program, &cluster);
        println!("helm {version}: {}", helm.ok(&["version", "--template", "{{.Version}}"]).await);
        let mut client = Raw::admin(&cluster);
        installed(&helm, &mut client).await;
        upgraded(&helm, &mut client).await;
        rolled_back(&helm, &mut client).await;
        uninstalled(&helm, &mut client).await;
        cluster.cluster.stop().await;
    }
}

async fn installed(helm: &Helm, client: &mut Raw) {
    let notes = helm.ok(&["install", "shop", "chart", "--create-namespace"]).await;
    assert!(notes.contains("hello from shop"), "{notes}");
    let well = client.get("/apis/helm.example.com/v1/namespaces/shop/wells/shop").await.json();
    assert_eq!(well["spec"]["depth"], 3, "the default of the CRD that came with it: {well}");
    assert_eq!(well["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm");
    let record = client.get("/api/v1/namespaces/shop/secrets/sh.helm.release.v1.shop.v1").await.json();
    assert_eq!(record["type"], "helm.sh/release.v1");
    assert_eq!(helm.history().await, ["1 deployed Install complete"]);
    let again = helm.run(&["install", "shop", "chart"]).await.unwrap_err();
    assert!(again.contains("a name that is still in use"), "{again}");
}

async fn upgraded(helm: &Helm, client: &mut Raw) {
    let values = ["--set", "greeting=ahoy", "--set", "replicas=3", "--set", "extra=true"];
    helm.ok(&[&["upgrade", "shop", "chart"][..], &values].concat()).await;
    let deployment = client.get(DEPLOYMENT).await.json();
    assert_eq!(
        (&deployment["spec"]["replicas"], &deployment["metadata"]["generation"]),
        (&3.into(), &2.into())
    );
    assert_eq!(client.get(&format!("{MAPS}/shop-extra")).await.code, 200);
    let hook = client.get(&format!("{MAPS}/shop-hook")).await.json();
    assert_eq!(hook["data"]["revision"], "2");
    assert_eq!(helm.history().await, ["1 superseded Install complete", "2 deployed Upgrade complete"]);
    let bad =
        helm.run(&["upgrade", "shop", "chart", "--reuse-values", "--set", "replicas=-1"]).await.unwrap_err();
    assert!(bad.contains("must be greater than or equal to 0"), "{bad}");
    assert_eq!(client.get(DEPLOYMENT).await.json()["spec"]["replicas"], 3);
}

async fn rolled_back(helm: &Helm, client: &mut Raw) {
    helm.ok(&["rollback", "shop", "1"]).await;
    let deployment = client.get(DEPLOYMENT).await.json();
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(client.get(&format!("{MAPS}/shop")).await.json()["data"]["greeting"], "hello");
    assert_eq!(client.get(&format!("{MAPS}/shop-extra")).await.code, 404, "what only the upgrade had");
    let history = helm.history().await;
    assert_eq!(history.last().unwrap(), "4 deployed Rollback to 1", "{history:?}");
    assert!(history[2].starts_with("3 failed Upgrade \"shop\" failed: "), "{history:?}");
    let list: Value = serde_json::from_str(&helm.ok(&["list", "-o", "json"]).await).unwrap();
    assert_eq!((&list[0]["name"], &list[0]["revision"]), (&"shop".into(), &"4".into()), "{list}");
    assert!(helm.ok(&["get", "manifest", "shop"]).await.contains("kind: Ingress"));
}

async fn uninstalled(helm: &Helm, client: &mut Raw) {
    helm.ok(&["uninstall", "shop"]).await;
    assert_eq!(helm.ok(&["list", "--short"]).await.trim(), "");
    for path in [DEPLOYMENT, "/apis/helm.example.com/v1/namespaces/shop/wells/shop"] {
        assert_eq!(client.get(path).await.code, 404, "{path}");
    }
    let secrets = client.get("/api/v1/namespaces/shop/secrets").await.json();
    assert_eq!(secrets["items"].as_array().map(Vec::len), Some(0), "no record is left: {secrets}");
    // A hook isn't the release's, nor is a CRD.
    assert_eq!(client.get(&format!("{MAPS}/shop-hook")).await.code, 200);
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/wells.helm.example.com";
    assert_eq!(client.get(definition).await.code, 200);
}
