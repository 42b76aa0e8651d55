//! When there is no connection, or no permission: each sort of trouble has its own words, and says what to look at next.
//!
//! kubectl runs on a terminal here (`script`), where the hint is shown behind kubectl's own words. Small servers on loopback make the troubles.
#![expect(clippy::disallowed_methods, reason = "a test that starts kubectl and servers")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

/// What a request brought: its first line, and the value of its `Authorization`.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// Answers one request with a code and a body.
fn answer(stream: &mut (impl Read + Write), code: u16, body: &str, seen: &Seen) -> Option<()> {
    let mut lines = BufReader::new(&mut *stream).lines();
    let first = lines.next()?.unwrap_or_default();
    if first.is_empty() {
        // No HTTP: a web server says so in HTTP.
        drop(lines);
        return stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .ok();
    }
    let mut authorization = String::new();
    loop {
        let line = lines.next()?.ok()?;
        if line.is_empty() {
            break;
        }
        if line.to_ascii_lowercase().starts_with("authorization: ") {
            authorization = line["authorization: ".len()..].to_string();
        }
    }
    drop(lines);
    seen.lock().unwrap().push((first, authorization));
    let kind = if body.starts_with('{') { "application/json" } else { "text/html" };
    let length = body.len();
    write!(stream, "HTTP/1.1 {code} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").ok()?;
    stream.flush().ok()
}

/// A server without TLS that always says the same.
fn serve(code: u16, body: String) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Seen::default();
    let shared = seen.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            answer(&mut stream, code, &body, &shared);
        }
    });
    (url, seen)
}

fn status(code: u16, reason: &str, message: &str) -> String {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": message}).to_string()
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    Authority { pem, issuer: Issuer::new(params, key) }
}

/// Certificate and key for 127.0.0.1 or for another name, valid now or until 2020.
fn identity(authority: &Authority, here: bool, expired: bool) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["other.example".to_string()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "eve");
    if here {
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::from([127, 0, 0, 1])));
    }
    if expired {
        params.not_before = rcgen::date_time_ymd(2019, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    }
    (params.signed_by(&key, &authority.issuer).unwrap().pem(), key.serialize_pem())
}

/// A TLS server that always says the same.
fn serve_tls((certificate, key): (String, String), code: u16, body: String) -> String {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            answer(&mut stream, code, &body, &Seen::default());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    url
}

/// A kubeconfig with one context, `here`.
fn kubeconfig(dir: &Path, cluster: &Value, user: &Value) {
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}]});
    fs::write(dir.join("config"), config.to_string()).unwrap();
}

/// What kubectl says on a terminal.
fn say(dir: &Path, arguments: &str) -> String {
    let typed = format!("{} {arguments}", env!("CARGO_BIN_EXE_kubectl"));
    let output = Command::new("script")
        .args(["-qec", &typed, "/dev/null"])
        .env_clear()
        .envs([
            ("PATH", "/usr/bin:/bin"),
            ("HOME", dir.to_str().unwrap()),
            ("KUBECONFIG", dir.join("config").to_str().unwrap()),
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).replace('\r', "")
}

/// kubectl's words, and its hint.
fn told(cluster: &Value, user: &Value, arguments: &str) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    kubeconfig(dir.path(), cluster, user);
    let all = say(dir.path(), arguments);
    let (words, hint) = all.split_once("hint: ").unwrap_or_else(|| panic!("no hint: {all}"));
    (words.trim_end().to_string(), hint.trim_end().to_string())
}

#[test]
fn nothing_listens_or_the_name_is_unknown() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (words, hint) = told(&json!({"server": format!("https://{free}")}), &json!({}), "get --raw /version");
    assert_eq!(
        words,
        format!("The connection to the server {free} was refused - did you specify the right host or port?")
    );
    assert!(
        hint.starts_with(&format!("nothing listens at https://{free}: is the cluster running")),
        "{hint}"
    );
    let (words, hint) =
        told(&json!({"server": "https://nowhere.invalid:6443"}), &json!({}), "get --raw /version");
    assert!(
        words.starts_with("Unable to connect to the server: dial tcp: lookup nowhere.invalid"),
        "{words}"
    );
    assert!(hint.contains("the name in https://nowhere.invalid:6443 is unknown here"), "{hint}");
}

#[test]
fn the_servers_certificate_doesnt_fit() {
    let ours = authority();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("ca.crt"), &ours.pem).unwrap();
    let trusting = |url: &str| json!({"server": url, "certificate-authority": dir.path().join("ca.crt")});
    let version = || json!({"gitVersion": "v1.33.0"}).to_string();

    let url = serve_tls(identity(&ours, false, false), 200, version());
    let (words, hint) = told(&trusting(&url), &json!({}), "get --raw /version");
    let wanted = "Unable to connect to the server: tls: failed to verify certificate: x509: certificate is valid for other.example, not 127.0.0.1";
    assert_eq!(words, wanted);
    assert!(hint.contains("--tls-server-name"), "{hint}");

    let url = serve_tls(identity(&authority(), true, false), 200, version());
    let (words, hint) = told(&trusting(&url), &json!({}), "get --raw /version");
    assert!(words.ends_with("x509: certificate signed by unknown authority"), "{words}");
    assert!(hint.contains("certificate-authority didn't sign"), "{hint}");

    let url = serve_tls(identity(&ours, true, true), 200, version());
    let (words, hint) = told(&trusting(&url), &json!({}), "get --raw /version");
    assert!(
        words.contains("certificate has expired or is not yet valid")
            && words.ends_with("is after 2020-01-01T00:00:00Z"),
        "{words}"
    );
    assert!(hint.contains("2020-01-01T00:00:00Z"), "{hint}");

    let (url, _) = serve(200, version());
    let (words, hint) =
        told(&json!({"server": url.replace("http:", "https:")}), &json!({}), "get --raw /version");
    assert!(words.ends_with("http: server gave HTTP response to HTTPS client"), "{words}");
    assert!(hint.contains("doesn't speak TLS"), "{hint}");
}

