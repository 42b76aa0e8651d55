//! Tables: an explanation and a simulation as text for people.
//!
//! # In Kubernetes
//! The form is kubectl's: columns in capitals, three spaces between them.

use super::Explanation;

/// Nodes that are shown unless all are asked for.
const SHOWN: usize = 20;

/// Rows under a header, padded to columns.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|at| width(at).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let missing = width - cell.chars().count();
            line.push_str(cell);
            line.push_str(&" ".repeat(missing + 3));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The explanation as text; `wide` shows every node.
pub fn explanation(explanation: &Explanation, wide: bool) -> String {
    let decision = &explanation.decision;
    let feasible = explanation.nodes.iter().filter(|node| node.feasible).count();
    let mut text = format!("Pod {} (priority {}): ", explanation.pod, explanation.priority);
    match &decision.node {
        Some(node) => text.push_str(&format!("goes to {node}\n")),
        None => text.push_str(&format!("{}\n", decision.message)),
    }
    if let Some(node) = &decision.nominated_node_name {
        text.push_str(&format!("Room can be made on {node}: evicts {}\n", decision.victims.join(", ")));
    }
    if let Some(refused) = &explanation.refused {
        text.push_str(&format!(
            "Refused on every node by {}: {}\n",
            refused.plugin,
            refused.reasons.join(", ")
        ));
        return text;
    }
    text.push_str(&format!("{feasible} of {} nodes can take it\n\n", explanation.nodes.len()));
    let mut rows = vec![["NODE", "FITS", "TOTAL", "WHY"].map(str::to_owned).to_vec()];
    let shown = if wide { explanation.nodes.len() } else { SHOWN };
    for node in explanation.nodes.iter().take(shown) {
        if node.feasible {
            let scores: Vec<String> = node
                .scores
                .iter()
                .map(|score| format!("{} {}×{}", score.plugin, score.score, score.weight))
                .collect();
            let total = node.total.map_or_else(String::new, |total| total.to_string());
            rows.push(vec![node.name.clone(), "yes".to_owned(), total, scores.join(" + ")]);
            continue;
        }
        for (at, objection) in node.objections.iter().enumerate() {
            let mut why = format!("{}: {}", objection.plugin, objection.reasons.join(", "));
            if let Some(details) = &objection.details {
                why.push_str(&format!(" ({details})"));
            }
            let (name, fits) = if at == 0 { (node.name.clone(), "no") } else { (String::new(), "") };
            rows.push(vec![name, fits.to_owned(), String::new(), why]);
        }
    }
    text.push_str(&columns(&rows));
    if explanation.nodes.len() > shown {
        text.push_str(&format!(
            "... and {} more nodes (-o wide shows all)\n",
            explanation.nodes.len() - shown
        ));
    }
    text
}
