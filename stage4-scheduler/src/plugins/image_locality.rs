//! ImageLocality: a node that already has the images starts the pod sooner.
//!
//! The score grows with the size of the images that the node has. An image that only one node has counts
//! for little, or all replicas would land there; small images (under 23 MB) count for nothing.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/imagelocality/image_locality.go`. Left out: image volumes.

use crate::framework::{Depends, MAX_NODE_SCORE, Plugin, PreScore, Scorer};
use crate::node_info::NodeInfo;
use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

const MB: i64 = 1024 * 1024;
/// Below this an image is pulled so quickly that it doesn't matter.
const MIN_THRESHOLD: i64 = 23 * MB;
/// Per container: above this more makes no difference.
const MAX_CONTAINER_THRESHOLD: i64 = 1000 * MB;

/// Prefers nodes that have the pod's images.
pub struct ImageLocality;

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn depends(&self, _pod: &PodInfo) -> Depends<'_> {
        Depends::Node
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        snapshot: &'a Snapshot,
        _feasible: &[&NodeInfo],
    ) -> PreScore<'a> {
        let total = snapshot.nodes().len() as f64;
        // Share of the nodes that have the image, per image of the pod.
        let spread: Vec<(&str, f64)> = pod
            .images
            .iter()
            .filter_map(|image| Some((image.as_str(), *snapshot.image_nodes.get(image)? as f64 / total)))
            .collect();
        if spread.is_empty() {
            return PreScore::Skip;
        }
        let max = MAX_CONTAINER_THRESHOLD * pod.images.len() as i64;
        Scorer::plain(move |node| {
            let images = node.object.as_ref().map(|object| &object.images);
            let sum: i64 = spread
                .iter()
                .filter_map(|(image, share)| Some((*images?.get(*image)? as f64 * share) as i64))
                .sum();
            MAX_NODE_SCORE * (sum.clamp(MIN_THRESHOLD, max) - MIN_THRESHOLD) / (max - MIN_THRESHOLD)
        })
    }
}
