//! Container images from files of this machine, for machines that reach no registry.
//!
//! *Before a pod's journey.* The kubelet pulls what a manifest names; where no registry can be reached the image must
//! already be there. `labs image` makes it: an [`ImageSpec`] (which file goes where) becomes one tar that is an OCI image
//! layout and a docker archive at once, so that containerd's import, `ctr`, `skopeo` and `docker load` all read it.
//!
//! The subtle thing is that an image is *content addressed*: the manifest names its layer by digest, and the digest of a
//! tar depends on every mtime, owner and order in it. So entries are sorted, all times are 0 and all owners root:
//! the same files give the same bytes, on any machine, which `make_image_twice` checks.
//!
//! # Invariants
//! 1. The same spec and the same file contents give the same bytes.
//! 2. Every parent directory of an entry is in the layer, once, before the entry.
//! 3. No entry leaves the layer's root: `..` in a destination is refused.
//!
//! # In Kubernetes
//! Nothing: Kubernetes pulls images, others make them. Formats: OCI image-spec `image-layout.md`, `config.md`, `manifest.md`.
//! Left out: several layers, several platforms in one index, xattrs, hard links, device files.

pub mod command;
pub mod presets;
pub mod source;

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What stands at one path of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A directory with its mode.
    Dir(u32),
    /// A regular file: contents and mode.
    File(Vec<u8>, u32),
    /// A symbolic link and what it points to.
    Link(String),
}

/// An image before it is bytes: names, files and the defaults a container starts with.
#[derive(Debug, Clone, Default)]
pub struct ImageSpec {
    /// Full names, as containerd stores them (`docker.io/library/nginx:1.25`).
    pub names: Vec<String>,
    /// Path in the image (no leading slash) → what is there. Sorted, so that the tar is reproducible.
    pub entries: BTreeMap<String, Entry>,
    /// `KEY=value` pairs; `PATH` is added when missing.
    pub env: Vec<String>,
    /// `ENTRYPOINT`.
    pub entrypoint: Vec<String>,
    /// `CMD`.
    pub cmd: Vec<String>,
    /// `USER`, empty for root.
    pub user: String,
    /// `WORKDIR`, empty for `/`.
    pub working_dir: String,
    /// `STOPSIGNAL`, empty for SIGTERM.
    pub stop_signal: String,
    /// Exposed ports as `80/tcp`.
    pub ports: Vec<String>,
    /// Whether the layer is gzipped. A gzipped layer keeps its digest when it is pushed to a registry.
    pub gzip: bool,
}

/// Why a spec is no image.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ImageError {
    /// The image has no name.
    #[error("an image needs at least one name, as in docker.io/library/web:1")]
    NoName,
    /// A name without a tag cannot be found by a manifest.
    #[error("image name {0:?} has no tag: write {0}:TAG")]
    NoTag(String),
    /// A destination that leaves the root of the image.
    #[error("path {0:?} leaves the image: write it without \"..\"")]
    Escapes(String),
}

impl ImageSpec {
    /// Adds an entry at `path`.
    ///
    /// # Errors
    /// [`ImageError::Escapes`] when the path contains `..`.
    pub fn add(&mut self, path: &str, entry: Entry) -> Result<(), ImageError> {
        let clean: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if clean.contains(&"..") {
            return Err(ImageError::Escapes(path.to_owned()));
        }
        self.entries.insert(clean.join("/"), entry);
        Ok(())
    }
}

/// The image as one tar: OCI layout and docker archive at once.
///
/// # Errors
/// [`ImageError`] when the spec has no name or a name has no tag.
pub fn build(spec: &ImageSpec) -> Result<Vec<u8>, ImageError> {
    if spec.names.is_empty() {
        return Err(ImageError::NoName);
    }
    if let Some(name) = spec.names.iter().find(|name| tag_of(name).is_none()) {
        return Err(ImageError::NoTag(name.clone()));
    }
    let tar = layer(&spec.entries);
    let (blob, suffix) = if spec.gzip { (gzip(&tar), "+gzip") } else { (tar.clone(), "") };
    let config = canonical(&image_config(spec, &digest(&tar)));
    let manifest = canonical(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor(&format!("application/vnd.oci.image.layer.v1.tar{suffix}"), &blob)],
    }));
    let index = canonical(&json!({"schemaVersion": 2, "manifests": index_entries(spec, &manifest)}));
    let docker = canonical(&json!([{
        "Config": blob_path(&config), "RepoTags": spec.names, "Layers": [blob_path(&blob)],
    }]));
    let mut files = BTreeMap::from([
        ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
        ("index.json".to_owned(), index),
        ("manifest.json".to_owned(), docker),
    ]);
    for bytes in [config, manifest, blob] {
        files.insert(blob_path(&bytes), bytes);
    }
    Ok(archive(files.iter().map(|(path, bytes)| (path.as_str(), ArchiveItem::File(bytes, 0o644)))))
}

