//! The table that the bench prints.
//!
//! # In Kubernetes
//! No counterpart.

use std::time::Duration;

use super::load::Done;

/// Rows, printed as they come.
pub struct Report;

impl Report {
    /// Prints the table's head.
    pub fn new() -> Self {
        println!("| what | measured | aim |\n|---|---|---|");
        Report
    }

    /// One figure.
    pub fn row(&mut self, what: &str, measured: &str, aim: &str) {
        println!("| {what} | {measured} | {aim} |");
    }

    /// Many requests of a kind.
    pub fn rate(&mut self, what: &str, done: &Done, cpu: Duration, aim: &str) {
        let (rate, p50, p99) = (done.per_second(), done.quantile(0.5), done.quantile(0.99));
        let said = format!(
            "{rate:.0}/s, median {}, p99 {}, {} CPU each",
            milliseconds(p50),
            milliseconds(p99),
            milliseconds(cpu)
        );
        self.row(what, &said, aim);
    }
}

/// A duration as people read it.
pub fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
