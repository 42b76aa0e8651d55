//! Match conditions: expressions that must all be true for a webhook or a policy to be asked at all.
//!
//! Selectors choose by labels; conditions by whatever the request says: everybody but the nodes, only what changes `spec`. One that is false
//! decides, whatever others fail with: who isn't meant shouldn't suffer from a mistake in the rest.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go`. Left out: metrics of conditions.

use serde_json::Value;

use super::expression::{Activation, Expression};

/// The conditions of a webhook or policy.
pub fn read(list: Option<&Value>) -> Vec<Expression> {
    let conditions = list.and_then(Value::as_array).into_iter().flatten();
    conditions.map(|condition| Expression::new(condition["expression"].as_str().unwrap_or(""))).collect()
}

/// Whether all conditions hold.
///
/// # Errors
/// None is false, and these can't be evaluated.
pub fn hold(conditions: &[Expression], activation: &mut Activation<'_>) -> Result<bool, String> {
    let mut failed: Vec<String> = Vec::new();
    for condition in conditions {
        match activation.evaluate(condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Ok(_) => {}
            Err(why) if failed.contains(&why) => {}
            Err(why) => failed.push(why),
        }
    }
    match failed.as_slice() {
        [] => Ok(true),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}