/// The tag of an image name; a colon before the last slash belongs to the registry's port.
fn tag_of(name: &str) -> Option<&str> {
    let last = name.rsplit('/').next()?;
    last.split_once(':').map(|(_, tag)| tag)
}

fn index_entries(spec: &ImageSpec, manifest: &[u8]) -> Vec<Value> {
    spec.names
        .iter()
        .map(|name| {
            let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", manifest);
            entry["platform"] = json!({"architecture": architecture(), "os": "linux"});
            entry["annotations"] = json!({
                "io.containerd.image.name": name,
                "org.opencontainers.image.ref.name": tag_of(name).unwrap_or_default(),
            });
            entry
        })
        .collect()
}

fn image_config(spec: &ImageSpec, diff_id: &str) -> Value {
    let mut env = spec.env.clone();
    if !env.iter().any(|pair| pair.starts_with("PATH=")) {
        env.insert(0, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned());
    }
    let mut config = json!({ "Env": env });
    let lists = [("Entrypoint", &spec.entrypoint), ("Cmd", &spec.cmd)];
    for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        config[key] = json!(list);
    }
    let texts = [("User", &spec.user), ("WorkingDir", &spec.working_dir), ("StopSignal", &spec.stop_signal)];
    for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        config[key] = json!(text);
    }
    if !spec.ports.is_empty() {
        config["ExposedPorts"] = spec.ports.iter().map(|port| (port.clone(), json!({}))).collect();
    }
    json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": architecture(),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "labs image"}],
    })
}

/// Go's name of this machine's architecture, which is what image indices speak.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The entries as an uncompressed layer, parents first.
fn layer(entries: &BTreeMap<String, Entry>) -> Vec<u8> {
    let mut all: BTreeMap<&str, ArchiveItem<'_>> = BTreeMap::new();
    for path in entries.keys() {
        for (at, _) in path.match_indices('/') {
            all.entry(&path[..at]).or_insert(ArchiveItem::Dir(0o755));
        }
    }
    for (path, entry) in entries {
        let item = match entry {
            Entry::Dir(mode) => ArchiveItem::Dir(*mode),
            Entry::File(bytes, mode) => ArchiveItem::File(bytes, *mode),
            Entry::Link(target) => ArchiveItem::Link(target),
        };
        all.insert(path, item);
    }
    archive(all.into_iter())
}

enum ArchiveItem<'a> {
    Dir(u32),
    File(&'a [u8], u32),
    Link(&'a str),
}

/// A tar with every time 0 and every owner root.
fn archive<'a>(items: impl Iterator<Item = (&'a str, ArchiveItem<'a>)>) -> Vec<u8> {
    const IN_MEMORY: &str = "writing a tar to memory can't fail";
    let mut builder = tar::Builder::new(Vec::new());
    for (path, item) in items {
        let mut header = tar::Header::new_gnu();
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        match item {
            ArchiveItem::Dir(mode) => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_mode(mode);
                builder.append_data(&mut header, format!("{path}/"), &[][..]).expect(IN_MEMORY);
            }
            ArchiveItem::File(bytes, mode) => {
                header.set_mode(mode);
                header.set_size(bytes.len() as u64);
                builder.append_data(&mut header, path, bytes).expect(IN_MEMORY);
            }
            ArchiveItem::Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_mode(0o777);
                builder.append_link(&mut header, path, target).expect(IN_MEMORY);
            }
        }
    }
    builder.into_inner().expect(IN_MEMORY)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    const IN_MEMORY: &str = "compressing to memory can't fail";
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(6));
    encoder.write_all(bytes).expect(IN_MEMORY);
    encoder.finish().expect(IN_MEMORY)
}

/// JSON with sorted keys: `serde_json`'s map is a `BTreeMap` in this workspace.
fn canonical(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest(bytes), "size": bytes.len()})
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(bytes))
}

fn blob_path(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", hex(bytes))
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
