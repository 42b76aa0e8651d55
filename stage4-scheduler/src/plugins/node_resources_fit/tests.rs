//! Tests of the grades and of what is missing.

use super::*;

#[test]
fn least_allocated_and_most_allocated_are_opposites() {
    assert_eq!(ScoringStrategy::LeastAllocated.grade(1000, 4000), 75);
    assert_eq!(ScoringStrategy::MostAllocated.grade(1000, 4000), 25);
    assert_eq!(ScoringStrategy::LeastAllocated.grade(5000, 4000), 0);
    assert_eq!(ScoringStrategy::MostAllocated.grade(5000, 4000), 100);
}

#[test]
fn the_ratio_follows_the_curve() {
    let packing = ScoringStrategy::RequestedToCapacityRatio(vec![(0, 0), (50, 8), (100, 10)]);
    assert_eq!([0, 25, 50, 75, 100].map(|used| packing.grade(used, 100)), [0, 40, 80, 90, 100]);
}

#[test]
fn every_missing_resource_is_a_reason() {
    let node = NodeInfo::new("empty");
    let mut wanted =
        Resource { cpu_millis: 1, memory_bytes: 1, ephemeral_storage_bytes: 1, ..Resource::default() };
    wanted.scalar.insert("example.com/gpu".to_owned(), 1);
    assert_eq!(
        insufficient(&wanted, &node, |_| false),
        [
            "Too many pods",
            "Insufficient cpu",
            "Insufficient memory",
            "Insufficient ephemeral-storage",
            "Insufficient example.com/gpu"
        ]
    );
}
