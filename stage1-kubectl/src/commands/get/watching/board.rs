//! `get -w` on a terminal: one row an object, drawn again where it stands.
//!
//! A line for each event is right for a pipe. Somebody who looks at a screen wants to know how things are now, so there the table is drawn
//! over the one before. What doesn't fit on the screen can't be drawn over; then a line for each event is printed as everywhere.
//!
//! # Invariants
//! 1. Rows stay in the order in which their objects came; a deleted object's row goes.
//! 2. No more than the lines of the last drawing are drawn over.
//!
//! # In Kubernetes
//! Nothing: `kubectl get -w` appends, `watch kubectl get` starts anew each time.

use crate::printers::table;

/// The rows that are shown.
#[derive(Debug, Default)]
pub(super) struct Board {
    titles: Option<Vec<String>>,
    rows: Vec<(String, Vec<String>)>,
    /// So many lines stand on the screen.
    drawn: usize,
}

impl Board {
    /// The titles of the columns.
    pub(super) fn titled(&mut self, titles: Vec<String>) {
        self.titles = Some(titles);
    }

    /// An object's row as it is now; `gone` when the object is deleted.
    pub(super) fn change(&mut self, object: &str, row: Vec<String>, gone: bool) {
        match self.rows.iter().position(|(known, _)| known == object) {
            Some(at) if gone => drop(self.rows.remove(at)),
            Some(at) => self.rows[at].1 = row,
            None if gone => {}
            None => self.rows.push((object.to_owned(), row)),
        }
    }

    /// What brings the screen to the present state: how many lines to go up, and the table. Nothing when it doesn't fit.
    pub(super) fn draw(&mut self, width: usize, height: usize) -> Option<(usize, String)> {
        let lines: Vec<Vec<String>> =
            self.titles.iter().cloned().chain(self.rows.iter().map(|(_, row)| row.clone())).collect();
        let text = table::align(&lines);
        // The cursor needs a line of its own, and a line that is broken is two.
        let broken = text.lines().any(|line| line.chars().count() >= width);
        if broken || lines.len() >= height || self.drawn >= height {
            return None;
        }
        let up = std::mem::replace(&mut self.drawn, lines.len());
        Some((up, text))
    }

    /// Whether there are titles.
    pub(super) fn has_titles(&self) -> bool {
        self.titles.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_drawn_again_in_its_place_and_goes_with_its_object() {
        let row = |cells: [&str; 2]| cells.map(String::from).to_vec();
        let mut board = Board::default();
        board.titled(row(["NAME", "STATUS"]));
        board.change("a", row(["a", "Pending"]), false);
        board.change("b", row(["b", "Running"]), false);
        let first = "NAME   STATUS\na      Pending\nb      Running\n".to_string();
        assert_eq!(board.draw(80, 10), Some((0, first)));
        board.change("a", row(["a", "Running"]), false);
        assert_eq!(
            board.draw(80, 10),
            Some((3, "NAME   STATUS\na      Running\nb      Running\n".to_string()))
        );
        board.change("a", row(["a", "Running"]), true);
        board.change("c", row(["c", "Running"]), true);
        assert_eq!(board.draw(80, 10), Some((3, "NAME   STATUS\nb      Running\n".to_string())));
        assert_eq!(board.draw(80, 2), None, "two lines and the cursor need three");
        assert_eq!(board.draw(12, 10), None, "a line would be broken");
    }
}
