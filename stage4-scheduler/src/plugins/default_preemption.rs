//! DefaultPreemption: make room for a more important pod.
//!
//! No node fits. Would one, if pods of lower priority went? For each node where that can help, take *all*
//! of them off (on paper); if the pod fits then, put back as many as still leave room, the most important
//! first, those under a disruption budget before the others. Who doesn't come back is a *victim*.
//!
//! Among the nodes the choice is: fewest budgets violated, then the lowest highest victim, then the lowest
//! sum, then the fewest victims, then the latest start of the most important victim.
//!
//! The subtle thing: the pod doesn't move in at once. Its victims get their grace period; meanwhile the
//! pod is *nominated* to the node, and others of at most its priority count it there. If a better place
//! turns up earlier, it goes there instead.
//!
//! # Invariants
//! 1. A victim has a lower priority than the pod.
//! 2. Without the victims the pod passes every filter on the node.
//! 3. Putting any one victim back would break a filter (at the moment it was tried).
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`,
//! `pkg/scheduler/framework/preemption/preemption.go`. The calls to extenders are in [`crate::extender`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fit_error::FitError;
use crate::framework::{Code, Status};
use crate::node_info::NodeInfo;
use crate::node_to_status::NodeToStatus;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::schedule_pod::Rules;
use crate::snapshot::Snapshot;

mod candidates;
#[cfg(test)]
mod tests;

pub use candidates::{Candidate, pick_one_node};

/// How many nodes are tried, at most, in a large cluster: finding the very best isn't worth the time.
pub const MIN_CANDIDATE_NODES_PERCENTAGE: usize = 10;
/// But at least so many.
pub const MIN_CANDIDATE_NODES_ABSOLUTE: usize = 100;

/// Evicts pods of lower priority.
#[derive(Clone, Debug)]
pub struct DefaultPreemption {
    /// See [`MIN_CANDIDATE_NODES_PERCENTAGE`].
    pub min_candidate_nodes_percentage: usize,
    /// See [`MIN_CANDIDATE_NODES_ABSOLUTE`].
    pub min_candidate_nodes_absolute: usize,
}

impl Default for DefaultPreemption {
    fn default() -> Self {
        DefaultPreemption {
            min_candidate_nodes_percentage: MIN_CANDIDATE_NODES_PERCENTAGE,
            min_candidate_nodes_absolute: MIN_CANDIDATE_NODES_ABSOLUTE,
        }
    }
}

/// What preemption decided.
#[derive(Clone, Debug, Default)]
pub struct PostFilterResult {
    /// The node to nominate the pod to, and who must go.
    pub nominated: Option<Candidate>,
    /// Why not, as the event shows it.
    pub message: String,
    /// The pod's nomination, if it has one, is void.
    pub clear_nomination: bool,
}

impl PostFilterResult {
    fn refused(message: String, clear_nomination: bool) -> Self {
        PostFilterResult { nominated: None, message: format!("preemption: {message}"), clear_nomination }
    }
}

impl DefaultPreemption {
    /// Looks for the node where evicting pods helps most at the least cost. `offset` is where the search
    /// begins: chance, so that not the same nodes suffer each time.
    pub fn post_filter(
        &self,
        profile: &Profile,
        pod: &PodInfo,
        snapshot: &Snapshot,
        error: &FitError,
        offset: usize,
    ) -> PostFilterResult {
        match self.find_candidates(profile, pod, snapshot, error, offset) {
            Ok(found) => self.conclude(&found, snapshot),
            Err(refusal) => refusal,
        }
    }

    /// The nodes where evicting pods helps, and whom.
    ///
    /// # Errors
    /// There is none: why, as the event shows it.
    pub fn find_candidates(
        &self,
        profile: &Profile,
        pod: &PodInfo,
        snapshot: &Snapshot,
        error: &FitError,
        offset: usize,
    ) -> Result<Vec<Candidate>, PostFilterResult> {
        let rules = Rules::new(profile, pod, snapshot);
        let found = self.find_candidates_by(pod, snapshot, error, offset, &mut |at| {
            Arc::new(match &rules {
                Ok(rules) => select_victims_on_node(rules, pod, &snapshot.nodes()[at], snapshot),
                // A plugin refuses the pod whatever the node: no eviction changes that.
                Err(status) => Err(status.clone()),
            })
        })?;
        Ok(found.iter().filter_map(|outcome| outcome.as_ref().as_ref().ok()).cloned().collect())
    }

    /// Takes the candidate that does the least harm.
    pub fn conclude(&self, found: &[Candidate], snapshot: &Snapshot) -> PostFilterResult {
        match pick_one_node(found.iter()) {
            Some(candidate) => {
                PostFilterResult { nominated: Some(candidate.clone()), ..PostFilterResult::default() }
            }
            None => hopeless(snapshot, NodeToStatus::new(snapshot.names().clone())),
        }
    }

    /// As [`DefaultPreemption::post_filter`]; `dry_run` says what evicting on the node at a position would take,
    /// and may remember what it said.
    pub fn post_filter_by(
        &self,
        pod: &PodInfo,
        snapshot: &Snapshot,
        error: &FitError,
        offset: usize,
        dry_run: &mut dyn FnMut(usize) -> DryRun,
    ) -> PostFilterResult {
        let found = match self.find_candidates_by(pod, snapshot, error, offset, dry_run) {
            Ok(found) => found,
            Err(refusal) => return refusal,
        };
        let best = pick_one_node(found.iter().filter_map(|outcome| outcome.as_ref().as_ref().ok()));
        PostFilterResult { nominated: best.cloned(), ..PostFilterResult::default() }
    }

    // ANCHOR: preempt
    /// The search itself.
    fn find_candidates_by(
        &self,
        pod: &PodInfo,
        snapshot: &Snapshot,
        error: &FitError,
        offset: usize,
        dry_run: &mut dyn FnMut(usize) -> DryRun,
    ) -> Result<Vec<DryRun>, PostFilterResult> {
        if let Some(reason) = not_eligible(pod, snapshot, error) {
            return Err(PostFilterResult::refused(reason.to_owned(), false));
        }
        // Where no eviction helps, none is tried.
        let helps = |status: &Status| status.code == Code::Unschedulable;
        let refused = error.statuses.positions();
        let potential: Vec<usize> = refused.filter(|(_, status)| helps(status)).map(|(at, _)| at).collect();
        let enough = (potential.len() * self.min_candidate_nodes_percentage / 100)
            .max(self.min_candidate_nodes_absolute)
            .min(potential.len());
        let (mut found, mut refused) = (Vec::new(), NodeToStatus::new(snapshot.names().clone()));
        for turn in 0..potential.len() {
            let at = potential[(offset + turn) % potential.len()];
            let outcome = dry_run(at);
            match &*outcome {
                Ok(_) => found.push(outcome),
                Err(status) => refused.push(at, status.clone()),
            }
            if found.len() >= enough {
                break;
            }
        }
        if found.is_empty() { Err(hopeless(snapshot, refused)) } else { Ok(found) }
    }
    // ANCHOR_END: preempt
}

/// What evicting on one node would take, or why it wouldn't help there.
pub type DryRun = Arc<Result<Candidate, Status>>;

fn hopeless(snapshot: &Snapshot, statuses: NodeToStatus) -> PostFilterResult {
    let error = FitError {
        num_all_nodes: snapshot.nodes().len(),
        statuses,
        absent: Status::unresolvable("Preemption is not helpful for scheduling"),
        ..FitError::default()
    };
    PostFilterResult::refused(error.to_string(), true)
}

/// Why the pod may not evict anyone, if so.
fn not_eligible(pod: &PodInfo, snapshot: &Snapshot, error: &FitError) -> Option<&'static str> {
    if pod.spec().preemption_policy.as_deref() == Some("Never") {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    // Room is being made for it already: wait, unless that node has become impossible.
    let nominated = pod.nominated_node_name()?;
    let mut refused = error.statuses.iter();
    let status = refused.find(|(name, _)| &***name == nominated).map(|(_, status)| status.code);
    if status == Some(Code::UnschedulableAndUnresolvable) {
        return None;
    }
    let leaving = |other: &Arc<PodInfo>| other.priority < pod.priority && terminating_by_preemption(other);
    let node = snapshot.get(nominated)?;
    node.pods.iter().any(leaving).then_some("not eligible due to a terminating pod on the nominated node.")
}

/// Is the pod on its way out because a scheduler evicted it? A pod that ends for another reason is no promise of room.
fn terminating_by_preemption(pod: &PodInfo) -> bool {
    let conditions = pod.pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let target = conditions.into_iter().flatten().find(|condition| condition.type_ == "DisruptionTarget");
    pod.is_terminating()
        && target.is_some_and(|condition| {
            condition.status == "True" && condition.reason.as_deref() == Some("PreemptionByScheduler")
        })
}

/// More important: higher priority, then longer running.
pub(crate) fn more_important(a: &PodInfo, b: &PodInfo) -> std::cmp::Ordering {
    let started = |pod: &PodInfo| pod.start_time().unwrap_or(jiff::Timestamp::MAX);
    b.priority.cmp(&a.priority).then_with(|| started(a).cmp(&started(b))).then_with(|| a.key.cmp(&b.key))
}

// ANCHOR: select-victims
/// Who must go from this node for the pod to fit; as few and as unimportant as possible.
pub(crate) fn select_victims_on_node(
    rules: &Rules<'_>,
    pod: &PodInfo,
    node: &Arc<NodeInfo>,
    snapshot: &Snapshot,
) -> Result<Candidate, Status> {
    let mut potential: Vec<Arc<PodInfo>> =
        node.pods.iter().filter(|other| other.priority < pod.priority).cloned().collect();
    if potential.is_empty() {
        return Err(Status::unresolvable("No preemption victims found for incoming pod"));
    }
    potential.sort_by(|a, b| more_important(a, b));
    let mut remaining = (**node).clone();
    potential.iter().for_each(|other| {
        remaining.remove_pod(&other.uid);
    });
    let nominated = snapshot.nominated_to(&node.name);
    let status = rules.check_with_nominated(pod, &remaining, nominated, &potential);
    if !status.is_success() {
        return Err(status);
    }
    let (violating, others) = by_budget(&potential, snapshot);
    let mut removed = potential;
    let (mut victims, mut violations) = (Vec::new(), 0);
    let protected = violating.len();
    for (at, other) in violating.into_iter().chain(others).enumerate() {
        let place = removed.iter().position(|candidate| candidate.uid == other.uid);
        let kept = removed.swap_remove(place.expect("every potential victim was removed before"));
        remaining.add_pod(kept.clone());
        if !rules.check_with_nominated(pod, &remaining, nominated, &removed).is_success() {
            remaining.remove_pod(&kept.uid);
            removed.push(kept);
            victims.push(other);
            violations += usize::from(at < protected);
        }
    }
    victims.sort_by(|a, b| more_important(a, b));
    Ok(Candidate::new(node.name.clone(), victims, violations))
}
// ANCHOR_END: select-victims

/// Splits pods into those whose eviction would violate a budget and the others, order kept.
fn by_budget(pods: &[Arc<PodInfo>], snapshot: &Snapshot) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let budgets: BTreeMap<_, _> = snapshot.listers.budgets.iter().collect();
    let allowed = |budget: &crate::listers::Budget| {
        budget.object.status.as_ref().map_or(0, |status| status.disruptions_allowed)
    };
    let mut left: Vec<i32> = budgets.values().map(|budget| allowed(budget)).collect();
    let (mut violating, mut others) = (Vec::new(), Vec::new());
    for pod in pods {
        let mut violates = false;
        for (budget, left) in budgets.values().zip(&mut left) {
            let same = budget.object.metadata.namespace.as_deref().unwrap_or("") == pod.namespace();
            if !same
                || pod.labels().is_empty()
                || budget.selector.is_empty()
                || !budget.selector.matches(pod.labels())
            {
                continue;
            }
            // Already on its way out, and counted.
            let disrupted = budget.object.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
            if disrupted.is_some_and(|pods| pods.contains_key(pod.name())) {
                continue;
            }
            *left -= 1;
            violates |= *left < 0;
        }
        if violates { violating.push(pod.clone()) } else { others.push(pod.clone()) }
    }
    (violating, others)
}
