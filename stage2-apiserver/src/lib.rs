//! Stage 2, `kube-apiserver`: remember it, tell everyone.
//!
//! A pod is born here: as an object. Stage 1 sent it as text over HTTPS; the stages after this one will read it, choose a
//! node for it and run it, and none of them talks to another. They all talk to this server, and what it does for them is
//! little and exact: it lets in what is allowed and right, gives it the next number of one history, keeps it, and tells
//! everyone who asked to be told.
//!
//! A request takes this way, and the modules below stand in its order:
//!
//! ```text
//! socket → TLS → filters: authenticate → authorize → handlers: decode + default → mutate → prepare
//!        → validate → validating admission → commit → storage → watch cache → every watcher
//! ```
//!
//! Three ideas carry it. *One table* ([`registry`]) says which kinds there are; routing, discovery, storage keys and OpenAPI
//! come out of it. *One write primitive* ([`storage`]): put this here if what is there is what I think it is; all
//! concurrency control of Kubernetes is that. *One copy in memory* ([`watch_cache`]) a resource, from which all lists
//! and watches are served, so that a thousand watchers cost the store what one does.
//!
//! Start reading at [`handlers::write_path`], where a write's three gates stand in a row.

pub mod request_info; // what a request asks for: verb, resource, name
pub mod registry; // the one table of the kinds that are served
pub mod custom_resources; // kinds that users define
pub mod cel; // small expressions of users, typed and metered
pub mod negotiation; // in which form bodies and answers come
pub mod schema; // what each built-in kind may contain
pub mod protobuf; // the second form of bodies and answers
pub mod decode; // a body becomes an object

pub mod authentication; // gate one: who asks
pub mod authorization; // gate one: may they
pub mod defaults; // gate two: what the client left out
pub mod admission; // gates two and three: what policy adds or refuses
pub mod managed_fields; // gate two: who set which field
pub mod strategies; // gate two: what a kind does before it is stored
pub mod allocator; // gate two: Service addresses and node ports
pub mod validation; // gate three: is this object allowed to exist
pub mod handlers; // one file a verb or subresource; the write path

pub mod storage; // one map with one history: embedded, etcd or memory
pub mod store; // objects over keys: create, update by retry, delete in stages
pub mod watch_cache; // one copy in memory that answers lists and feeds all watchers

pub mod table; // what `kubectl get` prints
pub mod discovery; // what is served, as documents
pub mod openapi; // the schema of everything
pub mod aggregation; // groups that another API server answers
pub mod clients; // connections to programs outside: webhooks and other API servers
pub mod streaming; // logs, exec, attach, port-forward: the way to the nodes

pub mod filters; // what every request goes through, in order
pub mod metrics; // how many requests, how long
pub mod audit; // who did what, one line a request
pub mod server; // sockets, TLS, HTTP
pub mod version; // which Kubernetes this is

pub mod pki; // the CA and everybody's certificates
pub mod bootstrap; // what a new cluster holds
pub mod options; // kube-apiserver's flags, and ours
pub mod pipeline; // a cluster up to this stage
