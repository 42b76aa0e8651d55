//! Priority levels: shares, queues and what doesn't fit together.
//!
//! # In Kubernetes
//! `ValidatePriorityLevelConfiguration` in `pkg/apis/flowcontrol/validation/validation.go`. Left out: that `exempt` and `catch-all` keep the
//! fixed values that they have from the start.

use serde_json::Value;

use super::fields::{child, has, int, opt_int, text};
use super::{Errors, FieldError, field};

/// Most queues of a level.
const MAX_QUEUES: i64 = 10_000_000;
/// Bits of a flow's hash; choosing a hand of queues may not need more.
const MAX_HASH_BITS: f64 = 60.0;

/// PriorityLevelConfiguration.
pub fn priority_level_configuration(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    let (kind, is_exempt) = (text(spec, "type"), text(child(value, "metadata"), "name") == "exempt");
    if is_exempt != (kind == "Exempt") {
        let why = "type must be 'Exempt' if and only if name is 'exempt'";
        errors.push(FieldError::invalid("spec.type", kind, why));
    }
    match kind {
        "Exempt" => {
            if has(spec, "limited") {
                errors.push(FieldError::forbidden("spec.limited", "must be nil if the type is not Limited"));
            }
            shares(&mut errors, child(spec, "exempt"), "spec.exempt");
        }
        "Limited" => {
            if has(spec, "exempt") {
                errors.push(FieldError::forbidden("spec.exempt", "must be nil if the type is Limited"));
            }
            match has(spec, "limited") {
                true => limited(&mut errors, child(spec, "limited")),
                false => errors
                    .push(FieldError::required("spec.limited", "must not be empty when type is Limited")),
            }
        }
        other => errors.push(FieldError::not_supported("spec.type", other, &["Exempt", "Limited"])),
    }
    errors
}

fn lendable(errors: &mut Errors, value: &Value, path: &str) {
    if let Some(percent) = opt_int(value, "lendablePercent").filter(|percent| !(0..=100).contains(percent)) {
        let why = "must be between 0 and 100, inclusive";
        errors.push(FieldError::invalid(field(path, "lendablePercent"), percent, why));
    }
}

fn shares(errors: &mut Errors, value: &Value, path: &str) {
    let shares = int(value, "nominalConcurrencyShares");
    if shares < 0 {
        let why = "must be a non-negative integer";
        errors.push(FieldError::invalid(field(path, "nominalConcurrencyShares"), shares, why));
    }
    if path == "spec.exempt" {
        lendable(errors, value, path);
    }
}

fn limited(errors: &mut Errors, value: &Value) {
    let path = "spec.limited";
    shares(errors, value, path);
    let (response, at) = (child(value, "limitResponse"), field(path, "limitResponse"));
    let queuing = field(&at, "queuing");
    match (text(response, "type"), has(response, "queuing")) {
        ("Reject", true) => {
            let why = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(FieldError::forbidden(&queuing, why));
        }
        ("Reject", false) => {}
        ("Queue", true) => queues(errors, child(response, "queuing"), &queuing),
        ("Queue", false) => {
            let why = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(FieldError::required(&queuing, why));
        }
        (other, _) => errors.push(FieldError::not_supported(field(&at, "type"), other, &["Queue", "Reject"])),
    }
    lendable(errors, value, path);
    if let Some(percent) = opt_int(value, "borrowingLimitPercent").filter(|percent| *percent < 0) {
        let why = "if specified, must be a non-negative integer";
        errors.push(FieldError::invalid(field(path, "borrowingLimitPercent"), percent, why));
    }
}

fn queues(errors: &mut Errors, queuing: &Value, path: &str) {
    let (length, queues, hand) =
        (int(queuing, "queueLengthLimit"), int(queuing, "queues"), int(queuing, "handSize"));
    let mut positive = |name: &str, value: i64| {
        if value <= 0 {
            errors.push(FieldError::invalid(field(path, name), value, "must be positive"));
        }
    };
    positive("queueLengthLimit", length);
    positive("queues", queues);
    if queues > MAX_QUEUES {
        let why = format!("must not be greater than {MAX_QUEUES}");
        errors.push(FieldError::invalid(field(path, "queues"), queues, why));
    }
    if hand <= 0 {
        errors.push(FieldError::invalid(field(path, "handSize"), hand, "must be positive"));
    }
    if hand > queues {
        let why = format!("should not be greater than queues ({queues})");
        errors.push(FieldError::invalid(field(path, "handSize"), hand, why));
    } else if entropy_bits(queues, hand) > MAX_HASH_BITS {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_HASH_BITS}"
        );
        errors.push(FieldError::invalid(field(path, "handSize"), hand, why));
    }
}

/// Bits that choose a hand out of a deck.
#[expect(clippy::cast_precision_loss, reason = "a deck has at most ten million cards")]
fn entropy_bits(deck: i64, hand: i64) -> f64 {
    // Each card beyond the first has one less to choose from; 61 cards of two are too many anyhow.
    (0..hand.min(61)).map(|taken| ((deck - taken) as f64).log2()).sum::<f64>().ceil()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(name: &str, spec: Value) -> Vec<String> {
        let value = json!({ "metadata": { "name": name }, "spec": spec });
        priority_level_configuration(&value).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn shares_and_queues_must_be_possible() {
        let level = |limited: Value| said("l", json!({ "type": "Limited", "limited": limited }));
        let reject = json!({ "type": "Reject" });
        assert!(level(json!({ "nominalConcurrencyShares": 0, "limitResponse": reject })).is_empty());
        assert_eq!(
            level(
                json!({ "nominalConcurrencyShares": -1, "lendablePercent": 101, "borrowingLimitPercent": -1, "limitResponse": reject })
            ),
            [
                "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
                "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
                "spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer",
            ]
        );
        let queuing =
            |queuing: Value| level(json!({ "limitResponse": { "type": "Queue", "queuing": queuing } }));
        assert!(queuing(json!({ "queues": 64, "handSize": 8, "queueLengthLimit": 50 })).is_empty());
        assert_eq!(
            queuing(json!({ "queues": 4, "handSize": 8, "queueLengthLimit": 0 })),
            [
                "spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: 0: must be positive",
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 8: should not be greater than queues (4)",
            ]
        );
        let many = queuing(json!({ "queues": 10_000, "handSize": 8, "queueLengthLimit": 1 }));
        let why = "required entropy bits of deckSize 10000 and handSize 8 should not be greater than 60";
        assert_eq!(many, [format!("spec.limited.limitResponse.queuing.handSize: Invalid value: 8: {why}")]);
    }

    #[test]
    fn only_exempt_is_exempt() {
        let why = "type must be 'Exempt' if and only if name is 'exempt'";
        assert_eq!(
            said("l", json!({ "type": "Exempt" })),
            [format!("spec.type: Invalid value: \"Exempt\": {why}")]
        );
        assert!(
            said("exempt", json!({ "type": "Exempt", "exempt": { "nominalConcurrencyShares": 0 } }))
                .is_empty()
        );
    }
}
