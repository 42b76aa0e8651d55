use super::*;

fn cluster() -> ClusterNetwork {
    ClusterNetwork { index: 3, owner: "six-stages:/tmp/x".to_owned() }
}

fn nodes(n: u32) -> Vec<NodeNetwork> {
    (1..=n).map(|ordinal| cluster().node(ordinal)).collect()
}

/// The machine after a plan was carried out.
fn apply(mut observed: Observed, plan: &[NetworkOp]) -> Observed {
    for op in plan {
        match op {
            NetworkOp::AddNamespace { path } => observed.namespaces.push(path.clone()),
            NetworkOp::RemoveNamespace { path } => observed.namespaces.retain(|other| other != path),
            NetworkOp::AddVeth { host, peer } => {
                assert!(!observed.has_link(host), "{host} exists");
                observed.links.extend([(host.clone(), None), (peer.clone(), None)]);
            }
            NetworkOp::MoveLink { link, .. } => observed.links.retain(|other, _| other != link),
            NetworkOp::RemoveLink { link } => observed.links.retain(|other, _| other != link),
            _ => {}
        }
    }
    observed
}

/// The machine after the claim: the bridge, with its owner's mark.
fn claimed(cluster: &ClusterNetwork) -> Observed {
    let links = BTreeMap::from([(cluster.bridge(), Some(cluster.owner.clone()))]);
    Observed { links, ..Observed::default() }
}

#[test]
fn a_plan_of_what_a_plan_made_is_empty() {
    let bridge = claimed(&cluster());
    let plan = plan_up(&cluster(), &nodes(3), &bridge);
    let after = apply(bridge, &plan);
    assert_eq!(after.namespaces.len(), 3);
    assert_eq!(plan_up(&cluster(), &nodes(3), &after), vec![]);
}

#[test]
fn half_a_node_is_made_anew() {
    let observed = Observed { namespaces: vec![cluster().node(1).netns], ..Observed::default() };
    let plan = plan_up(&cluster(), &nodes(1), &observed);
    assert_eq!(plan[0], NetworkOp::RemoveNamespace { path: cluster().node(1).netns });
    assert_eq!(plan[1], NetworkOp::AddNamespace { path: cluster().node(1).netns });
}

#[test]
fn down_removes_all_that_up_made() {
    let bridge = claimed(&cluster());
    let up = apply(bridge, &plan_up(&cluster(), &nodes(2), &Observed::default()));
    let down = apply(up.clone(), &plan_down(&cluster(), &nodes(2), &up));
    assert_eq!(down, Observed::default());
}

