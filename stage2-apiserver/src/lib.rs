//! Stage 2, `kube-apiserver`: remember it, tell everyone.
//!
//! (The story and the reading order grow with the modules; one `pub mod` per line.)

pub mod audit; // who did what, one line a request
pub mod decode; // a body becomes an object
pub mod discovery; // what is served, as documents
pub mod filters; // what every request goes through
pub mod handlers; // one file a verb or subresource; the write path
pub mod metrics; // how many requests, how long
pub mod negotiation; // in which form answers and bodies come
pub mod openapi; // the schema of everything
pub mod options; // kube-apiserver's flags, and ours
pub mod pipeline; // a cluster up to this stage
pub mod registry; // the one table of the kinds that are served
pub mod request_info; // what a request asks for
pub mod server; // sockets, TLS, HTTP
pub mod streaming; // logs, exec, attach, port-forward
pub mod table; // what `kubectl get` prints
pub mod version; // which Kubernetes this is

pub mod admission; // what the cluster's policy adds or refuses
pub mod allocator; // Service addresses and node ports
pub mod defaults; // what the client left out
pub mod schema; // what each built-in kind may contain
pub mod strategies; // what a kind does before it is stored
pub mod validation; // is this object allowed to exist

pub mod authentication; // who asks
pub mod authorization; // may they
pub mod bootstrap; // what a new cluster holds
pub mod pki; // the CA and everybody's certificates
pub mod storage; // one map with one history: embedded, etcd or memory
pub mod store; // objects over keys: create, update by retry, delete in stages
pub mod watch_cache; // one copy in memory that answers lists and feeds all watchers
