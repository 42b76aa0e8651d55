//! Colour: on a terminal, titles are bold and words that say how something is are green, yellow or red.
//!
//! Colour never changes a column's width: it is painted on the aligned text. `--color=never`, `NO_COLOR` and anything but a terminal turn it
//! off, so that what is piped stays byte for byte what a stock kubectl prints.
//!
//! # In Kubernetes
//! Nothing: kubectl has no colour.

const BOLD: &str = "1";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";

/// Whether to paint, from the flag, `NO_COLOR` and what the output is.
pub fn wanted(flag: &str, no_color: bool, terminal: bool) -> bool {
    match flag {
        "always" => true,
        "never" => false,
        _ => terminal && !no_color,
    }
}

/// The colour of a cell; most have none.
fn of(cell: &str) -> Option<&'static str> {
    Some(match cell {
        "Running" | "Active" | "Bound" | "Ready" | "Completed" | "Succeeded" | "Complete" | "True" => GREEN,
        "Pending" | "ContainerCreating" | "PodInitializing" | "Terminating" | "Unknown" | "Warning"
        | "Released" => YELLOW,
        "False" | "Failed" | "Error" | "Evicted" | "NotReady" | "OOMKilled" | "Lost" => RED,
        cell if cell.contains("BackOff") || cell.starts_with("Err") || cell.ends_with("Error") => RED,
        cell if cell.starts_with("Init:") || cell.contains("SchedulingDisabled") => YELLOW,
        cell => {
            // 1/2: not all of them.
            let (have, want) = cell.split_once('/')?;
            let (have, want): (u32, u32) = (have.parse().ok()?, want.parse().ok()?);
            if have < want { YELLOW } else { GREEN }
        }
    })
}

/// Paints an aligned table; `titled` says whether its first line holds the titles.
pub fn paint(table: &str, titled: bool) -> String {
    let paint = |text: &str, code: &str| format!("\u{1b}[{code}m{text}\u{1b}[0m");
    let mut out = String::with_capacity(table.len() * 2);
    for (at, line) in table.lines().enumerate() {
        if titled && at == 0 {
            out += &paint(line.trim_end(), BOLD);
        } else {
            // Cells are three spaces apart; a cell may hold single ones.
            let mut rest = line;
            while let Some(end) = rest.find("   ") {
                let gap = rest[end..].find(|c| c != ' ').map_or(rest.len(), |length| end + length);
                let (cell, space) = (&rest[..end], &rest[end..gap]);
                out += &of(cell).map_or_else(|| cell.to_string(), |code| paint(cell, code));
                out += space;
                rest = &rest[gap..];
            }
            out += &of(rest).map_or_else(|| rest.to_string(), |code| paint(rest, code));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_and_changes_no_width() {
        assert!(wanted("auto", false, true) && !wanted("auto", true, true) && !wanted("auto", false, false));
        assert!(wanted("always", true, false) && !wanted("never", false, true));
        let table = "NAME   READY   STATUS\nweb    0/1     CrashLoopBackOff\ndb     1/1     Running\n";
        let painted = paint(table, true);
        assert!(painted.contains("\u{1b}[31mCrashLoopBackOff\u{1b}[0m") && painted.contains("\u{1b}[32m1/1"));
        let pattern = regex::Regex::new("\u{1b}\\[[0-9]+m").unwrap();
        assert_eq!(pattern.replace_all(&painted, ""), table);
    }
}
