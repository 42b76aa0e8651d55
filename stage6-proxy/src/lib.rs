//! Stage 6: kube-proxy, which makes Services reachable.
//!
//! A pod runs and has an address. But pods come and go, and nobody can be told a new address each time. A
//! Service is an address that stays: 10.96.0.7 belongs to no machine and no interface. It exists only
//! in the rules of every node's kernel, which rewrite packets to it on their way. Writing these rules, and keeping
//! them true while pods come and go, is all that kube-proxy does; no packet ever passes through it.
//!
//! ```text
//! Service, EndpointSlice ──▶ service_map, endpoints_map ──▶ topology ──▶ proxy_state ──▶ render ──▶ nft | iptables-restore
//!       (watched)                 (what changed)          (who may answer)   (value)       (text)        (the kernel)
//! ```
//!
//! Everything up to the text is a pure function, and the text can be read back: [`packet::Ruleset`] answers what
//! happens to a packet. That is how the two dialects are held against each other and against what a stock kube-proxy
//! wrote for the same Services.
//!
//! The journey of a pod ends here: it was asked for (stage 1), stored (2), created (3), placed (4), started (5), and now
//! it answers.

// --- what is there: values from the API's objects
pub mod endpoints_map; // the addresses behind each port
pub mod proxy_state;
pub mod service_map; // every port of every Service
pub mod topology; // which of them this node's traffic may go to // all that rules are made from

// --- rules: text for the kernel, meaning for tests
pub mod iptables;
pub mod nftables; // flat maps
pub mod packet; // the question that every dialect answers // kube-proxy's chains

// --- shells: the kernel, the clock, the network
pub mod backend; // the chosen dialect and what the kernel has of it
pub mod conntrack; // connections that must be forgotten
pub mod health; // what load balancers ask
pub mod metrics; // how long syncs take
pub mod proxier;
pub mod sync_runner; // when to sync // the loop

// --- names
pub mod dns; // Services and pods by name

// --- the program
pub mod options; // flags and configuration file
pub mod pipeline; // all six stages in one process
