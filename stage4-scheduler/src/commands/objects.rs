//! Objects: from files, or from a live cluster by its lists.
//!
//! # In Kubernetes
//! `cli-runtime/pkg/resource/builder.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads files")]

use std::path::Path;

use bytes::Bytes;
use http::{Method, Request};
use serde_json::Value;
use stage1_kubectl::client::{Client, ClientError};
use stage1_kubectl::manifest;

use super::CommandError;
use crate::world::KINDS;

/// One page of a list.
const LIMIT: usize = 500;

/// The text of a file.
///
/// # Errors
/// It can't be read.
pub fn read(path: &Path) -> Result<String, CommandError> {
    std::fs::read_to_string(path).map_err(|error| CommandError::Read(path.to_owned(), error))
}

/// The objects of files, folders, or standard input (`-`).
///
/// # Errors
/// Something can't be read.
pub fn of_files(paths: &[String]) -> Result<Vec<Value>, CommandError> {
    let manifests = manifest::read_paths(paths, false)?;
    manifests.iter().map(|manifest| Ok(serde_json::to_value(&manifest.object)?)).collect()
}

/// All objects of a cluster that scheduling depends on. Kinds that we may not read, or that the server hasn't, are left
/// out and named.
///
/// # Errors
/// The server can't be reached, or nodes or pods can't be read.
pub async fn of_cluster(client: &Client) -> Result<(Vec<Value>, Vec<String>), CommandError> {
    let (mut objects, mut left_out) = (Vec::new(), Vec::new());
    for (kind, path) in KINDS {
        match list(client, kind, path).await {
            Ok(items) => objects.extend(items),
            Err(error) if matches!(kind, "Node" | "Pod") => return Err(error.into()),
            Err(error) if error.is_forbidden() || error.is_not_found() => left_out.push(kind.to_owned()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((objects, left_out))
}

async fn list(client: &Client, kind: &str, path: &str) -> Result<Vec<Value>, ClientError> {
    let mut items = Vec::new();
    let mut next = String::new();
    loop {
        let page = if next.is_empty() { String::new() } else { format!("&continue={next}") };
        let request = Request::builder().method(Method::GET).uri(format!("{path}?limit={LIMIT}{page}"));
        let request = request.body(Bytes::new()).map_err(|error| ClientError::Config(error.to_string()))?;
        let mut answer: Value = client.request(request).await?;
        for mut item in answer["items"].as_array_mut().map(std::mem::take).unwrap_or_default() {
            item["kind"] = kind.into();
            items.push(item);
        }
        next = answer["metadata"]["continue"].as_str().unwrap_or("").replace('=', "%3D").replace('+', "%2B");
        if next.is_empty() {
            return Ok(items);
        }
    }
}
