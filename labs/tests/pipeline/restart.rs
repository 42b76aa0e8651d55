//! Stop and start again, by Ctrl-C and by `kill -9`: nothing that was acknowledged is lost, the state converges.

use crate::cluster::{Pipeline, skip};

const MANIFEST: &str = include_str!("../../src/demo/web.yaml");

#[test]
fn everything_is_back_after_a_stop_and_after_a_crash() {
    if skip() {
        return;
    }
    for store in ["etcd", "embedded"] {
        println!("== store: {store}");
        let args = ["--store", store];
        let mut pipeline = Pipeline::start(&args);
        pipeline.apply(MANIFEST);
        pipeline.rolled_out("web");
        let addresses =
            || pipeline.get("services", "{.items[*].spec.clusterIP} {.items[*].spec.ports[0].nodePort}");
        let before = (addresses(), pipeline.get("deployment web", "{.metadata.uid}"));

        pipeline.stop_and_restart(&args);
        check(&pipeline, &before);
        pipeline.crash_and_restart(&args);
        check(&pipeline, &before);
        pipeline.stop();
    }
}

fn check(pipeline: &Pipeline, before: &(String, String)) {
    pipeline.rolled_out("web");
    let addresses = pipeline.get("services", "{.items[*].spec.clusterIP} {.items[*].spec.ports[0].nodePort}");
    assert_eq!((addresses, pipeline.get("deployment web", "{.metadata.uid}")), *before);
    let cluster_ip = pipeline.get("service web", "{.spec.clusterIP}");
    let pod = pipeline.get("pods -l app=web", "{.items[0].metadata.name}");
    pipeline.wait("the Service answers again", || {
        pipeline.run(&["exec", &pod, "--", "wget", "-qO-", &format!("http://{cluster_ip}/")]).status.success()
    });
}
