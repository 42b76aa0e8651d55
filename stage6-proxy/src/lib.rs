//! stage6-proxy.
pub mod backend;
pub mod conntrack;
pub mod endpoints_map;
pub mod health;
pub mod iptables;
pub mod metrics;
pub mod nftables;
pub mod options;
pub mod packet;
pub mod proxier;
pub mod proxy_state;
pub mod service_map;
pub mod sync_runner;
pub mod topology;
