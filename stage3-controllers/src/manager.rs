//! Manager: all controllers in one process, on shared copies.
//!
//! *Step 1 of stage 3.* Before: the binary read its flags. After: each enabled controller runs in tasks of its own.
//!
//! Controllers know nothing of each other. They meet in the API server only, which is why they can be stopped, replaced and tested one
//! by one; what they share here is the watches ([`InformerFactory`]) and the queue of events.
//!
//! # Invariants
//! 1. A controller that is not enabled starts no watch.
//!
//! # In Kubernetes
//! `cmd/kube-controller-manager/app/controllermanager.go` (`NewControllerDescriptors`). Left out: binding and attaching of volumes, certificate signing, cloud.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use stage1_kubectl::client::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::cluster_role_aggregation::ClusterRoleAggregation;
use crate::controller::{self, Controller};
use crate::cron_job::CronJobController;
use crate::daemon_set::DaemonSetController;
use crate::deployment::DeploymentController;
use crate::disruption::DisruptionController;
use crate::endpoint_slice::EndpointSliceController;
use crate::endpoint_slice::mirroring::EndpointSliceMirroringController;
use crate::endpoints::EndpointsController;
use crate::events::EventRecorder;
use crate::executor::Executor;
use crate::informer::factory::InformerFactory;
use crate::job::JobController;
use crate::node_ipam::NodeIpam;
use crate::node_lifecycle::{NodeTaints, monitor};
use crate::options::Config;
use crate::pod_gc::PodGarbageCollector;
use crate::replica_set::ReplicaSetController;
use crate::resource_quota::ResourceQuotaController;
use crate::root_ca_publisher::RootCaPublisher;
use crate::service_account::ServiceAccountController;
use crate::stateful_set::StatefulSetController;
use crate::taint_eviction::TaintEviction;
use crate::ttl_after_finished::TtlAfterFinished;
use crate::volume_protection::{ClaimProtection, VolumeProtection};
use crate::{garbage_collector, namespace};

/// The process' shared parts, handed to each controller.
struct Manager {
    client: Client,
    factory: InformerFactory,
    recorder: EventRecorder,
    config: Config,
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
}

impl Manager {
    fn executor(&self, component: &str) -> Executor {
        Executor::new(self.client.clone(), self.recorder.for_component(component))
    }

    /// Starts a controller, if it is enabled. `component` is its name in events.
    fn start<C: Controller>(
        &mut self,
        component: &str,
        workers: usize,
        new: impl FnOnce(&InformerFactory) -> C,
    ) {
        if !self.config.is_enabled(C::NAME, true) {
            return;
        }
        let controller = Arc::new(new(&self.factory));
        let executor = self.executor(component);
        self.tasks.spawn(controller::run(
            controller,
            self.factory.clone(),
            executor,
            workers,
            self.shutdown.clone(),
        ));
    }
}

/// Runs every enabled controller until `shutdown`.
pub async fn run(client: Client, config: Config, factory: InformerFactory, shutdown: CancellationToken) {
    let recorder = EventRecorder::new(client.clone(), "kube-controller-manager", None);
    let mut manager =
        Manager { client, factory, recorder, config, shutdown: shutdown.clone(), tasks: JoinSet::new() };
    start_workloads(&mut manager);
    start_services(&mut manager);
    start_nodes(&mut manager);
    start_housekeeping(&mut manager);
    info!(controllers = manager.tasks.len(), "Started controllers");
    shutdown.cancelled().await;
    while manager.tasks.join_next().await.is_some() {}
}

fn start_workloads(manager: &mut Manager) {
    let flags = manager.config.flags.clone();
    manager.start("deployment-controller", flags.concurrent_deployment_syncs, DeploymentController::new);
    manager.start("replicaset-controller", flags.concurrent_replicaset_syncs, ReplicaSetController::new);
    manager.start("job-controller", flags.concurrent_job_syncs, JobController::new);
    manager.start("cronjob-controller", 5, CronJobController::new);
    manager.start("daemonset-controller", flags.concurrent_daemonset_syncs, DaemonSetController::new);
    manager.start("statefulset-controller", flags.concurrent_statefulset_syncs, StatefulSetController::new);
    manager.start("ttl-after-finished-controller", 1, TtlAfterFinished::new);
    manager.start("controllermanager", 1, DisruptionController::new);
}

fn start_services(manager: &mut Manager) {
    let flags = manager.config.flags.clone();
    manager.start(
        "endpoint-slice-controller",
        flags.concurrent_service_endpoint_syncs,
        EndpointSliceController::new,
    );
    manager.start("endpoint-slice-mirroring-controller", 2, EndpointSliceMirroringController::new);
    manager.start("endpoint-controller", flags.concurrent_endpoint_syncs, EndpointsController::new);
}

fn start_nodes(manager: &mut Manager) {
    manager.start("node-controller", 4, NodeTaints::new);
    if manager.config.is_enabled(NodeTaints::NAME, true) {
        let (executor, periods) = (manager.executor("node-controller"), manager.config.periods);
        manager.tasks.spawn(monitor::run(
            manager.factory.clone(),
            executor,
            periods,
            manager.shutdown.clone(),
        ));
    }
    manager.start("taint-eviction-controller", 8, TaintEviction::new);
    if let Some(set) = manager.config.node_cidrs {
        manager.start("cidrAllocator", 1, |factory| NodeIpam::new(factory, set));
    }
    let threshold = manager.config.flags.terminated_pod_gc_threshold;
    manager.start("pod-garbage-collector", 1, |factory| PodGarbageCollector::new(factory, threshold));
}

fn start_housekeeping(manager: &mut Manager) {
    manager.start("serviceaccount-controller", 1, ServiceAccountController::new);
    if let Some(root_ca) = manager.config.root_ca.clone() {
        manager.start("root-ca-cert-publisher", 1, |factory| RootCaPublisher::new(factory, &root_ca));
    }
    manager.start("resourcequota-controller", 5, ResourceQuotaController::new);
    manager.start("pvc-protection-controller", 1, ClaimProtection::new);
    manager.start("pv-protection-controller", 1, VolumeProtection::new);
    manager.start("clusterrole-aggregation-controller", 5, ClusterRoleAggregation::new);
    let flags = manager.config.flags.clone();
    if manager.config.is_enabled("namespace-controller", true) {
        let executor = manager.executor("namespace-controller");
        manager.tasks.spawn(namespace::run(
            manager.factory.clone(),
            executor,
            flags.concurrent_namespace_syncs,
            manager.shutdown.clone(),
        ));
    }
    if manager.config.is_enabled("garbage-collector-controller", true) {
        let rediscover = Arc::new(tokio::sync::Notify::new());
        manager.tasks.spawn(watch_custom_kinds(
            manager.factory.clone(),
            rediscover.clone(),
            manager.shutdown.clone(),
        ));
        let executor = manager.executor("garbage-collector-controller");
        manager.tasks.spawn(garbage_collector::run(
            executor,
            flags.concurrent_gc_syncs,
            rediscover,
            manager.shutdown.clone(),
        ));
    }
}

/// Tells the garbage collector when custom kinds come, change or go.
async fn watch_custom_kinds(
    factory: InformerFactory,
    rediscover: Arc<tokio::sync::Notify>,
    shutdown: CancellationToken,
) {
    let mut subscription = factory.store::<CustomResourceDefinition>().subscribe();
    loop {
        tokio::select! {
            event = subscription.next() => if event.is_none() { return },
            () = shutdown.cancelled() => return,
        }
        rediscover.notify_one();
    }
}
