//! The desk: labs from the page.
//!
//! The same engine as the command line's, asked with JSON. Its steps take seconds and change the cluster, so one runs at a time, on a thread of
//! its own; whoever comes meanwhile is told so. The lab's id stays here: it would give the stage away.
//!
//! # Invariants
//! 1. One step of a lab at a time.
//! 2. The page never learns a lab's id, its cause or its solution before the learner has earned the debrief.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};
use stage1_kubectl::state_dir::StateDir;

use crate::lab::answer::Answer;
use crate::lab::catalog::Lab;
use crate::lab::cluster::components;
use crate::lab::engine::{Engine, symptoms};
use crate::lab::texts::say;
use crate::lab::{learner, vocabulary};

/// Something to do with a lab.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Deed {
    /// Start one.
    Start {
        /// Its symptom.
        symptom: String,
    },
    /// Give a hint.
    Hint {},
    /// Grade a diagnosis.
    Answer {
        /// 0 to 6.
        stage: u8,
        /// `Deployment/web`.
        object: String,
        /// A word of the vocabulary.
        mechanism: String,
        /// `SUBJECT PATH=VALUE`; empty ones don't count.
        #[serde(default)]
        evidence: Vec<String>,
    },
    /// Grade the repair.
    Verify {},
    /// End it.
    Reset {},
}

/// Reads a deed: its name from the address, the rest from the body.
#[must_use]
pub fn deed(name: &str, body: &[u8]) -> Option<Deed> {
    let body: Value = if body.is_empty() { json!({}) } else { serde_json::from_slice(body).ok()? };
    serde_json::from_value(json!({ name: body })).ok()
}

/// What the page shows: the labs, the one under way, the words of a diagnosis.
///
/// # Errors
/// The catalogue or the learner's files can't be read.
pub fn look(state_dir: &StateDir) -> anyhow::Result<Value> {
    let engine = Engine::new(state_dir.clone());
    let progress = engine.files().progress()?;
    let labs: Vec<Value> = symptoms()?
        .iter()
        .map(|lab| {
            let mut tries = progress.labs.values().filter(|reached| reached.symptom == lab.symptom);
            json!({"symptom": lab.symptom, "title": lab.title, "difficulty": lab.difficulty, "minutes": lab.minutes,
                   "repaired": tries.any(|reached| reached.repaired)})
        })
        .collect();
    let under_way = match engine.files().session()? {
        Some(session) => {
            let lab = Lab::with_seed(&session.lab, session.seed)?;
            json!({"symptom": session.symptom, "brief": lab.brief.trim(), "namespace": lab.namespace(session.seed),
                   "hints": session.hints})
        }
        None => Value::Null,
    };
    let mechanisms: Vec<Value> =
        vocabulary::mechanisms().map(|(word, meaning)| json!({"word": word, "meaning": meaning})).collect();
    let directory = state_dir.root().display();
    Ok(json!({
        "cluster": components::running(state_dir),
        "start": format!("labs cluster --state-dir {directory}"),
        "export": format!("export KUBECONFIG={}", learner::kubeconfig(state_dir).display()),
        "labs": labs,
        "underway": under_way,
        "mechanisms": mechanisms,
    }))
}

/// Does it. Takes seconds: for a thread of its own.
///
/// # Errors
/// In words for the learner.
pub fn act(state_dir: &StateDir, deed: &Deed, seed: u64) -> anyhow::Result<Value> {
    let engine = Engine::new(state_dir.clone());
    match deed {
        Deed::Start { symptom } => {
            // By symptom only: an id would be a way around the search.
            let known = symptoms()?.iter().any(|lab| lab.symptom == *symptom);
            anyhow::ensure!(known, say("start.no-symptom", &[("symptom", symptom)]));
            let started = engine.start(symptom, seed)?;
            Ok(json!({"text": started.brief.trim()}))
        }
        Deed::Hint {} => Ok(json!({"text": engine.hint()?.trim()})),
        Deed::Answer { stage, object, mechanism, evidence } => {
            let evidence: Vec<String> =
                evidence.iter().filter(|text| !text.trim().is_empty()).cloned().collect();
            let answer = Answer::parse(*stage, object.trim(), mechanism, &evidence, &[])?;
            serde_json::to_value(engine.answer(&answer)?).context("write the diagnosis")
        }
        Deed::Verify {} => serde_json::to_value(engine.verify()?).context("write the verdict"),
        Deed::Reset {} => Ok(json!({"text": engine.reset()?})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deed_is_read_strictly() {
        assert_eq!(deed("hint", b""), Some(Deed::Hint {}));
        assert_eq!(deed("start", br#"{"symptom":"x"}"#), Some(Deed::Start { symptom: "x".into() }));
        let answer = deed("answer", br#"{"stage":4,"object":"Pod/x","mechanism":"healthy"}"#);
        assert!(matches!(answer, Some(Deed::Answer { stage: 4, .. })), "{answer:?}");
        for (name, body) in [
            ("start", "{}"),
            ("hint", "[]"),
            ("hint", "{\"x\":1}"),
            ("format", "{}"),
            ("start", "{"),
            ("answer", r#"{"stage":-1}"#),
        ] {
            assert_eq!(deed(name, body.as_bytes()), None, "{name} {body}");
        }
    }

    #[test]
    fn without_a_cluster_the_labs_are_listed_and_a_start_says_what_to_type() {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(Some(dir.path().to_owned())).unwrap();
        let seen = look(&state_dir).unwrap();
        assert_eq!((&seen["cluster"], &seen["underway"]), (&json!(false), &Value::Null));
        assert!(seen["labs"].as_array().unwrap().len() > 8, "{seen}");
        assert!(seen["labs"][0].get("id").is_none() && seen["labs"][0].get("truth").is_none(), "{seen}");
        let symptom = seen["labs"][0]["symptom"].as_str().unwrap().to_owned();
        let refused = act(&state_dir, &Deed::Start { symptom }, 1).unwrap_err().to_string();
        assert!(refused.contains("labs cluster"), "{refused}");
        let by_id = act(&state_dir, &Deed::Start { symptom: "4-B".into() }, 1).unwrap_err().to_string();
        assert_eq!(by_id, "there is no symptom \"4-B\"");
    }
}