#[test]
fn nodes_route_each_others_pods_and_not_their_own() {
    let cidr = |text: &str| text.parse().ok();
    let nodes = nodes(3);
    let plan = plan_routes(&[
        (nodes[0].clone(), cidr("10.244.0.0/24")),
        (nodes[1].clone(), cidr("10.244.1.0/24")),
        (nodes[2].clone(), None),
    ]);
    let routes: Vec<String> = plan
        .iter()
        .map(|op| match op {
            NetworkOp::ReplaceRoute { place: Place::Namespace(netns), destination, gateway } => {
                format!("{} {destination} via {gateway}", netns.file_name().unwrap().display())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        routes,
        [
            "six3-node-1 10.244.1.0/24 via 10.210.3.12",
            "six3-node-2 10.244.0.0/24 via 10.210.3.11",
            "six3-node-3 10.244.0.0/24 via 10.210.3.11",
            "six3-node-3 10.244.1.0/24 via 10.210.3.12",
        ]
    );
}

#[test]
fn a_smaller_cluster_names_the_nodes_that_are_left_over() {
    let mut observed = claimed(&cluster());
    observed.links.insert("six3n2".to_owned(), None);
    observed.namespaces.push(cluster().node(3).netns);
    let names: Vec<String> =
        surplus_nodes(&cluster(), &observed, 1).into_iter().map(|node| node.name).collect();
    assert_eq!(names, ["node-2", "node-3"]);
}

#[test]
fn link_names_fit_the_kernels_limit() {
    let cluster = ClusterNetwork { index: 255, owner: String::new() };
    let node = cluster.node(MAX_NODES);
    assert!(node.host_link.len() <= 15 && node.peer_link.len() <= 15, "{node:?}");
    assert_eq!(node.ip, Ipv4Addr::new(10, 210, 255, 254));
}

#[test]
fn a_cidr_is_read_and_written() {
    assert_eq!("10.244.1.0/24".parse::<Ipv4Cidr>().map(|cidr| cidr.to_string()), Ok("10.244.1.0/24".into()));
    for wrong in ["10.244.1.0", "10.244.1.0/33", "x/8", ""] {
        assert!(wrong.parse::<Ipv4Cidr>().is_err(), "{wrong}");
    }
}

#[test]
fn what_hangs_on_a_strangers_bridge_is_never_removed() {
    let stranger = ClusterNetwork { index: 3, owner: "six-stages:/tmp/other".to_owned() };
    let theirs = apply(claimed(&stranger), &plan_up(&stranger, &nodes(3), &claimed(&stranger)));
    assert!(theirs.is_strangers(&cluster()) && !theirs.is_strangers(&stranger));
    // The same number, remembered by a cluster whose bridge is long gone.
    assert_eq!(surplus_nodes(&cluster(), &theirs, 0), vec![]);
    assert_eq!(plan_down(&cluster(), &nodes(3), &theirs), vec![]);
    assert_eq!(plan_nodes_down(&cluster(), &nodes(3), &theirs), vec![]);
    // A bridge without any mark is nobody's that we know.
    let unmarked = Observed { links: BTreeMap::from([("six3".to_owned(), None)]), ..Observed::default() };
    assert_eq!(plan_down(&cluster(), &nodes(1), &unmarked), vec![]);
}

#[test]
fn nodes_go_without_their_bridge() {
    let up = apply(claimed(&cluster()), &plan_up(&cluster(), &nodes(3), &claimed(&cluster())));
    let surplus = surplus_nodes(&cluster(), &up, 1);
    let after = apply(up.clone(), &plan_nodes_down(&cluster(), &surplus, &up));
    assert_eq!(after.namespaces, [cluster().node(1).netns]);
    assert!(after.links.contains_key("six3"));
}

#[test]
fn a_number_whose_addresses_somebody_uses_is_passed_over() {
    let with = |link: &str, address: [u8; 4]| Observed {
        addresses: vec![(link.to_owned(), address.into())],
        ..Observed::default()
    };
    assert!(with("tun0", [10, 210, 3, 1]).uses_addresses_of(&cluster()));
    assert!(with("br0", [10, 210, 3, 77]).uses_addresses_of(&cluster()));
    assert!(!with("six3", [10, 210, 3, 1]).uses_addresses_of(&cluster()), "our own bridge");
    assert!(!with("tun0", [10, 210, 4, 1]).uses_addresses_of(&cluster()));
}

proptest::proptest! {
    /// Invariant 1: whatever the machine has, a plan for one cluster touches nothing of another's.
    #[test]
    fn plans_stay_on_their_own_number(index in 0_u8..4, other in 0_u8..4, count in 0_u32..5, wanted in 0_u32..5) {
        let ours = ClusterNetwork { index, owner: "ours".to_owned() };
        let theirs = ClusterNetwork { index: other, owner: "theirs".to_owned() };
        let their_nodes: Vec<_> = (1..=count).map(|ordinal| theirs.node(ordinal)).collect();
        let machine = apply(claimed(&theirs), &plan_up(&theirs, &their_nodes, &claimed(&theirs)));
        let surplus = surplus_nodes(&ours, &machine, wanted);
        let after = apply(machine.clone(), &plan_down(&ours, &surplus, &machine));
        proptest::prop_assert_eq!(after, machine);
    }
}

#[test]
fn an_address_is_in_its_network() {
    let within = |cidr: &str, address: [u8; 4]| cidr.parse::<Ipv4Cidr>().unwrap().contains(address.into());
    assert!(within("10.244.1.0/24", [10, 244, 1, 255]) && !within("10.244.1.0/24", [10, 244, 2, 0]));
    assert!(within("0.0.0.0/0", [9, 9, 9, 9]) && within("1.2.3.4/32", [1, 2, 3, 4]));
    assert!(!within("1.2.3.4/32", [1, 2, 3, 5]));
}
