//! Objects: from files, or from a live cluster by its lists.
//!
//! # In Kubernetes
//! `cli-runtime/pkg/resource/builder.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads files")]

use std::path::Path;

use serde_json::Value;
use stage1_kubectl::client::{Client, ListParams};
use stage1_kubectl::commands::listing::bare;
use stage1_kubectl::manifest;
use stage1_kubectl::resource::GroupVersionResource;

use super::CommandError;
use crate::world::KINDS;

/// One page of a list.
const LIMIT: u32 = 500;

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
    let params = ListParams { limit: Some(LIMIT), ..ListParams::default() };
    for (kind, group, version, resource) in KINDS {
        let resource = bare(&GroupVersionResource::new(group, version, resource), true);
        match client.list_all(&resource, None, &params).await {
            Ok(items) => objects.extend(items),
            Err(error) if matches!(kind, "Node" | "Pod") => return Err(error.into()),
            Err(error) if error.is_forbidden() || error.is_not_found() => left_out.push(kind.to_owned()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((objects, left_out))
}
