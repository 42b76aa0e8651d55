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
                observed.links.extend([host.clone(), peer.clone()]);
            }
            NetworkOp::MoveLink { link, .. } => observed.links.retain(|other| other != link),
            NetworkOp::RemoveLink { link } => observed.links.retain(|other| other != link),
            _ => {}
        }
    }
    observed
}

#[test]
fn a_plan_of_what_a_plan_made_is_empty() {
    let bridge = Observed { links: vec!["six3".to_owned()], namespaces: vec![] };
    let plan = plan_up(&cluster(), &nodes(3), &bridge);
    let after = apply(bridge, &plan);
    assert_eq!(after.namespaces.len(), 3);
    assert_eq!(plan_up(&cluster(), &nodes(3), &after), vec![]);
}

#[test]
fn half_a_node_is_made_anew() {
    let observed = Observed { links: vec![], namespaces: vec![cluster().node(1).netns] };
    let plan = plan_up(&cluster(), &nodes(1), &observed);
    assert_eq!(plan[0], NetworkOp::RemoveNamespace { path: cluster().node(1).netns });
    assert_eq!(plan[1], NetworkOp::AddNamespace { path: cluster().node(1).netns });
}

#[test]
fn down_removes_all_that_up_made() {
    let bridge = Observed { links: vec!["six3".to_owned()], namespaces: vec![] };
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
    let observed = Observed { links: vec!["six3n2".to_owned()], namespaces: vec![cluster().node(3).netns] };
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
