//! Classify: which flow a request belongs to, and how many seats its level has.
//!
//! Schemas are asked in the order of their precedence; the first with a rule for this user and this request decides. Seats are
//! divided by shares: a level with 40 of 245 shares has 40/245 of all seats, and at least one. A level with no shares at all has no seats:
//! a jail, whose requests wait until somebody gives it some.
//!
//! # In Kubernetes
//! `apiserver/pkg/util/flowcontrol/{rule,apf_controller}.go`.

use serde_json::Value;
use stage1_kubectl::object::Object;

use crate::authentication::UserInfo;
use crate::authentication::service_account::split_username;
use crate::request_info::RequestInfo;

/// Shares of a level that doesn't say.
const DEFAULT_SHARES: i64 = 30;
/// Requests of a flow that may wait, when a level doesn't say.
const DEFAULT_QUEUE_LENGTH: i64 = 50;

/// What limits a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Nothing.
    Exempt,
    /// Seats by shares, and a queue for each flow.
    Seats {
        /// Its part of all seats.
        shares: u64,
        /// Requests of one flow that may wait; 0: nobody may.
        queue_length: usize,
    },
}

/// A priority level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelConfig {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// What limits it.
    pub limit: Limit,
    /// Requests that may run at a time.
    pub seats: usize,
}

#[derive(Debug, Clone)]
struct Schema {
    name: String,
    uid: String,
    level: usize,
    precedence: i64,
    distinguisher: String,
    rules: Vec<Value>,
}

/// All schemas and levels.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The levels.
    pub levels: Vec<LevelConfig>,
    schemas: Vec<Schema>,
}

/// Where a request belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow<'a> {
    /// The level.
    pub level: &'a LevelConfig,
    /// The schema's name.
    pub schema: String,
    /// The schema's uid.
    pub schema_uid: String,
    /// Requests with the same one share a queue.
    pub distinguisher: String,
}

impl Config {
    /// Reads FlowSchemas and PriorityLevelConfigurations; `seats` are to be divided.
    pub fn read(schemas: &[&Object], levels: &[&Object], seats: usize) -> Config {
        let mut levels: Vec<LevelConfig> = levels.iter().map(|object| level(object)).collect();
        let shares = |limit: Limit| if let Limit::Seats { shares, .. } = limit { shares } else { 0 };
        let all: u64 = levels.iter().map(|level| shares(level.limit)).sum();
        for level in &mut levels {
            let part = (seats as u64 * shares(level.limit)).div_ceil(all.max(1));
            level.seats = usize::try_from(part).unwrap_or(usize::MAX);
        }
        let mut schemas: Vec<Schema> = schemas.iter().filter_map(|object| schema(object, &levels)).collect();
        schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        Config { levels, schemas }
    }

    /// The flow of a request; `None` while there are no schemas.
    pub fn classify(&self, user: &UserInfo, info: &RequestInfo) -> Option<Flow<'_>> {
        let schema = self.schemas.iter().find(|s| s.rules.iter().any(|rule| rule_fits(rule, user, info)))?;
        let by = match schema.distinguisher.as_str() {
            "ByUser" => &user.name,
            "ByNamespace" => &info.namespace,
            _ => "",
        };
        Some(Flow {
            level: &self.levels[schema.level],
            schema: schema.name.clone(),
            schema_uid: schema.uid.clone(),
            distinguisher: format!("{}/{by}", schema.name),
        })
    }
}

fn level(object: &Object) -> LevelConfig {
    let number = |pointer: &str, default| object.get_i64(pointer).unwrap_or(default).max(0);
    let limit = match object.get_str("/spec/type") {
        Some("Exempt") => Limit::Exempt,
        _ => Limit::Seats {
            shares: number("/spec/limited/nominalConcurrencyShares", DEFAULT_SHARES).unsigned_abs(),
            queue_length: match object.get_str("/spec/limited/limitResponse/type") {
                Some("Queue") => {
                    let length =
                        number("/spec/limited/limitResponse/queuing/queueLengthLimit", DEFAULT_QUEUE_LENGTH);
                    usize::try_from(length).unwrap_or(0)
                }
                _ => 0,
            },
        },
    };
    LevelConfig { name: object.name().to_owned(), uid: object.uid().to_owned(), limit, seats: 0 }
}

