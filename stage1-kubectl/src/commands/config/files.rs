//! The kubeconfig files in use: read as one, changed one by one.
//!
//! A new entry goes into the file that `--kubeconfig` names, else into the first file of `KUBECONFIG` that exists, else
//! into the last of them. An entry that exists is changed where it stands. A file is written into a new file beside it,
//! which then takes its name: a reader sees the old content or the new one.
//!
//! # In Kubernetes
//! `ModifyConfig` in `client-go/tools/clientcmd/config.go`.

use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::kubeconfig::{self, Config, NamedCluster, NamedContext, NamedUser};
use crate::yaml;

struct KubeconfigFile {
    path: PathBuf,
    exists: bool,
    before: Config,
    config: Config,
}

/// The files in use, in order of precedence; never empty.
pub struct Files {
    files: Vec<KubeconfigFile>,
}

impl Files {
    /// Reads `--kubeconfig`, or what `KUBECONFIG` names. Files that don't exist are empty.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn open(explicit: &str) -> Result<Self, Failure> {
        let mut paths = match explicit {
            "" => kubeconfig::default_paths(),
            path => vec![PathBuf::from(path)],
        };
        if paths.is_empty() {
            paths.push(PathBuf::from(".kube/config"));
        }
        let mut files = Vec::new();
        for path in paths {
            let exists = path.exists();
            let load = || kubeconfig::load_as_written(&path).map_err(|e| Failure::message(e.to_string()));
            let config = if exists { load()? } else { Config::default() };
            files.push(KubeconfigFile { path, exists, before: config.clone(), config });
        }
        Ok(Files { files })
    }

    /// All files as one; paths are as they are written.
    pub fn merged(&self) -> Config {
        let mut merged = Config::default();
        for file in &self.files {
            merged.merge(file.config.clone());
        }
        merged
    }

    fn default_index(&self) -> usize {
        self.files.iter().position(|file| file.exists).unwrap_or(self.files.len() - 1)
    }

    /// The file that new entries go to, as it was named.
    pub fn default_name(&self) -> String {
        self.files[self.default_index()].path.display().to_string()
    }

    fn holder(&mut self, has: impl Fn(&Config) -> bool) -> &mut KubeconfigFile {
        let at = self.files.iter().position(|file| has(&file.config)).unwrap_or_else(|| self.default_index());
        &mut self.files[at]
    }

    /// The cluster, made if it isn't there, and the folder that its relative paths start from.
    pub fn cluster(&mut self, name: &str) -> (&mut NamedCluster, PathBuf) {
        let file = self.holder(|config| config.clusters.iter().any(|c| c.name == name));
        let base = folder(&file.path);
        let new = NamedCluster { name: name.into(), ..NamedCluster::default() };
        (find_or_add(&mut file.config.clusters, |c| c.name == name, new), base)
    }

    /// The user, made if it isn't there, and the folder that its relative paths start from.
    pub fn user(&mut self, name: &str) -> (&mut NamedUser, PathBuf) {
        let file = self.holder(|config| config.users.iter().any(|u| u.name == name));
        let base = folder(&file.path);
        let new = NamedUser { name: name.into(), ..NamedUser::default() };
        (find_or_add(&mut file.config.users, |u| u.name == name, new), base)
    }

    /// The context, made if it isn't there.
    pub fn context(&mut self, name: &str) -> &mut NamedContext {
        let file = self.holder(|config| config.contexts.iter().any(|c| c.name == name));
        let new = NamedContext { name: name.into(), ..NamedContext::default() };
        find_or_add(&mut file.config.contexts, |c| c.name == name, new)
    }

    /// The whole configuration of the default file, for what belongs to no entry.
    pub fn default_config(&mut self) -> &mut Config {
        let at = self.default_index();
        &mut self.files[at].config
    }

    /// Runs on every file until one says that it removed something.
    pub fn remove(&mut self, remove: impl Fn(&mut Config) -> bool) -> bool {
        self.files.iter_mut().any(|file| remove(&mut file.config))
    }

    /// Runs on every file.
    pub fn each(&mut self, mut change: impl FnMut(&mut Config)) {
        self.files.iter_mut().for_each(|file| change(&mut file.config));
    }

    /// Gives a context another name, in its file.
    pub fn rename_context(&mut self, from: &str, to: &str) {
        self.context(from).name = to.to_string();
    }

    /// Sets the current context in the default file; an empty name clears it where it is set first.
    pub fn set_current_context(&mut self, name: &str) {
        let set = self.files.iter().position(|file| !file.config.current_context.is_empty());
        let at = match name {
            "" => set.unwrap_or_else(|| self.default_index()),
            _ => self.default_index(),
        };
        self.files[at].config.current_context = name.to_string();
    }

    /// Writes the files that changed.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn save(&mut self) -> Result<(), Failure> {
        for file in self.files.iter_mut().filter(|file| file.config != file.before) {
            let text = yaml::to_yaml(&document(&file.config));
            write(&file.path, &text)
                .map_err(|e| Failure::message(format!("open {}: {e}", file.path.display())))?;
            file.before = file.config.clone();
        }
        Ok(())
    }
}

fn find_or_add<T>(list: &mut Vec<T>, is: impl Fn(&T) -> bool, new: T) -> &mut T {
    let at = list.iter().position(is).unwrap_or_else(|| {
        list.push(new);
        list.len() - 1
    });
    &mut list[at]
}

fn folder(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    absolute.parent().map(Path::to_path_buf).unwrap_or_default()
}

/// A configuration in the order of names, with the fields that are always there.
pub fn ordered(config: &Config) -> Config {
    let mut config = config.clone();
    config.kind = "Config".into();
    config.api_version = "v1".into();
    let mut preferences = config.preferences.filter(Value::is_object).unwrap_or_else(|| json!({}));
    if let Some(wishes) = preferences.as_object_mut() {
        wishes.retain(|_, value| !(value.is_null() || *value == false || *value == json!([])));
    }
    config.preferences = Some(preferences);
    config.clusters.sort_by(|a, b| a.name.cmp(&b.name));
    config.users.sort_by(|a, b| a.name.cmp(&b.name));
    config.contexts.sort_by(|a, b| a.name.cmp(&b.name));
    for named in &mut config.clusters {
        let cluster = &mut named.cluster;
        cluster.insecure_skip_tls_verify = cluster.insecure_skip_tls_verify.filter(|skip| *skip);
        cluster.disable_compression = cluster.disable_compression.filter(|disable| *disable);
    }
    config
}

/// What is written into a file.
pub fn document(config: &Config) -> Value {
    serde_json::to_value(ordered(config)).expect("a kubeconfig is JSON")
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let folder = folder(&target);
    std::fs::create_dir_all(&folder)?;
    // Credentials: for the owner alone, unless the file's owner has decided otherwise.
    let mode = std::fs::metadata(&target).map_or(0o600, |old| old.permissions().mode() & 0o777);
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let fresh = folder.join(format!(".{name}.{}", std::process::id()));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&fresh, &target)
}
