//! Requests, so many at a time, and how long each took.
//!
//! # In Kubernetes
//! No counterpart.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt;
use stage1_kubectl::client::Client;

use super::server::Server;

/// What is made and read.
pub const MAPS: &str = "configmaps";

/// A ConfigMap of 1 KB.
pub fn body(namespace: &str, name: &str) -> Bytes {
    let data = "x".repeat(1000);
    let object = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": namespace }, "data": { "key": data },
    });
    Bytes::from(object.to_string())
}

/// How long everything and each took.
pub struct Done {
    whole: Duration,
    each: Vec<Duration>,
}

impl Done {
    /// Sorts the times.
    pub fn new(whole: Duration, mut each: Vec<Duration>) -> Self {
        each.sort();
        Done { whole, each }
    }

    /// Requests a second.
    pub fn per_second(&self) -> f64 {
        self.each.len() as f64 / self.whole.as_secs_f64()
    }

    /// The time that this share of requests stayed under.
    pub fn quantile(&self, share: f64) -> Duration {
        let at = (self.each.len() as f64 * share) as usize;
        self.each.get(at.min(self.each.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

/// Runs `work` for each number, `workers` at a time, as closed loops.
pub async fn spread<F, Fut>(numbers: Range<usize>, workers: usize, work: F) -> anyhow::Result<Done>
where
    F: Fn(usize) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = anyhow::Result<()>> + Send,
{
    let next = Arc::new(AtomicUsize::new(numbers.start));
    let started = Instant::now();
    let tasks: Vec<_> = (0..workers)
        .map(|_| {
            let (next, work, end) = (next.clone(), work.clone(), numbers.end);
            tokio::spawn(async move {
                let mut each = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        return anyhow::Ok(each);
                    }
                    let begun = Instant::now();
                    work(number).await?;
                    each.push(begun.elapsed());
                }
            })
        })
        .collect();
    let mut each = Vec::new();
    for task in tasks {
        each.extend(task.await??);
    }
    Ok(Done::new(started.elapsed(), each))
}

/// Load on one namespace.
#[derive(Clone)]
pub struct Load {
    client: Client,
    namespace: String,
}

impl Load {
    /// With a connection of its own.
    pub fn new(server: &Server, namespace: &str) -> anyhow::Result<Self> {
        Ok(Load { client: server.client()?, namespace: namespace.to_owned() })
    }

    /// Makes the namespace.
    pub async fn namespace(&self) -> anyhow::Result<()> {
        let object = serde_json::json!({ "metadata": { "name": self.namespace } });
        self.post("/api/v1/namespaces", object.to_string().into()).await
    }

    async fn post(&self, path: &str, body: Bytes) -> anyhow::Result<()> {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json").body(body)?;
        self.client.send(request).await?;
        Ok(())
    }

    /// Creates ConfigMaps of these numbers.
    pub async fn create(&self, numbers: Range<usize>, workers: usize) -> anyhow::Result<Done> {
        let load = self.clone();
        spread(numbers, workers, move |number| {
            let load = load.clone();
            async move {
                let path = format!("/api/v1/namespaces/{}/{MAPS}", load.namespace);
                load.post(&path, body(&load.namespace, &format!("m{number}"))).await
            }
        })
        .await
    }

    /// Gets them.
    pub async fn get(&self, numbers: Range<usize>, workers: usize) -> anyhow::Result<Done> {
        let load = self.clone();
        spread(numbers, workers, move |number| {
            let load = load.clone();
            async move {
                let path = format!("/api/v1/namespaces/{}/{MAPS}/m{number}", load.namespace);
                load.client.send(Request::get(path).body(Bytes::new())?).await?;
                Ok(())
            }
        })
        .await
    }

    /// Reads an answer to its end and keeps nothing of it; its length.
    pub async fn read(&self, path: &str, accept: &str) -> anyhow::Result<usize> {
        let request = Request::get(path).header(header::ACCEPT, accept).body(Bytes::new())?;
        let mut body = self.client.stream(request).await?.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(length)
    }
}
