//! Walk: the decision, from columns and sums.
//!
//! The same three steps as [`crate::schedule_pod`], filter, score, select, in the same order of nodes, so that also ties and the end of
//! the search are the same. A node costs a look at its row and, if rules about the cluster have a say, a look at its domain's sum.
//!
//! # In Kubernetes
//! `pkg/scheduler/schedule_one.go` (`findNodesThatPassFilters`, `prioritizeNodes`).

use super::affinity;
use super::class::Class;
use super::columns::{Raw, scorers};
use super::domains::Topologies;
use super::spreading;
use crate::fit_error::FitError;
use crate::framework::{Code, Depends, Normalize, Status};
use crate::node_to_status::{Kind, NodeToStatus};
use crate::plugins::inter_pod_affinity::{ERR_AFFINITY, ERR_ANTI_AFFINITY, ERR_EXISTING_ANTI_AFFINITY};
use crate::plugins::pod_topology_spread::{ERR_REASON, ERR_REASON_LABEL};
use crate::profile::Profile;
use crate::schedule_pod::{NodeScore, ScheduleResult, select_hosts};
use crate::snapshot::Snapshot;

/// A rule about the cluster, in the profile's order.
enum Around<'c> {
    Spread(spreading::Verdict<'c>),
    Affinity(affinity::Verdict<'c>),
}

/// Refusals by rules about the cluster, numbered from the first that the columns don't use.
fn refusals_around() -> [Status; 5] {
    let (spread, affinity) = ("PodTopologySpread", "InterPodAffinity");
    [
        Status::unresolvable(ERR_REASON_LABEL).by(spread),
        Status::unschedulable(ERR_REASON).by(spread),
        Status::unresolvable(ERR_AFFINITY).by(affinity),
        Status::unschedulable(ERR_ANTI_AFFINITY).by(affinity),
        Status::unschedulable(ERR_EXISTING_ANTI_AFFINITY).by(affinity),
    ]
}

impl Around<'_> {
    fn check(&self, at: usize) -> Option<Kind> {
        match self {
            Around::Spread(verdict) => verdict.check(at).map(|objection| match objection {
                spreading::Objection::MissingLabel => 0,
                spreading::Objection::Skew => 1,
            }),
            Around::Affinity(verdict) => verdict.check(at).map(|objection| match objection {
                affinity::Objection::Affinity => 2,
                affinity::Objection::AntiAffinity => 3,
                affinity::Objection::Existing => 4,
            }),
        }
    }
}

/// The decision for the next pod of a class that is up to date.
pub(super) fn decide(
    class: &Class,
    topologies: &Topologies,
    profile: &Profile,
    snapshot: &Snapshot,
    tie_breaker: u64,
) -> Result<ScheduleResult, FitError> {
    let (feasible, refused) = filter(class, topologies, profile, snapshot);
    if feasible.is_empty() {
        let absent = Status { code: Code::UnschedulableAndUnresolvable, ..Status::default() };
        let num_all_nodes = snapshot.nodes().len();
        return Err(FitError { num_all_nodes, statuses: refused, absent, ..FitError::default() });
    }
    let top = match feasible.len() {
        1 => Vec::new(), // nothing to compare
        _ => score(class, topologies, profile, snapshot, &feasible, tie_breaker),
    };
    let first = &snapshot.names()[feasible[0] as usize];
    Ok(ScheduleResult {
        suggested_host: top.first().map_or(first, |best| &best.node).clone(),
        evaluated_nodes: feasible.len() + refused.len(),
        feasible_nodes: feasible.len(),
        top,
        refused,
    })
}

