use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn seen(id: &str, started: bool) -> Observed {
    Observed { container_id: id.into(), running: true, started_at: at(0), started }
}

fn probe() -> Probe {
    Probe {
        failure_threshold: Some(2),
        success_threshold: Some(1),
        initial_delay_seconds: Some(5),
        ..Probe::default()
    }
}

#[test]
fn a_new_container_starts_from_the_initial_result() {
    let mut s = ProbeState::default();
    let first = |k: ProbeKind, s: &mut ProbeState| s.tick(k, &probe(), Some(&seen("a", true)), at(9));
    assert_eq!(first(ProbeKind::Liveness, &mut s), Tick::Set(ProbeResult::Success));
    assert_eq!(first(ProbeKind::Liveness, &mut s), Tick::Ask);
    assert_eq!(
        s.tick(ProbeKind::Readiness, &probe(), Some(&seen("b", true)), at(9)),
        Tick::Set(ProbeResult::Failure)
    );
}

#[test]
fn nothing_is_asked_during_the_initial_delay_and_before_startup_succeeded() {
    let mut s = ProbeState { container_id: "a".into(), ..ProbeState::default() };
    assert_eq!(s.tick(ProbeKind::Liveness, &probe(), Some(&seen("a", true)), at(4)), Tick::Idle);
    assert_eq!(s.tick(ProbeKind::Liveness, &probe(), Some(&seen("a", false)), at(6)), Tick::Idle);
    assert_eq!(s.tick(ProbeKind::Startup, &probe(), Some(&seen("a", false)), at(6)), Tick::Ask);
    assert_eq!(s.tick(ProbeKind::Startup, &probe(), Some(&seen("a", true)), at(6)), Tick::Idle);
}

#[test]
fn a_result_needs_the_threshold_in_a_row() {
    let mut s = ProbeState { container_id: "a".into(), ..ProbeState::default() };
    let bad = Answer::Failure("x".into());
    let k = ProbeKind::Readiness;
    assert_eq!(s.heard(k, &probe(), &bad), None);
    assert_eq!(s.heard(k, &probe(), &Answer::Success), Some(ProbeResult::Success));
    assert_eq!(s.heard(k, &probe(), &bad), None);
    assert_eq!(s.heard(k, &probe(), &Answer::Errored("e".into())), None);
    assert_eq!(s.heard(k, &probe(), &bad), Some(ProbeResult::Failure));
}

#[test]
fn a_failed_liveness_probe_holds_until_the_container_is_replaced() {
    let mut s = ProbeState { container_id: "a".into(), ..ProbeState::default() };
    let k = ProbeKind::Liveness;
    s.heard(k, &probe(), &Answer::Failure(String::new()));
    assert_eq!(s.heard(k, &probe(), &Answer::Failure(String::new())), Some(ProbeResult::Failure));
    assert_eq!(s.tick(k, &probe(), Some(&seen("a", true)), at(9)), Tick::Idle);
    assert_eq!(s.tick(k, &probe(), Some(&seen("b", true)), at(9)), Tick::Set(ProbeResult::Success));
}
