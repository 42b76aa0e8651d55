//! stage6-proxy.
pub mod endpoints_map;
pub mod iptables;
pub mod nftables;
pub mod packet;
pub mod proxy_state;
pub mod service_map;
pub mod topology;