#[test]
fn the_server_doesnt_know_us_or_wont_let_us() {
    let (url, _) = serve(401, status(401, "Unauthorized", "Unauthorized"));
    let (words, hint) = told(&json!({"server": url}), &json!({"token": "old"}), "get --raw /version");
    assert_eq!(words, "error: You must be logged in to the server (Unauthorized)");
    assert!(hint.contains("the token or certificate may be expired"), "{hint}");

    // A server says no more than 401 about a certificate whose time is over; the certificate itself says since when.
    let ours = authority();
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = identity(&ours, true, true);
    fs::write(dir.path().join("ca.crt"), &ours.pem).unwrap();
    fs::write(dir.path().join("c.crt"), certificate).unwrap();
    fs::write(dir.path().join("c.key"), key).unwrap();
    let url = serve_tls(identity(&ours, true, false), 401, status(401, "Unauthorized", "Unauthorized"));
    let cluster = json!({"server": url, "certificate-authority": dir.path().join("ca.crt")});
    let user =
        json!({"client-certificate": dir.path().join("c.crt"), "client-key": dir.path().join("c.key")});
    let (words, hint) = told(&cluster, &user, "get --raw /version");
    assert_eq!(words, "error: You must be logged in to the server (Unauthorized)");
    assert!(hint.starts_with("your client certificate expired at 2020-01-01T00:00:00Z"), "{hint}");

    let (url, _) = serve(403, status(403, "Forbidden", "pods is forbidden: User \"eve\" cannot list"));
    let (words, hint) = told(&json!({"server": url}), &json!({}), "get --raw /api/v1/pods");
    assert_eq!(words, "Error from server (Forbidden): pods is forbidden: User \"eve\" cannot list");
    assert!(hint.contains("kubectl auth whoami"), "{hint}");
}

#[test]
fn the_context_is_wrong_or_the_server_is_no_kubernetes() {
    let (url, _) = serve(200, "<html>hello</html>".to_string());
    let (words, hint) = told(&json!({"server": url}), &json!({}), "get pods");
    assert!(words.contains("does not answer as a Kubernetes API server"), "{words}");
    assert!(hint.contains("something else than a Kubernetes API server answers"), "{hint}");
    let (words, hint) = told(&json!({"server": url}), &json!({}), "get pods --context=there");
    assert_eq!(words, "error: context \"there\" does not exist");
    assert!(hint.contains("get-contexts"), "{hint}");
    // A file that can't be read is named.
    let dir = tempfile::tempdir().unwrap();
    kubeconfig(dir.path(), &json!({"server": url, "certificate-authority": "none.crt"}), &json!({}));
    let said = say(dir.path(), "get pods");
    assert!(
        said.contains(&format!(
            "unable to read certificate-authority {}",
            dir.path().join("none.crt").display()
        )),
        "{said}"
    );
}

#[test]
fn a_proxy_is_asked_and_a_plugin_gives_the_token() {
    let (target, seen) = serve(200, json!({"gitVersion": "v1.33.0"}).to_string());
    // A proxy that knows one way only.
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy_url = format!("http://{}", proxy.local_addr().unwrap());
    let (asked, real) = (Arc::new(Mutex::new(Vec::new())), target.replace("http://", ""));
    let log = asked.clone();
    std::thread::spawn(move || {
        for mut client in proxy.incoming().flatten() {
            let mut lines = BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
            log.lock().unwrap().push(lines.next().unwrap_or_default());
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let mut server = TcpStream::connect(&real).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let _ = std::io::copy(&mut server, &mut client);
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let plugin = dir.path().join("plugin");
    let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "given"}});
    fs::write(&plugin, format!("#!/bin/sh\necho '{credential}'\n")).unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
    let user = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "interactiveMode": "Never"}});
    kubeconfig(dir.path(), &json!({"server": "http://cluster.invalid:6443", "proxy-url": proxy_url}), &user);
    let said = say(dir.path(), "get --raw /version");
    assert!(said.contains("v1.33.0"), "{said}");
    assert_eq!(*asked.lock().unwrap(), ["CONNECT cluster.invalid:6443 HTTP/1.1"]);
    assert_eq!(seen.lock().unwrap()[0].1, "Bearer given");

    let missing = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin", "installHint": "Install it.", "interactiveMode": "Never"}});
    kubeconfig(dir.path(), &json!({"server": target}), &missing);
    let said = say(dir.path(), "get --raw /version");
    assert!(said.contains("executable no-such-plugin not found") && said.contains("Install it."), "{said}");
}
