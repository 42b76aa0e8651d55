use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

/// A registry that answers one request with what it was asked, and closes.
async fn registry() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap();
            let asked = String::from_utf8_lossy(&head[..length]).into_owned();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{asked}",
                asked.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    address
}

async fn egress(dir: &tempfile::TempDir, upstream: Upstream) -> Egress {
    Egress::start(Ipv4Addr::LOCALHOST, &dir.path().join("egress.json"), upstream).await.unwrap()
}

async fn exchange(mut stream: TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn who_knows_the_token_gets_out_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let egress = egress(&dir, Upstream::default()).await;
    let registry = registry().await;
    let through = egress.address().connect("127.0.0.1", registry.port()).await.unwrap();
    let answer = exchange(through, "GET /v2/ HTTP/1.1\r\nHost: r\r\n\r\n").await;
    assert!(answer.contains("GET /v2/ HTTP/1.1"), "{answer}");

    let mut stranger = egress.address().clone();
    stranger.token = "guessed".to_owned();
    let refusal = stranger.connect("127.0.0.1", registry.port()).await.expect_err("no token");
    assert_eq!(refusal.to_string(), "only the node's runtime may");
}

#[tokio::test]
async fn plain_requests_are_passed_on_without_the_token() {
    let dir = tempfile::tempdir().unwrap();
    let egress = egress(&dir, Upstream::default()).await;
    let (registry, known) = (registry().await, egress.address().authorization());
    let stream = TcpStream::connect(egress.address().address).await.unwrap();
    let request = format!(
        "GET http://{registry}/v2/?a=b HTTP/1.1\r\nHost: {registry}\r\nConnection: close\r\nProxy-Authorization: {known}\r\n\r\n"
    );
    let answer = exchange(stream, &request).await.to_lowercase();
    assert!(
        answer.contains("get /v2/?a=b http/1.1") && answer.contains(&format!("host: {registry}")),
        "{answer}"
    );
    assert!(!answer.contains("proxy-authorization"), "{answer}");
}

#[tokio::test]
async fn a_failed_connection_says_what_go_would_say() {
    let dir = tempfile::tempdir().unwrap();
    let egress = egress(&dir, Upstream::default()).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refusal = egress.address().connect("127.0.0.1", closed.port()).await.expect_err("nobody listens");
    assert_eq!(refusal.to_string(), format!("dial tcp {closed}: connect: connection refused"));
}

#[tokio::test]
async fn the_hosts_own_proxy_is_asked() {
    // The second egress plays the host's corporate proxy; it is the only one that can be named by token.
    let dirs = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let corporate = egress(&dirs.0, Upstream::default()).await;
    let proxy = corporate.address().environment(&[])[1].1.clone();
    let upstream = Upstream::new(|name| (name == "HTTPS_PROXY").then(|| proxy.clone()));
    let ours = egress(&dirs.1, upstream).await;
    // Loopback would go past the proxy: a name that only the proxy would look up proves the way.
    let refusal = ours.address().connect("registry.invalid", 443).await.expect_err("no such host");
    assert!(refusal.to_string().starts_with("dial tcp: lookup registry.invalid: "), "{refusal}");
    drop(corporate);
    let refusal = ours.address().connect("registry.invalid", 443).await.expect_err("the proxy is gone");
    assert!(refusal.to_string().starts_with("proxyconnect tcp: dial tcp 127.0.0.1:"), "{refusal}");
}

#[tokio::test]
async fn address_and_token_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let first = egress(&dir, Upstream::default()).await;
    let before = first.address().clone();
    drop(first);
    // The listener closes when its task is dropped.
    let again = loop {
        let again = egress(&dir, Upstream::default()).await;
        if again.address().address == before.address {
            break again;
        }
        // Its own record names another port now: put the first one back.
        write_private(&dir.path().join("egress.json"), &serde_json::to_vec(&before).unwrap()).unwrap();
        drop(again);
        tokio::task::yield_now().await;
    };
    assert_eq!(*again.address(), before);
    assert!(!format!("{before:?}").contains(&before.token), "the token is not logged");
}
