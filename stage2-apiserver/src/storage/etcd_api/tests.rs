//! Keys, transactions and leases, without a wire.

use bytes::Bytes;

use super::kv::Keys;
use super::*;
use crate::storage::memory::MemoryStorage;

fn server() -> Server {
    Server { storage: Arc::new(MemoryStorage::default()), leases: Leases::default() }
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

async fn put(server: &Server, key: &str, value: &str, lease: i64) -> i64 {
    let request = pb::PutRequest { key: text(key), value: text(value), lease, prev_kv: false };
    server.put(&request).await.expect("written").header.expect("a header").revision
}

async fn keys(server: &Server, request: pb::RangeRequest) -> Vec<String> {
    let found = server.range(&request).await.expect("read");
    found.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect()
}

#[test]
fn a_range_is_one_key_a_prefix_or_the_rest() {
    let one = Keys::new(b"/a", b"").expect("a key");
    assert!(one.contain("/a") && !one.contain("/a/b"));
    let prefix = Keys::new(b"/a/", b"/a0").expect("a prefix");
    assert!(prefix.contain("/a/b") && !prefix.contain("/a") && !prefix.contain("/b"));
    let all = Keys::new(&[0], &[0]).expect("everything");
    assert!(all.contain("/") && all.contain("zebra"));
    assert!(Keys::new(&[0xff], b"").is_err());
}

#[tokio::test]
async fn keys_are_read_by_prefix_order_limit_and_revision() {
    let server = server();
    put(&server, "/a/1", "3", 0).await;
    let second = put(&server, "/a/2", "2", 0).await;
    put(&server, "/b", "1", 0).await;
    put(&server, "/a/3", "1", 0).await;
    let prefix = pb::RangeRequest { key: text("/a/"), range_end: text("/a0"), ..Default::default() };
    assert_eq!(keys(&server, prefix.clone()).await, ["/a/1", "/a/2", "/a/3"]);
    let past = pb::RangeRequest { revision: second, ..prefix.clone() };
    assert_eq!(keys(&server, past).await.len(), 2);
    let last_first = pb::RangeRequest { sort_order: 2, sort_target: 4, ..prefix.clone() };
    assert_eq!(keys(&server, last_first).await, ["/a/1", "/a/2", "/a/3"]);
    let limited = server.range(&pb::RangeRequest { limit: 2, ..prefix.clone() }).await.expect("read");
    assert_eq!((limited.kvs.len(), limited.count, limited.more), (2, 3, true));
    let future = pb::RangeRequest { revision: 99, ..prefix };
    assert_eq!(server.range(&future).await.expect_err("not yet").code, 11);
}

#[tokio::test]
async fn a_transaction_writes_only_what_it_compared() {
    let server = server();
    let create = |value: &str| {
        let absent = pb::Compare { target: 2, key: text("/k"), mod_revision: Some(0), ..Default::default() };
        let put = pb::PutRequest { key: text("/k"), value: text(value), ..Default::default() };
        let get = pb::RangeRequest { key: text("/k"), ..Default::default() };
        pb::TxnRequest {
            compare: vec![absent],
            success: vec![pb::RequestOp { put: Some(put), ..Default::default() }],
            failure: vec![pb::RequestOp { range: Some(get), ..Default::default() }],
        }
    };
    assert!(server.txn(&create("first")).await.expect("done").succeeded);
    let second = server.txn(&create("second")).await.expect("done");
    assert!(!second.succeeded);
    let read = second.responses[0].range.as_ref().expect("a range");
    assert_eq!(read.kvs[0].value, "first");
}

#[tokio::test]
async fn a_lease_takes_its_keys_with_it() {
    let server = server();
    let granted = server.grant(&pb::LeaseGrantRequest { ttl: 60, id: 7 }).await.expect("granted");
    put(&server, "/leased", "v", granted.id).await;
    put(&server, "/free", "v", 0).await;
    let asked = pb::LeaseTimeToLiveRequest { id: 7, keys: true };
    assert_eq!(server.time_to_live(&asked).await.expect("known").keys, ["/leased"]);
    server.revoke(&pb::LeaseRevokeRequest { id: 7 }).await.expect("ended");
    let all = pb::RangeRequest {
        key: Bytes::from_static(&[0]),
        range_end: Bytes::from_static(&[0]),
        ..Default::default()
    };
    assert_eq!(keys(&server, all).await, ["/free"]);
    let unknown = pb::PutRequest { key: text("/k"), lease: 9, ..Default::default() };
    assert_eq!(server.put(&unknown).await.expect_err("no lease").code, 5);
}

#[tokio::test]
async fn a_deletion_in_a_transaction_counts_what_was_there() {
    let server = server();
    let delete = |version: i64| pb::TxnRequest {
        compare: vec![pb::Compare {
            key: text("zebra"),
            target: 0,
            version: Some(version),
            ..Default::default()
        }],
        success: vec![pb::RequestOp {
            delete: Some(pb::DeleteRangeRequest { key: text("zebra"), prev_kv: true, ..Default::default() }),
            ..Default::default()
        }],
        ..Default::default()
    };
    let deleted = |answer: pb::TxnResponse| {
        let response = answer.responses[0].delete.clone().expect("a deletion");
        (response.deleted, response.prev_kvs.len())
    };
    let before = server.header().await.expect("read").expect("a header").revision;
    assert_eq!(deleted(server.txn(&delete(0)).await.expect("absent, as it was compared")), (0, 0));
    assert_eq!(server.header().await.expect("read").expect("a header").revision, before);
    put(&server, "zebra", "1", 0).await;
    assert_eq!(deleted(server.txn(&delete(1)).await.expect("there")), (1, 1));
    assert!(server.storage.get("zebra").await.expect("read").is_none());
}

#[tokio::test]
async fn keys_without_a_slash_are_watched_too() {
    use futures::StreamExt;
    let server = server();
    let now = server.storage.freshness("").await.expect("fresh").revision;
    let mut changes = server.storage.watch("", now);
    put(&server, "zebra", "1", 0).await;
    put(&server, "/a/b", "1", 0).await;
    for key in ["zebra", "/a/b"] {
        let change = changes.next().await.expect("a change").expect("no error");
        assert_eq!(&*change.key, key);
    }
}

#[tokio::test]
async fn what_has_not_happened_cannot_be_forgotten() {
    let server = server();
    let last = put(&server, "/a", "1", 0).await;
    let compact = |revision| pb::CompactionRequest { revision };
    let refused = server.compact(&compact(last + 1)).await.expect_err("the future");
    assert_eq!(refused.message, "etcdserver: mvcc: required revision is a future revision");
    server.compact(&compact(last)).await.expect("the past");
    assert_eq!(keys(&server, pb::RangeRequest { key: text("/a"), ..Default::default() }).await, ["/a"]);
}
