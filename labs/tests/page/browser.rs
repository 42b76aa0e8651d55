//! A headless Chromium, driven by its own protocol over a WebSocket: keys are keys, not calls of scripts.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

const PATIENCE: Duration = Duration::from_secs(30);
const PROGRAMS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// A browser with one page. Dropping it ends it.
pub struct Browser {
    _child: Child,
    _profile: tempfile::TempDir,
    socket: WebSocketStream<TcpStream>,
    last_id: u64,
    session: Option<String>,
    /// What the page complained about: exceptions, refused scripts, failed requests.
    pub complaints: Vec<String>,
}

impl Browser {
    /// Starts one; without a Chromium says so (with `STAGES_REQUIRE_REAL=1` that is a failure).
    pub async fn start() -> Option<Self> {
        let Some(program) = PROGRAMS.into_iter().find(|program| Path::new(program).exists()) else {
            let required = std::env::var_os("STAGES_REQUIRE_REAL").is_some();
            assert!(!required, "real parts are required: no chromium");
            println!("skipped: no chromium");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--remote-debugging-port=0",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = tokio::time::timeout(PATIENCE, async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some(address) = line.strip_prefix("DevTools listening on ") {
                    return address.to_owned();
                }
            }
            panic!("chromium ended without an address");
        })
        .await
        .unwrap();
        // Nobody may stand in its way when it goes on to complain.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let host = address.strip_prefix("ws://").unwrap().split('/').next().unwrap().to_owned();
        let stream = TcpStream::connect(host).await.unwrap();
        let (socket, _) = tokio_tungstenite::client_async(address, stream).await.unwrap();
        let mut browser = Self {
            _child: child,
            _profile: profile,
            socket,
            last_id: 0,
            session: None,
            complaints: Vec::new(),
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach).await;
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        Some(browser)
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.try_call(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    async fn try_call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.socket.send(Message::text(message.to_string())).await.unwrap();
        tokio::time::timeout(PATIENCE, async {
            loop {
                let message = self.socket.next().await.unwrap().unwrap();
                let Ok(text) = message.to_text() else { continue };
                let message: Value = serde_json::from_str(text).unwrap_or_default();
                if message["id"] == self.last_id {
                    return match message.get("error") {
                        Some(error) => Err(error.to_string()),
                        None => Ok(message["result"].clone()),
                    };
                }
                self.note(&message);
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{method} is not answered"))
    }

    fn note(&mut self, event: &Value) {
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.complaints.push(event["params"].to_string()),
            Some("Log.entryAdded") if event["params"]["entry"]["level"] == "error" => {
                self.complaints.push(event["params"]["entry"].to_string());
            }
            _ => {}
        }
    }

    /// The size of the window, in CSS pixels.
    pub async fn size(&mut self, width: u32, height: u32) {
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Goes to an address.
    pub async fn open(&mut self, address: &str) {
        self.call("Page.navigate", json!({"url": address})).await;
        self.wait_for("document.readyState === 'complete'").await;
    }

    /// The value of an expression in the page.
    pub async fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.try_call("Runtime.evaluate", params).await.unwrap_or_default();
        result["result"]["value"].clone()
    }

    /// The text of an element.
    pub async fn text(&mut self, selector: &str) -> String {
        let value = self.value(&format!("document.querySelector('{selector}')?.innerText ?? ''")).await;
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true in the page.
    pub async fn wait_for(&mut self, expression: &str) {
        let start = Instant::now();
        let mut pause = tokio::time::interval(Duration::from_millis(50));
        while self.value(expression).await != json!(true) {
            if start.elapsed() > PATIENCE {
                let page = self.text("body").await;
                panic!("waited for {expression}; complaints: {:?}; the page says:\n{page}", self.complaints);
            }
            pause.tick().await;
        }
    }

    /// Presses a key.
    pub async fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "End" => (35, ""),
            "Home" => (36, ""),
            "ArrowLeft" => (37, ""),
            "ArrowUp" => (38, ""),
            "ArrowRight" => (39, ""),
            "ArrowDown" => (40, ""),
            letter => (i64::from(letter.to_uppercase().as_bytes()[0]), letter),
        };
        let mut event = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if !text.is_empty() {
            event["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", event).await;
        self.call(
            "Input.dispatchKeyEvent",
            json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}),
        )
        .await;
    }

    /// Puts the focus on an element, as a learner who tabs to it.
    pub async fn focus(&mut self, selector: &str) {
        let found = self.value(&format!("(document.querySelector('{selector}')?.focus(), document.activeElement?.matches('{selector}') === true)")).await;
        assert_eq!(found, json!(true), "{selector} can't be focused");
    }

    /// Types into the focused element.
    pub async fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text})).await;
    }

    /// Writes a picture of the window, when `STAGES_SCREENSHOTS` names a directory.
    pub async fn picture(&mut self, name: &str) {
        let Some(dir) = std::env::var_os("STAGES_SCREENSHOTS") else { return };
        let answer = self.call("Page.captureScreenshot", json!({"format": "png"})).await;
        let bytes = data_encoding::BASE64.decode(answer["data"].as_str().unwrap().as_bytes()).unwrap();
        std::fs::write(Path::new(&dir).join(name), bytes).unwrap();
    }

    /// The page must not have complained.
    pub fn assert_content(&self) {
        assert!(self.complaints.is_empty(), "{:#?}", self.complaints);
    }
}
