//! Recorded worlds: the rules that a stock kube-proxy wrote, and ours for the same Services.
//!
//! iptables: our restore input must be kube-proxy's, chain for chain and rule for rule, at the start and after every
//! step. nftables: the layouts differ on purpose, so every interesting packet must meet the same verdicts.
#![allow(clippy::unwrap_used, reason = "a test: a panic is its way to fail")]
#![expect(clippy::disallowed_methods, reason = "shell: reads recorded cases")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::Value;
use stage6_proxy::iptables::{self, Iptables};
use stage6_proxy::nftables::{self, Nftables};
use stage6_proxy::packet::{Hook, Packet, Probability, Ruleset, Verdict};
use stage6_proxy::proxy_state::{LocalDetector, NodePortAddresses, NodeView, ProxyState, Tracker};
use stage6_proxy::service_map::{NamespacedName, Protocol};

type Oracle = Box<dyn Fn(&Packet) -> Vec<(Verdict, Probability)>>;

const NODE_IP: Ipv4Addr = Ipv4Addr::new(10, 210, 0, 13);

fn worlds() -> Vec<PathBuf> {
    let folder = std::env::var("STAGES_CASES_DIR")
        .map_or_else(|_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases"), PathBuf::from);
    let entries = std::fs::read_dir(folder.join("proxy")).into_iter().flatten().flatten();
    let mut worlds: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.join("world.json").exists()).collect();
    worlds.sort();
    if worlds.is_empty() {
        println!("skipped: no cases");
    }
    worlds
}

struct World {
    json: Value,
    tracker: Tracker,
}

impl World {
    fn open(folder: &Path) -> Self {
        let json: Value = serde_json::from_str(&read(folder, "world.json").unwrap()).unwrap();
        let mut world = Self { json, tracker: Tracker::new("node-p", Some("z1".to_owned())) };
        // Every world has the API server's own Service.
        world.apply(
            &serde_json::json!({"kind": "Service", "metadata": {"name": "kubernetes", "namespace": "default"},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443}]}}),
        );
        world.apply(&serde_json::json!({"kind": "EndpointSlice", "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"}}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.210.0.1"]}], "ports": [{"name": "https", "port": 46443}]}));
        for object in world.json["objects"].as_array().unwrap().clone() {
            world.apply(&object);
        }
        world
    }

    fn apply(&mut self, object: &Value) {
        match object["kind"].as_str() {
            Some("Service") => self.tracker.service(&typed::<Service>(object)),
            Some("EndpointSlice") => self.tracker.slice(&typed::<EndpointSlice>(object), false),
            _ => false,
        };
    }

    fn delete(&mut self, object: &Value) {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        match text("/kind").as_str() {
            "Service" => {
                let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
                self.tracker.service_deleted(&NamespacedName { namespace, name })
            }
            "EndpointSlice" => self.tracker.slice(&typed::<EndpointSlice>(object), true),
            _ => false,
        };
    }

    fn step(&mut self, step: &Value) {
        for operation in step["ops"].as_array().unwrap() {
            let object = operation.get("object").unwrap_or(operation).clone();
            match operation["op"].as_str().unwrap() {
                "apply" => self.apply(&object),
                "delete" => self.delete(&self.known(&object)),
                unknown => panic!("unknown operation {unknown}"),
            }
        }
    }

    /// A deletion names the object; the tracker wants it whole.
    fn known(&self, reference: &Value) -> Value {
        let name = |object: &Value| {
            let name = object.pointer("/metadata/name").or(object.get("name")).cloned();
            (object["kind"].as_str().map(str::to_lowercase), name)
        };
        let objects = self.json["objects"].as_array().unwrap();
        objects.iter().find(|object| name(object) == name(reference)).unwrap_or(reference).clone()
    }

    fn view(&self, mode: &str) -> NodeView {
        let config = &self.json["kubeProxyConfig"];
        let local = &config["detectLocal"];
        let local_detector = match config["detectLocalMode"].as_str() {
            Some("BridgeInterface") => {
                LocalDetector::BridgeInterface(local["bridgeInterface"].as_str().unwrap().to_owned())
            }
            Some("InterfaceNamePrefix") => {
                LocalDetector::InterfaceNamePrefix(local["interfaceNamePrefix"].as_str().unwrap().to_owned())
            }
            _ => LocalDetector::ClusterCidr("10.201.0.0/16".parse().unwrap()),
        };
        let chosen = config.get("nodePortAddresses").is_some();
        let node_port_addresses = match (mode, chosen) {
            ("iptables", false) => NodePortAddresses::All,
            ("nftables", true) => NodePortAddresses::Only(vec![NODE_IP, [10, 210, 0, 14].into()]),
            _ => NodePortAddresses::Only(vec![NODE_IP]),
        };
        let localhost = config.pointer("/iptables/localhostNodePorts").and_then(Value::as_bool);
        NodeView {
            node_name: "node-p".to_owned(),
            node_ip: NODE_IP,
            zone: Some("z1".to_owned()),
            local_detector,
            node_port_addresses,
            localhost_node_ports: mode == "iptables" && localhost.unwrap_or(true),
            // A field of `iptables` and `nftables`; at the top level, where one world has it, it means nothing.
            masquerade_all: config
                .pointer("/iptables/masqueradeAll")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            nfacct: true,
        }
    }
}

