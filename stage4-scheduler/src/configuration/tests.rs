//! Tests of the file: defaults, switches, and what is refused in which words.

use super::plugin_sets::Point;
use super::*;
use crate::profile::{Profile, SharedPlugin};

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn read(body: &str) -> Result<Configuration, String> {
    load(&format!("{HEAD}{body}")).map_err(|error| error.to_string())
}

fn refusal(body: &str) -> String {
    read(body).err().expect("refused")
}

fn names(plugins: &[SharedPlugin]) -> Vec<&'static str> {
    plugins.iter().map(|plugin| plugin.name()).collect()
}

fn weights(profile: &Profile) -> Vec<(&'static str, i64)> {
    profile.scores.iter().map(|(plugin, weight)| (plugin.name(), *weight)).collect()
}

fn profile(configuration: &Configuration, name: &str) -> Profile {
    let pod = serde_json::json!({"spec": {"schedulerName": name, "containers": []}});
    let pod = crate::pod_info::PodInfo::new(std::sync::Arc::new(serde_json::from_value(pod).unwrap()));
    (**configuration.profiles.of(&pod).expect("a profile of that name")).clone()
}

#[test]
fn an_empty_file_is_as_good_as_none() {
    let read = read("").unwrap();
    let (ours, default) = (profile(&read, "default-scheduler"), Profile::default());
    assert_eq!(names(&ours.filters), names(&default.filters));
    assert_eq!(names(&ours.pre_enqueue), names(&default.pre_enqueue));
    let scoring: Vec<_> = weights(&ours).into_iter().filter(|(name, _)| *name != "VolumeBinding").collect();
    assert_eq!(scoring, weights(&default));
    assert!(ours.preemption.is_some() && read.rate.is_none() && read.notes.is_empty());
    assert_eq!(read.leader_election.unwrap().lease_duration.as_secs(), 15);
    assert_eq!(read.profiles.backoff, (Duration::from_secs(1), Duration::from_secs(10)));
}

#[test]
fn plugins_are_switched_by_point_and_everywhere() {
    let read = read(
        "profiles:\n- schedulerName: packing\n  percentageOfNodesToScore: 30\n  plugins:\n    multiPoint:\n      disabled:\n      - name: InterPodAffinity\n    score:\n      disabled:\n      - name: '*'\n      enabled:\n      - name: NodeResourcesFit\n        weight: 7\n    postFilter:\n      disabled:\n      - name: DefaultPreemption\n",
    )
    .unwrap();
    let profile = profile(&read, "packing");
    assert!(!names(&profile.filters).contains(&"InterPodAffinity"));
    assert_eq!(weights(&profile), [("NodeResourcesFit", 7)]);
    assert!(names(&profile.filters).contains(&"TaintToleration") && profile.preemption.is_none());
    assert_eq!(profile.nodes_to_score, NodesToScore::Percentage(30));
}

#[test]
fn a_point_keeps_its_own_order_before_that_of_multi_point() {
    let read = read(
        "profiles:\n- plugins:\n    filter:\n      enabled:\n      - name: NodePorts\n      - name: NodeName\n    score:\n      enabled:\n      - name: ImageLocality\n        weight: 5\n",
    )
    .unwrap();
    let profile = profile(&read, "default-scheduler");
    assert_eq!(names(&profile.filters)[..3], ["NodePorts", "NodeName", "NodeUnschedulable"]);
    assert_eq!(weights(&profile)[0], ("ImageLocality", 5));
    assert_eq!(weights(&profile).iter().filter(|(name, _)| *name == "ImageLocality").count(), 1);
}

#[test]
fn unknown_fields_and_keys_given_twice_are_refused() {
    assert_eq!(
        refusal("podMaxBackofSeconds: 5\nprofiles:\n- plugins:\n    filtr: {}\n"),
        "strict decoding error: unknown field \"podMaxBackofSeconds\", unknown field \"profiles[0].plugins.filtr\""
    );
    assert_eq!(
        refusal(
            "profiles:\n- pluginConfig:\n  - name: InterPodAffinity\n    args: {hardPodAffinityWeigth: 2}\n"
        ),
        "decoding .profiles[0].pluginConfig[0]: decoding args for plugin InterPodAffinity: strict decoding error: unknown field \"hardPodAffinityWeigth\""
    );
    assert_eq!(
        refusal("parallelism: 1\nparallelism: 2\n"),
        "strict decoding error: yaml: unmarshal errors:\n  line 4: key \"parallelism\" already set in map"
    );
    let other = load("apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n");
    let other = other.err().unwrap().to_string();
    assert!(other.starts_with("no kind \"KubeSchedulerConfiguration\" is registered for version \"kubescheduler.config.k8s.io/v1beta3\""));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    assert_eq!(
        refusal(
            "parallelism: 0\npodInitialBackoffSeconds: 0\npercentageOfNodesToScore: 101\nleaderElection: {resourceLock: endpoints}\n"
        ),
        "[leaderElection.resourceLock: Invalid value: \"endpoints\": resourceLock value must be \"leases\", parallelism: Invalid value: 0: should be an integer value greater than zero, percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100], podInitialBackoffSeconds: Invalid value: 0: must be greater than 0]"
    );
    assert_eq!(
        refusal("profiles:\n- schedulerName: a\n- schedulerName: a\n- {}\n"),
        "[profiles[1].schedulerName: Duplicate value: \"profiles[0].schedulerName\", profiles[2].schedulerName: Required value]"
    );
    assert_eq!(
        refusal(
            "extenders:\n- {urlPrefix: a, bindVerb: b, prioritizeVerb: p}\n- {urlPrefix: a, bindVerb: b, managedResources: [{name: cpu}]}\n"
        ),
        "[extenders[0].weight: Invalid value: 0: must have a positive weight applied to it, extenders[1].managedResources[0].name: Invalid value: \"cpu\": is an invalid extended resource name, extenders: Invalid value: \"found 2 extenders implementing bind\": only one extender can implement bind]"
    );
}