/// A schema whose level exists.
fn schema(object: &Object, levels: &[LevelConfig]) -> Option<Schema> {
    let name = object.get_str("/spec/priorityLevelConfiguration/name")?;
    Some(Schema {
        name: object.name().to_owned(),
        uid: object.uid().to_owned(),
        level: levels.iter().position(|level| level.name == name)?,
        precedence: object.get_i64("/spec/matchingPrecedence").unwrap_or(1000),
        distinguisher: object.get_str("/spec/distinguisherMethod/type").unwrap_or("").to_owned(),
        rules: object.get("/spec/rules").and_then(Value::as_array).cloned().unwrap_or_default(),
    })
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn rule_fits(rule: &Value, user: &UserInfo, info: &RequestInfo) -> bool {
    let wanted = match info.is_resource_request {
        true => items(rule, "resourceRules").iter().any(|rule| resource_fits(rule, info)),
        false => items(rule, "nonResourceRules").iter().any(|rule| url_fits(rule, info)),
    };
    wanted && items(rule, "subjects").iter().any(|subject| subject_fits(subject, user))
}

fn subject_fits(subject: &Value, user: &UserInfo) -> bool {
    let text = |pointer: &str| subject.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    let is = |wanted: &str, value: &str| wanted == "*" || wanted == value;
    match text("/kind") {
        "User" => is(text("/user/name"), &user.name),
        "Group" => user.groups.iter().any(|group| is(text("/group/name"), group)),
        "ServiceAccount" => split_username(&user.name).is_some_and(|(namespace, name)| {
            namespace == text("/serviceAccount/namespace") && is(text("/serviceAccount/name"), name)
        }),
        _ => false,
    }
}

fn names(rule: &Value, field: &str, value: &str) -> bool {
    items(rule, field).iter().any(|entry| entry == "*" || entry == value)
}

fn resource_fits(rule: &Value, info: &RequestInfo) -> bool {
    let resource = match info.subresource.as_str() {
        "" => info.resource.clone(),
        subresource => format!("{}/{subresource}", info.resource),
    };
    let in_scope = match info.namespace.as_str() {
        "" => rule.get("clusterScope").and_then(Value::as_bool).unwrap_or(false),
        namespace => names(rule, "namespaces", namespace),
    };
    in_scope
        && names(rule, "verbs", &info.verb)
        && names(rule, "apiGroups", &info.api_group)
        && names(rule, "resources", &resource)
}

fn url_fits(rule: &Value, info: &RequestInfo) -> bool {
    let fits = |pattern: &str| {
        pattern == "*"
            || pattern == info.path
            || pattern
                .strip_suffix('*')
                .is_some_and(|prefix| prefix.ends_with('/') && info.path.starts_with(prefix))
    };
    names(rule, "verbs", &info.verb)
        && items(rule, "nonResourceURLs").iter().filter_map(Value::as_str).any(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::flow_control;

    fn config() -> Config {
        let all = flow_control::objects();
        let of = |kind: &str| -> Vec<&Object> { all.iter().filter(|o| o.kind() == kind).collect() };
        Config::read(&of("FlowSchema"), &of("PriorityLevelConfiguration"), 600)
    }

    fn request(verb: &str, group: &str, namespace: &str, resource: &str) -> RequestInfo {
        RequestInfo {
            is_resource_request: true,
            verb: verb.into(),
            api_group: group.into(),
            namespace: namespace.into(),
            resource: resource.into(),
            ..RequestInfo::default()
        }
    }

    #[test]
    fn the_default_schemas_tell_who_is_who() {
        let config = config();
        let of = |name: &str, groups: &[&str], info: &RequestInfo| {
            let user = UserInfo::new(name, groups).authenticated();
            let flow = config.classify(&user, info).expect("a flow");
            (flow.schema.clone(), flow.level.name.clone(), flow.distinguisher.clone())
        };
        let pods = request("list", "", "a", "pods");
        assert_eq!(of("admin", &["system:masters"], &pods).1, "exempt");
        assert_eq!(
            of("jane", &[], &pods),
            ("global-default".into(), "global-default".into(), "global-default/jane".into())
        );
        let node = ("system:node:n", ["system:nodes"]);
        assert_eq!(of(node.0, &node.1, &request("patch", "", "", "nodes")).1, "node-high");
        assert_eq!(of(node.0, &node.1, &pods).1, "system");
        let lease = request("update", "coordination.k8s.io", "kube-system", "leases");
        assert_eq!(of("system:kube-scheduler", &[], &lease).0, "system-leader-election");
        let account = "system:serviceaccount:kube-system:coredns";
        assert_eq!(of(account, &["system:serviceaccounts"], &pods).2, "kube-system-service-accounts/a");
        let url = RequestInfo { path: "/readyz".into(), verb: "get".into(), ..RequestInfo::default() };
        assert_eq!(of("jane", &[], &url).0, "probes");
    }

    #[test]
    fn seats_are_divided_by_shares() {
        let config = config();
        let seats = |name: &str| config.levels.iter().find(|l| l.name == name).expect(name).seats;
        // 245 shares of 600 seats.
        assert_eq!((seats("workload-low"), seats("catch-all"), seats("exempt")), (245, 13, 0));
        let none = serde_json::json!({ "metadata": { "name": "none" }, "spec": { "type": "Limited", "limited": { "nominalConcurrencyShares": 0 } } });
        let none = Object::from_value(none).expect("a map");
        assert_eq!(Config::read(&[], &[&none], 600).levels[0].seats, 0);
        assert!(Config::default().classify(&UserInfo::anonymous(), &RequestInfo::default()).is_none());
    }
}
