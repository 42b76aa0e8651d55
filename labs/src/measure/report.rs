//! The report: samples to a table and to JSON.
//!
//! A figure is a list of samples. One number would hide what matters on a busy machine, so the table shows the median, the
//! smallest and the largest; whoever compares two runs compares medians and sees how much they mean.
//!
//! # Invariants
//! 1. A figure without an aim is never called met or missed.
//! 2. Table and JSON come from the same values.
//!
//! # In Kubernetes
//! `test/e2e/framework/metrics`, `perf-tests`: latency summaries as JSON. Left out: percentiles, which need more samples.

use serde_json::{Value, json};

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// A factor.
    Ratio,
    /// Per cent of one core.
    PercentOfACore,
    /// Mebibytes.
    Mebibytes,
}

/// One thing that was measured.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What.
    pub name: String,
    /// In which unit.
    pub unit: Unit,
    /// What it should stay below.
    pub aim: Option<f64>,
    /// Every sample that counts.
    pub samples: Vec<f64>,
}

impl Unit {
    fn word(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Ratio => "×",
            Unit::PercentOfACore => "% of a core",
            Unit::Mebibytes => "MiB",
        }
    }

    /// Enough digits to see a difference, not more.
    fn show(self, value: f64) -> String {
        match self {
            Unit::Mebibytes => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        }
    }
}

impl Figure {
    /// A figure without samples yet.
    pub fn new(name: impl Into<String>, unit: Unit, aim: Option<f64>) -> Self {
        Figure { name: name.into(), unit, aim, samples: Vec::new() }
    }

    /// The middle sample; the mean of the two middle ones where there is no middle.
    pub fn median(&self) -> Option<f64> {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            odd if odd % 2 == 1 => Some(sorted[middle]),
            _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        }
    }

    fn lowest(&self) -> f64 {
        self.samples.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn highest(&self) -> f64 {
        self.samples.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    fn verdict(&self) -> &'static str {
        match (self.aim, self.median()) {
            (Some(aim), Some(median)) if median <= aim => "met",
            (Some(_), Some(_)) => "missed",
            _ => "",
        }
    }
}

/// The figures as a table for people.
pub fn table(figures: &[Figure]) -> String {
    let heads = ["what", "median", "lowest", "highest", "n", "aim", ""].map(str::to_owned);
    let rows = figures.iter().map(|figure| {
        let show = |value: f64| figure.unit.show(value);
        let (median, spread) = match figure.median() {
            Some(median) => (
                format!("{} {}", show(median), figure.unit.word()),
                [figure.lowest(), figure.highest()].map(show),
            ),
            None => ("not measured".to_owned(), [String::new(), String::new()]),
        };
        let [lowest, highest] = spread;
        let aim = figure.aim.map(|aim| format!("≤ {}", show(aim))).unwrap_or_default();
        let count = figure.samples.len().to_string();
        [figure.name.clone(), median, lowest, highest, count, aim, figure.verdict().to_owned()]
    });
    let rows: Vec<_> = std::iter::once(heads).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            // Words to the left, numbers to the right.
            0 | 6 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// The figures as JSON for programs: `{"figures": [{"name", "unit", "median", "samples", …}]}`.
pub fn to_json(figures: &[Figure], machine: &Value) -> Value {
    let figures: Vec<Value> = figures
        .iter()
        .map(|figure| {
            json!({
                "name": figure.name,
                "unit": figure.unit.word(),
                "aim": figure.aim,
                "median": figure.median(),
                "samples": figure.samples,
            })
        })
        .collect();
    json!({"machine": machine, "figures": figures})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(aim: Option<f64>, samples: &[f64]) -> Figure {
        Figure { samples: samples.to_vec(), ..Figure::new("start", Unit::Seconds, aim) }
    }

    #[test]
    fn the_median_is_the_middle_and_one_slow_round_does_not_move_it() {
        assert_eq!(figure(None, &[9.0, 1.0, 2.0]).median(), Some(2.0));
        assert_eq!(figure(None, &[4.0, 1.0, 2.0, 9.0]).median(), Some(3.0));
        assert_eq!(figure(None, &[]).median(), None);
    }

    #[test]
    fn an_aim_is_met_or_missed_by_the_median_and_without_one_nothing_is_claimed() {
        assert_eq!(figure(Some(2.0), &[1.0, 2.0, 9.0]).verdict(), "met");
        assert_eq!(figure(Some(1.9), &[1.0, 2.0, 9.0]).verdict(), "missed");
        assert_eq!(figure(None, &[1.0]).verdict(), "");
        assert_eq!(figure(Some(1.0), &[]).verdict(), "");
    }

    #[test]
    fn table_and_json_tell_the_same() {
        let figures = [figure(Some(3.0), &[1.25, 1.5, 2.0]), figure(None, &[])];
        let expected = "\
what         median  lowest  highest  n     aim
start        1.50 s    1.25     2.00  3  ≤ 3.00  met
start  not measured                   0
";
        assert_eq!(table(&figures), expected);
        let json = to_json(&figures, &json!({"cpus": 2}));
        assert_eq!(json["figures"][0]["median"], 1.5);
        assert_eq!(json["figures"][0]["samples"], json!([1.25, 1.5, 2.0]));
        assert_eq!(json["figures"][1]["median"], Value::Null);
        assert_eq!(json["machine"]["cpus"], 2);
    }
}
