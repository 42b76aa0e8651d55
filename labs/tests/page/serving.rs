//! A page that is served, and requests to it.

use std::path::PathBuf;
use std::time::Duration;

use labs::page::BookFlags;
use labs::page::server::Server;
use stage1_kubectl::state_dir::StateDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub const PATIENCE: Duration = Duration::from_secs(20);

/// A served page. Dropping it stops it.
pub struct Page {
    pub address: String,
    pub port: u16,
    pub token: String,
    pub dir: tempfile::TempDir,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Page {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What was answered.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Page {
    pub async fn serve() -> Self {
        Self::replaying(None).await
    }

    pub async fn replaying(replay: Option<PathBuf>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let flags = BookFlags { port: 0, replay, repository: None };
        let state_dir = StateDir::new(Some(dir.path().to_owned())).unwrap();
        let server = Server::bind(state_dir, &flags).await.unwrap();
        let address = server.address();
        let (before, token) = address.split_once("/?token=").unwrap();
        let port = before.rsplit_once(':').unwrap().1.parse().unwrap();
        let token = token.to_owned();
        Self { port, token, dir, task: tokio::spawn(server.serve()), address }
    }

    pub fn cookie(&self) -> String {
        format!("Cookie: six-stages-book-{}={}", self.port, self.token)
    }

    pub fn origin(&self) -> String {
        format!("Origin: http://127.0.0.1:{}", self.port)
    }

    /// One request with exactly these headers (and `Host`, unless one is among them).
    pub async fn request(&self, line: &str, headers: &[&str], body: &str) -> Answer {
        let mut socket = self.send(line, headers, body).await;
        let mut bytes = Vec::new();
        tokio::time::timeout(PATIENCE, socket.read_to_end(&mut bytes)).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub async fn send(&self, line: &str, headers: &[&str], body: &str) -> TcpStream {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let host = format!("Host: 127.0.0.1:{}", self.port);
        let mut head = format!("{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        let has_host = headers.iter().any(|header| header.starts_with("Host:"));
        for header in headers.iter().copied().chain((!has_host).then_some(host.as_str())) {
            head.push_str(header);
            head.push_str("\r\n");
        }
        socket.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
        socket
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.request(&format!("GET {path}"), &[&self.cookie()], "").await
    }

    pub async fn post(&self, path: &str, body: &str) -> Answer {
        self.request(&format!("POST {path}"), &[&self.cookie(), &self.origin()], body).await
    }

    /// Appends a step to the journey file, as a component would.
    pub fn append(&self, stage: u8, object: &str, decided: &str, why: &str) {
        use std::io::Write as _;
        let path = self.dir.path().join("logs/journey.jsonl");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let at = jiff::Timestamp::now().as_microsecond();
        let step = serde_json::json!({"stage": stage, "object": object, "decided": decided, "why": why, "at_micros": at,
            "source": "stage4-scheduler/src/binding_cycle.rs:84"});
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{step}\n").as_bytes()).unwrap();
    }
}
