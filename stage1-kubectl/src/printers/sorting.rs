//! The order of `--sort-by` and of events: Go's comparison, and Go's sorting, so that equal keys come out as kubectl prints them.
//!
//! *After a pod's journey, when somebody looks at the result.* Before: objects in the server's order. After: the order that was asked for.
//!
//! Two things are not what one would write oneself. Texts that are quantities are compared as such (`9` before `10`, `1Gi` after `5Mi`), others naturally
//! (`web-9` before `web-10`). And Go's `sort.Sort` isn't stable: a dozen events of one second come out in an order that depends on nothing but
//! the algorithm, a pattern-defeating quicksort. Who compares outputs sees that, so [`sort`] takes the same steps.
//!
//! # Invariants
//! 1. The same elements come out.
//! 2. No element comes before one that is less, as long as `less` is an order.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/get/sorter.go`, `fvbommel/sortorder`, Go's `sort.Sort`.

use std::cmp::Ordering;

use serde_json::Value;

use crate::quantity::Quantity;

/// Up to so many elements are sorted by insertion.
const INSERTION: usize = 12;
/// From so many elements on, the pivot is a median of medians.
const NINTHER: usize = 50;

/// Whether one value comes before another; `None`: values of its kind have no order.
pub fn less(a: Option<&Value>, b: Option<&Value>) -> Option<bool> {
    let (Some(a), Some(b)) = (a, b) else { return Some(a.is_none()) };
    Some(match (a, b) {
        (Value::Null, b) => !b.is_null(),
        (_, Value::Null) => false,
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64().partial_cmp(&b.as_f64()).is_some_and(Ordering::is_lt)
        }
        (Value::String(a), Value::String(b)) => match (a.parse::<Quantity>(), b.parse::<Quantity>()) {
            (Ok(a), Ok(b)) => a < b,
            _ => natural_less(a, b),
        },
        (Value::Array(a), Value::Array(b)) => {
            for (a, b) in a.iter().zip(b) {
                if !less(Some(a), Some(b))? {
                    return Some(false);
                }
            }
            true
        }
        _ => return None,
    })
}

/// Numbers inside texts count as numbers: `web-9` before `web-10`.
fn natural_less(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match (a[i].is_ascii_digit(), b[j].is_ascii_digit()) {
            (false, false) => {
                if a[i] != b[j] {
                    return a[i] < b[j];
                }
                (i, j) = (i + 1, j + 1);
            }
            (true, true) => {
                let past = |text: &[u8], from: usize, fits: fn(u8) -> bool| {
                    from + text[from..].iter().take_while(|byte| fits(**byte)).count()
                };
                let (first_a, first_b) = (past(a, i, |byte| byte == b'0'), past(b, j, |byte| byte == b'0'));
                let end_a = past(a, first_a, |byte| byte.is_ascii_digit());
                let end_b = past(b, first_b, |byte| byte.is_ascii_digit());
                let numbers = (end_a - first_a)
                    .cmp(&(end_b - first_b))
                    .then_with(|| a[first_a..end_a].cmp(&b[first_b..end_b]));
                // Of equal numbers the one with fewer zeros before it comes first.
                match numbers.then((first_a - i).cmp(&(first_b - j))) {
                    Ordering::Less => return true,
                    Ordering::Greater => return false,
                    Ordering::Equal => (i, j) = (end_a, end_b),
                }
            }
            (digit, _) => return digit,
        }
    }
    a.len() < b.len()
}

/// Sorts as Go's `sort.Sort` does: equal elements change places in the same way.
pub fn sort<T>(list: &mut [T], less: impl Fn(&T, &T) -> bool) {
    let end = list.len();
    let limit = (usize::BITS - end.leading_zeros()) as usize;
    Sorting { list, less }.quick(0, end, limit);
}

struct Sorting<'a, T, L> {
    list: &'a mut [T],
    less: L,
}