fn typed<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    let mut object = object.clone();
    let group = if object["kind"] == "Service" { "v1" } else { "discovery.k8s.io/v1" };
    object["apiVersion"] = group.into();
    serde_json::from_value(object).unwrap()
}

fn read(folder: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(name)).ok()
}

fn recorded(folder: &Path, stem: &str, step: usize) -> Option<String> {
    let suffix = if step == 0 { String::new() } else { format!(".step{step}") };
    read(folder, &format!("{stem}{suffix}.txt"))
}

/// Table and chain → rules; `-X` counts as a chain of its own. Shared chains list Services in random order.
fn chains(restore: &str) -> BTreeMap<String, Vec<String>> {
    let mut chains: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut table = "";
    for line in restore.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
        } else if let Some(chain) = line.strip_prefix(':') {
            chains.entry(format!("{table} {}", chain.split(' ').next().unwrap())).or_default();
        } else if let Some(rule) = line.strip_prefix("-A ") {
            let (chain, rule) = rule.split_once(' ').unwrap();
            chains.entry(format!("{table} {chain}")).or_default().push(rule.to_owned());
        } else if let Some(chain) = line.strip_prefix("-X ") {
            chains.insert(format!("{table} -X {chain}"), vec![]);
        }
    }
    for (name, rules) in &mut chains {
        let shared = ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL"];
        if shared.iter().any(|chain| name.ends_with(chain)) {
            rules.sort();
        }
    }
    chains.retain(|name, _| !name.contains("CANARY"));
    chains
}

/// The IPv4 restore input of the first sync in a record of calls, without a Service that leaked in from a test that
/// ran beside the recording.
fn restore_input(calls: &str) -> Option<String> {
    let (_, input) = calls.split_once("## iptables-restore")?;
    let input = input.split_once('\n')?.1;
    let lines = input.lines().take_while(|line| !line.starts_with("##"));
    Some(lines.filter(|line| !line.contains("k-service-env/")).collect::<Vec<_>>().join("\n"))
}

fn compare<T: PartialEq + std::fmt::Debug>(what: &str, ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs { Ok(()) } else { Err(format!("{what}\n  ours:   {ours:?}\n  theirs: {theirs:?}")) }
}

fn compare_chains(step: usize, ours: &str, theirs: &str) -> Result<(), String> {
    let (ours, theirs) = (chains(ours), chains(theirs));
    let names = |chains: &BTreeMap<String, Vec<String>>| chains.keys().cloned().collect::<BTreeSet<_>>();
    compare(&format!("step {step}: chains"), &names(&ours), &names(&theirs))?;
    for (name, rules) in &theirs {
        compare(&format!("step {step}: {name}"), &ours[name], rules)?;
    }
    Ok(())
}

fn iptables_world(folder: &Path) -> Result<usize, String> {
    let mut world = World::open(folder);
    let view = world.view("iptables");
    world.tracker.take();
    let mut rules = Iptables::render(&world.tracker.state(), &view);
    let mut compared = 0;
    for (number, step) in world.json["steps"].as_array().unwrap().clone().iter().enumerate() {
        world.step(step);
        let changes = rules.update(&world.tracker.take());
        let ours = if number == 0 { rules.full("") } else { rules.partial(&changes) };
        if let Some(theirs) = recorded(folder, "iptables-calls", number).as_deref().and_then(restore_input) {
            compare_chains(number, &ours, &theirs)?;
            compared += 1;
        }
        let saved = recorded(folder, "iptables-save", number).unwrap();
        let theirs = iptables::trace::Tables::parse(&saved);
        for packet in packets(&world, true) {
            let what = format!("step {number}: {packet:?}");
            compare(&what, &rules.verdicts(&packet), &theirs.verdicts(&packet))?;
            compared += 1;
        }
    }
    Ok(compared)
}