fn filter(
    class: &Class,
    topologies: &Topologies,
    profile: &Profile,
    snapshot: &Snapshot,
) -> (Vec<u32>, NodeToStatus) {
    let around: Vec<Around<'_>> = (profile.filters.iter())
        .filter_map(|plugin| match plugin.depends(&class.pod) {
            Depends::Spread(_) if class.spread.has_hard() => {
                Some(Around::Spread(class.spread.verdict(topologies)))
            }
            Depends::Affinity(_) if class.affinity.filters() => {
                Some(Around::Affinity(class.affinity.verdict(topologies)))
            }
            _ => None,
        })
        .collect();
    let nodes = snapshot.nodes().len();
    let enough = profile.nodes_to_score.enough(nodes);
    let start = snapshot.start_node_index.min(nodes);
    let rows = &class.columns.refusals;
    let from = Kind::try_from(class.columns.kinds.len()).expect("reasons are combinations of a few texts");
    let (mut feasible, mut refused) = (Vec::with_capacity(enough), Vec::new());
    'search: for range in [start..nodes, 0..start] {
        for (at, &row) in range.clone().zip(&rows[range]) {
            let number = u32::try_from(at).expect("a position in a list of nodes");
            let refusal = match row {
                0 => around.iter().find_map(|rule| rule.check(at)).map(|kind| from + kind),
                kind => Some(kind - 1),
            };
            match refusal {
                Some(kind) => refused.push((number, kind)),
                None => feasible.push(number),
            }
            if feasible.len() >= enough {
                break 'search;
            }
        }
    }
    if refused.is_empty() {
        return (feasible, NodeToStatus::default());
    }
    let kinds = class.columns.kinds.iter().cloned().chain(refusals_around()).collect();
    (feasible, NodeToStatus::of(snapshot.names().clone(), kinds, refused))
}

/// The normalised scores of one rule.
enum Grades {
    /// Added up already; asked again for the few nodes that are shown.
    Fixed,
    Same(i64),
    Each(Vec<i64>),
}

fn score(
    class: &Class,
    topologies: &Topologies,
    profile: &Profile,
    snapshot: &Snapshot,
    feasible: &[u32],
    tie_breaker: u64,
) -> Vec<NodeScore> {
    let scorers = scorers(profile, &class.pod, snapshot);
    let raw = |plugin: usize| -> Option<&Raw> { class.columns.raw.iter().find(|raw| raw.plugin == plugin) };
    let grades = |plugin: usize| match profile.scores[plugin].0.depends(&class.pod) {
        Depends::Spread(_) if class.spread.has_soft() => {
            Some(Grades::Each(class.spread.scores(topologies, feasible)))
        }
        Depends::Affinity(_) if class.affinity.has_scores() => {
            Some(Grades::Each(class.affinity.scores(topologies, feasible)))
        }
        Depends::Node => match raw(plugin) {
            Some(raw) if raw.says_nothing() => Some(Grades::Same(raw.nothing())),
            Some(raw) => Some(Grades::Each(raw.normalized(feasible))),
            None => scorers[plugin].as_ref().map(|_| Grades::Fixed),
        },
        _ => None,
    };
    let table: Vec<(usize, Grades)> = (0..scorers.len()).filter_map(|at| Some((at, grades(at)?))).collect();
    let mut totals: Vec<i64> = feasible.iter().map(|at| class.columns.fixed[*at as usize]).collect();
    let mut same = 0;
    for (plugin, grades) in &table {
        let weight = profile.scores[*plugin].1;
        match grades {
            Grades::Fixed => {}
            Grades::Same(score) => same += weight * score,
            Grades::Each(scores) => {
                totals.iter_mut().zip(scores).for_each(|(total, score)| *total += weight * score)
            }
        }
    }
    let shown = |row: usize| {
        let node = &snapshot.nodes()[feasible[row] as usize];
        let score = |(plugin, grades): &(usize, Grades)| {
            let score = match (grades, &scorers[*plugin]) {
                (Grades::Fixed, Some(scorer)) if matches!(scorer.normalize, Normalize::Already) => {
                    (scorer.score)(node)
                }
                (Grades::Fixed, _) => 0,
                (Grades::Same(score), _) => *score,
                (Grades::Each(scores), _) => scores[row],
            };
            let (plugin, weight) = &profile.scores[*plugin];
            (plugin.name(), score, *weight)
        };
        let plugins = table.iter().map(score).collect();
        NodeScore { node: node.name.clone(), total: totals[row] + same, plugins }
    };
    select_hosts(&totals, tie_breaker).into_iter().map(shown).collect()
}