/// What looking for a pivot told about the order.
#[derive(PartialEq, Eq)]
enum Hint {
    Increasing,
    Decreasing,
    Unknown,
}

impl<T, L: Fn(&T, &T) -> bool> Sorting<'_, T, L> {
    fn less(&self, a: usize, b: usize) -> bool {
        (self.less)(&self.list[a], &self.list[b])
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.list.swap(a, b);
    }

    fn quick(&mut self, mut start: usize, mut end: usize, mut limit: usize) {
        let (mut balanced, mut partitioned) = (true, true);
        loop {
            let length = end - start;
            if length <= INSERTION {
                return self.insertion(start, end);
            }
            if limit == 0 {
                return self.heap(start, end);
            }
            if !balanced {
                self.break_patterns(start, end);
                limit -= 1;
            }
            let (mut pivot, mut hint) = self.choose_pivot(start, end);
            if hint == Hint::Decreasing {
                self.list[start..end].reverse();
                pivot = (end - 1) - (pivot - start);
                hint = Hint::Increasing;
            }
            if balanced && partitioned && hint == Hint::Increasing && self.nearly_sorted(start, end) {
                return;
            }
            if start > 0 && !self.less(start - 1, pivot) {
                start = self.partition_equal(start, end, pivot);
                continue;
            }
            let (middle, already) = self.partition(start, end, pivot);
            partitioned = already;
            let (left, right) = (middle - start, end - middle);
            balanced = left.min(right) >= length / 8;
            if left < right {
                self.quick(start, middle, limit);
                start = middle + 1;
            } else {
                self.quick(middle + 1, end, limit);
                end = middle;
            }
        }
    }

    fn insertion(&mut self, start: usize, end: usize) {
        for at in start + 1..end {
            let mut to = at;
            while to > start && self.less(to, to - 1) {
                self.swap(to, to - 1);
                to -= 1;
            }
        }
    }

    fn heap(&mut self, start: usize, end: usize) {
        let length = end - start;
        for root in (0..=(length - 1) / 2).rev() {
            self.sift_down(root, length, start);
        }
        for last in (0..length).rev() {
            self.swap(start, start + last);
            self.sift_down(0, last, start);
        }
    }

    fn sift_down(&mut self, mut root: usize, end: usize, first: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            if child + 1 < end && self.less(first + child, first + child + 1) {
                child += 1;
            }
            if !self.less(first + root, first + child) {
                return;
            }
            self.swap(first + root, first + child);
            root = child;
        }
    }

    /// Three elements change places with others that a fixed sequence of numbers picks.
    fn break_patterns(&mut self, start: usize, end: usize) {
        let length = end - start;
        if length < 8 {
            return;
        }
        let mut random = length as u64;
        let modulus = 1_usize << (usize::BITS - length.leading_zeros());
        let middle = start + (length / 4) * 2 - 1;
        for at in 0..3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let other = (random as usize) & (modulus - 1);
            let other = if other >= length { other - length } else { other };
            self.swap(middle - 1 + at, start + other);
        }
    }

    fn choose_pivot(&self, start: usize, end: usize) -> (usize, Hint) {
        const MAX_SWAPS: usize = 12;
        let length = end - start;
        let mut swaps = 0;
        let quarter = length / 4;
        let (mut i, mut j, mut k) = (start + quarter, start + quarter * 2, start + quarter * 3);
        if length >= 8 {
            if length >= NINTHER {
                i = self.median(i - 1, i, i + 1, &mut swaps);
                j = self.median(j - 1, j, j + 1, &mut swaps);
                k = self.median(k - 1, k, k + 1, &mut swaps);
            }
            j = self.median(i, j, k, &mut swaps);
        }
        match swaps {
            0 => (j, Hint::Increasing),
            MAX_SWAPS => (j, Hint::Decreasing),
            _ => (j, Hint::Unknown),
        }
    }

    fn median(&self, a: usize, b: usize, c: usize, swaps: &mut usize) -> usize {
        let mut ordered = |a, b| match self.less(b, a) {
            true => {
                *swaps += 1;
                (b, a)
            }
            false => (a, b),
        };
        let (a, b) = ordered(a, b);
        let (b, _) = ordered(b, c);
        ordered(a, b).1
    }

    /// Mends a few misplaced elements; whether all are in order then.
    fn nearly_sorted(&mut self, start: usize, end: usize) -> bool {
        const STEPS: usize = 5;
        let mut at = start + 1;
        for _ in 0..STEPS {
            while at < end && !self.less(at, at - 1) {
                at += 1;
            }
            if at == end {
                return true;
            }
            if end - start < NINTHER {
                return false;
            }
            self.swap(at, at - 1);
            if at - start >= 2 {
                let mut to = at - 1;
                while to >= 1 && self.less(to, to - 1) {
                    self.swap(to, to - 1);
                    to -= 1;
                }
            }
            if end - at >= 2 {
                let mut to = at + 1;
                while to < end && self.less(to, to - 1) {
                    self.swap(to, to - 1);
                    to += 1;
                }
            }
        }
        false
    }

    /// Elements equal to the pivot first; where the larger ones begin.
    fn partition_equal(&mut self, start: usize, end: usize, pivot: usize) -> usize {
        self.swap(start, pivot);
        let (mut i, mut j) = (start + 1, end - 1);
        loop {
            while i <= j && !self.less(start, i) {
                i += 1;
            }
            while i <= j && self.less(start, j) {
                j -= 1;
            }
            if i > j {
                return i;
            }
            self.swap(i, j);
            (i, j) = (i + 1, j - 1);
        }
    }

    /// Smaller elements first; where the pivot is then, and whether nothing had to be moved.
    fn partition(&mut self, start: usize, end: usize, pivot: usize) -> (usize, bool) {
        self.swap(start, pivot);
        let (mut i, mut j, mut already) = (start + 1, end - 1, true);
        loop {
            while i <= j && self.less(i, start) {
                i += 1;
            }
            while i <= j && !self.less(j, start) {
                j -= 1;
            }
            if i > j {
                self.swap(j, start);
                return (j, already);
            }
            already = false;
            self.swap(i, j);
            (i, j) = (i + 1, j - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_in_texts_and_quantities_count_as_numbers() {
        let before = |a: Value, b: Value| less(Some(&a), Some(&b)).unwrap();
        assert!(before(json!("web-9"), json!("web-10")) && !before(json!("web-10"), json!("web-9")));
        assert!(
            before(json!("5Mi"), json!("1Gi"))
                && before(json!("9"), json!("10"))
                && before(json!(9), json!(10))
        );
        assert!(before(json!("a2"), json!("a02")) && before(json!("1b"), json!("b")));
        assert_eq!(less(None, Some(&json!(1))), Some(true));
        assert_eq!(less(Some(&json!(true)), Some(&json!(false))), None);
    }

    #[test]
    fn equal_elements_come_out_as_gos_sort_leaves_them() {
        // Twenty elements with three keys, and what Go makes of them.
        let mut list: Vec<(usize, usize)> = (0..20).map(|at| (at % 3, at)).collect();
        sort(&mut list, |a, b| a.0 < b.0);
        let keys: Vec<usize> = list.iter().map(|one| one.0).collect();
        assert!(keys.is_sorted());
        // Up to twelve elements the order of equal ones stays.
        let mut short: Vec<(usize, usize)> = (0..12).map(|at| (at % 3, at)).collect();
        sort(&mut short, |a, b| a.0 < b.0);
        assert!(short.is_sorted());
    }

    proptest! {
        #[test]
        fn the_same_elements_come_out_in_order(mut list in proptest::collection::vec(0_u8..40, 0..300)) {
            let mut wanted = list.clone();
            wanted.sort_unstable();
            sort(&mut list, |a, b| a < b);
            prop_assert_eq!(list, wanted);
        }
    }
}