fn nftables_world(folder: &Path) -> Result<usize, String> {
    let mut world = World::open(folder);
    let view = world.view("nftables");
    world.tracker.take();
    let mut rules = Nftables::render(&world.tracker.state(), &view);
    let mut kernel = nftables::trace::Table::parse(&rules.full());
    let mut compared = 0;
    for (number, step) in world.json["steps"].as_array().unwrap().clone().iter().enumerate() {
        world.step(step);
        let transaction = rules.update(&world.tracker.take());
        kernel.apply(&transaction.text);
        kernel.apply(&transaction.cleanup);
        let whole = nftables::trace::Table::parse(&rules.full());
        compare(&format!("step {number}: transaction"), &kernel, &whole)?;
        let listing = recorded(folder, "nft-list", number).unwrap();
        // Two flags make the stock proxy's table fail as a whole; its iptables rules tell what is meant.
        let theirs: Oracle = if listing.starts_with("table") {
            let table = nftables::trace::Table::parse(&listing);
            Box::new(move |packet| table.verdicts(packet))
        } else {
            let saved = recorded(folder, "iptables-save", number).unwrap();
            let tables = iptables::trace::Tables::parse(&saved);
            Box::new(move |packet| tables.verdicts(packet))
        };
        for packet in packets(&world, false) {
            let what = format!("step {number}: {packet:?}");
            compare(&what, &kernel.verdicts(&packet), &theirs(&packet))?;
            compared += 1;
        }
    }
    Ok(compared)
}

/// Every source that matters to every address that matters.
fn packets(world: &World, loopback: bool) -> Vec<Packet> {
    let state: ProxyState = world.tracker.state();
    let mut destinations: BTreeSet<(Ipv4Addr, u16, Protocol)> = BTreeSet::new();
    for (name, service) in &state {
        let port = &service.port;
        let addresses = port.external_ips.iter().chain(&port.load_balancer_vips).chain([&port.cluster_ip]);
        destinations.extend(addresses.map(|address| (*address, port.port, name.protocol)));
        if port.node_port != 0 {
            destinations.insert((NODE_IP, port.node_port, name.protocol));
            if loopback {
                destinations.insert((Ipv4Addr::LOCALHOST, port.node_port, name.protocol));
            }
        }
    }
    let from = |address: [u8; 4], interface: Option<&str>| {
        let hook = if interface.is_some() { Hook::Prerouting } else { Hook::Output };
        (Ipv4Addr::from(address), interface.map(str::to_owned), hook)
    };
    let sources = [
        from([10, 201, 0, 5], Some("cni0")),
        from([10, 201, 0, 99], Some("cni0")),
        from([10, 201, 0, 99], Some("veth1234")),
        from([10, 201, 1, 6], Some("eth0")),
        from([198, 51, 100, 7], Some("eth0")),
        from([10, 0, 0, 9], Some("eth0")),
        from([192, 0, 2, 200], Some("eth0")),
        from([10, 210, 0, 12], Some("eth0")),
        from(NODE_IP.octets(), None),
        from([192, 0, 2, 10], None),
        from([127, 0, 0, 1], None),
    ];
    let mut packets = Vec::new();
    for (destination, port, protocol) in destinations {
        for (source, interface, hook) in sources.clone() {
            if source.is_loopback() != destination.is_loopback() {
                continue;
            }
            let local_addresses = [NODE_IP, [192, 0, 2, 10].into()].into();
            packets.push(Packet { hook, interface, source, destination, port, protocol, local_addresses });
        }
    }
    packets
}

fn run(group: &str, floor: usize, world: fn(&Path) -> Result<usize, String>) {
    let worlds = worlds();
    if worlds.is_empty() {
        return;
    }
    let (mut passed, mut compared, mut failed) = (0, 0, Vec::new());
    for folder in &worlds {
        match world(folder) {
            Ok(count) => {
                passed += 1;
                compared += count;
            }
            Err(why) => {
                let name = folder.file_name().unwrap().to_string_lossy().into_owned();
                println!("{group} {name}: {why}");
                failed.push(name);
            }
        }
    }
    println!("{group}: {passed} passed, {} failed, 0 not yet; {compared} comparisons", failed.len());
    assert!(passed >= floor, "{group}: only {passed} of {floor} worlds pass; failing: {failed:?}");
}

#[test]
fn iptables_rules_are_kube_proxys() {
    run("iptables", 37, iptables_world);
}

#[test]
fn nftables_verdicts_are_kube_proxys() {
    run("nftables", 37, nftables_world);
}