#[test]
fn plugin_arguments_are_checked() {
    let config =
        |name: &str, args: &str| format!("profiles:\n- pluginConfig:\n  - name: {name}\n    args: {args}\n");
    let at = "profiles[0].pluginConfig[0].args";
    for (name, args, wrong) in [
        (
            "InterPodAffinity",
            "{hardPodAffinityWeight: 101}",
            "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: -1}",
            "minCandidateNodesPercentage: Invalid value: -1: not in valid range [0, 100]",
        ),
        (
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu, weight: 2}]}",
            "resources[0].weight: Invalid value: 2: must be 1",
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: Best}}",
            "scoringStrategy.type: Unsupported value: \"Best\": supported values: \"LeastAllocated\", \"MostAllocated\", \"RequestedToCapacityRatio\"",
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio}}",
            "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio",
        ),
        (
            "PodTopologySpread",
            "{defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}",
            "defaultingType: Invalid value: \"System\": when .defaultConstraints are not empty",
        ),
        (
            "VolumeBinding",
            "{bindTimeoutSeconds: -1}",
            "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
        ),
    ] {
        assert_eq!(refusal(&config(name, args)), format!("{at}.{wrong}"));
    }
    assert!(
        refusal(&config("NodeAffinity", "{kind: InterPodAffinityArgs}"))
            .contains("were not of type NodeAffinityArgs")
    );
    assert!(
        read(&config("NodeAffinity", "{kind: NodeAffinityArgs, apiVersion: kubescheduler.config.k8s.io/v1}"))
            .is_ok()
    );
}

#[test]
fn profiles_that_cannot_run_are_refused_in_words() {
    let creating = "initializing profiles: creating profile for scheduler name default-scheduler: ";
    let plugins = |body: &str| refusal(&format!("profiles:\n- plugins:\n{body}"));
    for (body, wrong) in [
        ("    filter: {enabled: [{name: Nonsense}]}\n", "FilterPlugin \"Nonsense\" does not exist"),
        (
            "    filter: {enabled: [{name: ImageLocality}]}\n",
            "plugin \"ImageLocality\" does not extend FilterPlugin plugin",
        ),
        (
            "    score: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}\n",
            "plugin \"ImageLocality\" already registered as \"ScorePlugin\"",
        ),
        (
            "    bind: {disabled: [{name: '*'}]}\n",
            "at least one bind plugin is needed for profile with scheduler name \"default-scheduler\"",
        ),
        (
            "    queueSort: {disabled: [{name: '*'}]}\n",
            "only one queue sort plugin required for profile with scheduler name \"default-scheduler\", but got 0",
        ),
    ] {
        assert_eq!(plugins(body), format!("{creating}{wrong}"));
    }
}

#[test]
fn a_program_adds_plugins_of_its_own() {
    struct Odd;
    impl crate::framework::Plugin for Odd {
        fn name(&self) -> &'static str {
            "Odd"
        }
    }
    let mut registry = Registry::default();
    let factory = |args: &Value| match args["odd"].as_bool() {
        Some(true) => Ok(std::sync::Arc::new(Odd) as SharedPlugin),
        _ => Err("odd must be true".to_owned()),
    };
    registry.register("Odd", &[Point::Permit, Point::PostBind], std::sync::Arc::new(factory));
    let file = |odd: bool| {
        format!(
            "{HEAD}profiles:\n- plugins: {{multiPoint: {{enabled: [{{name: Odd}}]}}}}\n  pluginConfig:\n  - {{name: Odd, args: {{odd: {odd}}}}}\n"
        )
    };
    let read = load_with(&file(true), &registry).ok().unwrap();
    let profile = profile(&read, "default-scheduler");
    assert_eq!((names(&profile.permit), names(&profile.post_bind)), (vec!["Odd"], vec!["Odd"]));
    let wrong = load_with(&file(false), &registry).err().unwrap().to_string();
    assert!(wrong.ends_with("initializing plugin \"Odd\": odd must be true"), "{wrong}");
}
