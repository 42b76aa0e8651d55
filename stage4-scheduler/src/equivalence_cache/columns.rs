//! Columns: what the rules about one node said, one row per node.
//!
//! A rule about one node (does it fit? is the taint tolerated?) is a function of the pod and that node. So its answer
//! stands until the node changes. Kept are: which refusal the node got, if any (a number: there are few different ones), the weighted
//! sum of those scores that are final, and the raw scores of rules that compare the nodes before they grade ("the
//! highest becomes 100").
//!
//! # In Kubernetes
//! Nothing like it since 1.11.

use crate::framework::{Depends, Normalize, PreScore, Scorer, Status, normalize_proportionally};
use crate::node_to_status::{Kind, kind_of};
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::schedule_pod::Rules;
use crate::snapshot::Snapshot;

/// The answers.
#[derive(Default)]
pub(super) struct Columns {
    /// The different refusals.
    pub(super) kinds: Vec<Status>,
    /// By node: 0 if no rule objects, else one more than the number of the refusal.
    pub(super) refusals: Vec<Kind>,
    /// By node: sum of score × weight of rules whose scores are final.
    pub(super) fixed: Vec<i64>,
    /// Rules whose scores must be brought into proportion first.
    pub(super) raw: Vec<Raw>,
}

/// Raw scores of one rule.
pub(super) struct Raw {
    /// Position in the profile's scores.
    pub(super) plugin: usize,
    reverse: bool,
    scores: Vec<i64>,
    nonzero: usize,
}

impl Raw {
    /// The scores of these nodes, 0 to 100.
    pub(super) fn normalized(&self, nodes: &[u32]) -> Vec<i64> {
        let mut scores: Vec<i64> = nodes.iter().map(|at| self.scores[*at as usize]).collect();
        normalize_proportionally(&mut scores, self.reverse);
        scores
    }

    /// True if no node has any points: then all get the same.
    pub(super) fn says_nothing(&self) -> bool {
        self.nonzero == 0
    }

    /// What each node gets in that case.
    pub(super) fn nothing(&self) -> i64 {
        let mut scores = [0];
        normalize_proportionally(&mut scores, self.reverse);
        scores[0]
    }
}

/// The scorer of each of the profile's plugins that grades nodes one by one.
pub(super) fn scorers<'a>(
    profile: &'a Profile,
    pod: &'a PodInfo,
    snapshot: &'a Snapshot,
) -> Vec<Option<Scorer<'a>>> {
    let scorer = |plugin: &'a crate::profile::SharedPlugin| match plugin.depends(pod) {
        Depends::Node => match plugin.pre_score(pod, snapshot, &[]) {
            PreScore::Run(scorer) => Some(scorer),
            PreScore::Skip => None,
        },
        _ => None,
    };
    profile.scores.iter().map(|(plugin, _)| scorer(plugin)).collect()
}

impl Columns {
    /// Empty columns of the right length.
    pub(super) fn reset(&mut self, profile: &Profile, pod: &PodInfo, snapshot: &Snapshot) {
        let nodes = snapshot.nodes().len();
        self.kinds.clear();
        self.refusals = vec![0; nodes];
        self.fixed = vec![0; nodes];
        self.raw.clear();
        for (plugin, scorer) in scorers(profile, pod, snapshot).into_iter().enumerate() {
            if let Some(Scorer { normalize: Normalize::Proportional { reverse }, .. }) = scorer {
                self.raw.push(Raw { plugin, reverse, scores: vec![0; nodes], nonzero: 0 });
            }
        }
    }

    /// Asks the rules about these nodes.
    pub(super) fn ask(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        snapshot: &Snapshot,
        rules: &Rules<'_>,
        nodes: impl Iterator<Item = u32>,
    ) {
        let scorers = scorers(profile, pod, snapshot);
        for at in nodes.map(|at| at as usize) {
            let node = &snapshot.nodes()[at];
            let nominated = snapshot.nominated_to(&node.name);
            let status = rules.check_with_nominated(pod, node, nominated, &[]);
            self.refusals[at] = if status.is_success() { 0 } else { kind_of(&mut self.kinds, status) + 1 };
            self.fixed[at] = 0;
            for (scorer, (_, weight)) in scorers.iter().zip(&profile.scores) {
                if let Some(Scorer { score, normalize: Normalize::Already }) = scorer {
                    self.fixed[at] += weight * score(node);
                }
            }
            for raw in &mut self.raw {
                let score = scorers[raw.plugin].as_ref().map_or(0, |scorer| (scorer.score)(node));
                let before = std::mem::replace(&mut raw.scores[at], score);
                raw.nonzero = raw.nonzero + usize::from(score != 0) - usize::from(before != 0);
            }
        }
    }
}
