//! The context of a command: global flags, client, discovery, output.
//!
//! *Step 1 of a pod's journey.* Before: clap has parsed the command line. After: a command runs.
//!
//! The client and the discovery are made when they are first needed: `kubectl create --dry-run=client` asks nobody.
//!
//! # Invariants
//! 1. A flag wins over the kubeconfig.
//!
//! # In Kubernetes
//! `cli-runtime/pkg/genericclioptions/config_flags.go`, `kubectl/pkg/cmd/util/factory_client_access.go`.
#![expect(clippy::disallowed_methods, reason = "shell: NO_COLOR stands in the environment")]

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::OnceCell;

use crate::client::round_trippers::{self, RequestLog};
use crate::client::{Client, ClientConfig, ClientError};
use crate::commands::{record, version};
use crate::discovery::{Discovery, cache};
use crate::failure::Failure;
use crate::journey::{self, Stage};
use crate::journey_step;
use crate::kubeconfig::{self, ConfigError, Resolved};
use crate::object::Object;
use crate::resource::ApiResource;

mod flags;

pub use flags::GlobalFlags;

/// What a command works with.
pub struct Context {
    /// The global flags.
    pub flags: GlobalFlags,
    client: OnceCell<Client>,
    discovery: OnceCell<Discovery>,
    /// How often the server warned.
    warnings: Arc<AtomicUsize>,
}

impl Context {
    /// For one run of kubectl.
    pub fn new(flags: GlobalFlags) -> Self {
        Context { flags, client: OnceCell::new(), discovery: OnceCell::new(), warnings: Arc::default() }
    }

    fn resolved(&self) -> Result<Resolved, ClientError> {
        let flags = &self.flags;
        let config = match flags.kubeconfig.as_str() {
            "" => kubeconfig::load(&kubeconfig::default_paths())?,
            path => kubeconfig::load_file(&PathBuf::from(path))?,
        };
        let mut resolved = match config.resolve(flags.context.as_deref()) {
            Ok(resolved) => resolved,
            // Without any configuration kubectl tries http://localhost:8080.
            Err(ConfigError::Empty) => Resolved::default(),
            Err(error) => return Err(error.into()),
        };
        if let Some(name) = &flags.cluster {
            let missing = || ConfigError::NoCluster(name.clone());
            resolved.cluster =
                config.clusters.iter().find(|c| c.name == *name).ok_or_else(missing)?.cluster.clone();
        }
        if let Some(name) = &flags.user {
            let missing = || ConfigError::NoUser(name.clone());
            resolved.user = config.users.iter().find(|u| u.name == *name).ok_or_else(missing)?.user.clone();
        }
        let (cluster, user) = (&mut resolved.cluster, &mut resolved.user);
        cluster.server = flags.server.clone().unwrap_or(std::mem::take(&mut cluster.server));
        if flags.certificate_authority.is_some() {
            cluster.certificate_authority = flags.certificate_authority.clone();
            cluster.certificate_authority_data = None;
        }
        if flags.insecure_skip_tls_verify {
            cluster.insecure_skip_tls_verify = Some(true);
        }
        cluster.tls_server_name = flags.tls_server_name.clone().or(cluster.tls_server_name.take());
        if flags.client_certificate.is_some() {
            user.client_certificate = flags.client_certificate.clone();
            user.client_certificate_data = None;
        }
        if flags.client_key.is_some() {
            user.client_key = flags.client_key.clone();
            user.client_key_data = None;
        }
        if flags.token.is_some() {
            user.token = flags.token.clone();
            user.token_file = None;
        }
        if flags.username.is_some() {
            user.username = flags.username.clone();
        }
        if flags.password.is_some() {
            user.password = flags.password.clone();
        }
        user.impersonate = flags.impersonate.clone().or(user.impersonate.take());
        user.impersonate_uid = flags.impersonate_uid.clone().or(user.impersonate_uid.take());
        if !flags.impersonate_groups.is_empty() {
            user.impersonate_groups = Some(flags.impersonate_groups.clone());
        }
        Ok(resolved)
    }

    /// Whether what the flags ask for can be had at all.
    ///
    /// # Errors
    /// A profile: those are of Go's runtime, which isn't here.
    pub fn check_flags(&self) -> Result<(), Failure> {
        match self.flags.profile.as_str() {
            "none" => Ok(()),
            name @ ("cpu" | "heap" | "goroutine" | "threadcreate" | "block" | "mutex") => {
                Err(Failure::message(format!(
                    "profile '{name}' is one of Go's runtime, and this program has none"
                )))
            }
            name => Err(Failure::message(format!("unknown profile '{name}'"))),
        }
    }

    /// Keeps the command line in an object, where `--record` asks for it.
    pub fn record(&self, object: &mut Object) {
        if let Some(cause) = &self.flags.record.cause {
            object.set_annotation(record::CHANGE_CAUSE, cause);
        }
    }

    /// The client, made on first use.
    ///
    /// # Errors
    /// The configuration can't be used.
    pub async fn client(&self) -> Result<&Client, Failure> {
        let make = || async {
            let config = self.client_config()?.with_plugin_certificate().await?;
            let client = Client::new(config)?;
            if self.flags.match_server_version {
                version::require_match(&client).await?;
            }
            Ok::<_, Failure>(client)
        };
        self.client.get_or_try_init(make).await
    }

    /// What the client is made from.
    ///
    /// # Errors
    /// The configuration can't be used.
    pub fn client_config(&self) -> Result<ClientConfig, Failure> {
        let config = match self.in_pod() {
            Some(config) => config,
            None => ClientConfig::from_resolved(&self.resolved()?).map_err(ClientError::from)?,
        };
        let mut config = config.with_user_agent("kubectl");
        config.compression = !self.flags.disable_compression;
        let level = round_trippers::level_for("round_trippers", self.flags.v, &self.flags.vmodule);
        let level = level.map_err(Failure::message)?;
        let write = Arc::new(|line: &str| eprint(line));
        config.request_log = (level >= 6).then_some(RequestLog { level, write });
        let timeout = self.flags.request_timeout.as_str();
        let seconds = timeout.parse::<i64>().ok().map(jiff::SignedDuration::from_secs);
        let limit = seconds.or_else(|| crate::time::parse_duration(timeout));
        config.timeout = limit.filter(|l| !l.is_zero()).map(|l| l.unsigned_abs());
        let warned = self.warnings.clone();
        config.warning_handler = Some(Arc::new(move |warning| {
            warned.fetch_add(1, Ordering::Relaxed);
            eprint(&format!("Warning: {warning}\n"));
        }));
        Ok(config)
    }

    /// The configuration of the pod that we run in, where no kubeconfig and no flag names a server.
    fn in_pod(&self) -> Option<ClientConfig> {
        let flags = &self.flags;
        let named = !flags.kubeconfig.is_empty() || flags.server.is_some() || flags.context.is_some();
        if named || kubeconfig::default_paths().iter().any(|path| path.exists()) {
            return None;
        }
        let mut config = ClientConfig::in_cluster().ok()?;
        if flags.token.is_some() {
            (config.token, config.token_file) = (flags.token.clone(), None);
        }
        config.impersonate.user = flags.impersonate.clone().unwrap_or_default();
        config.impersonate.groups = flags.impersonate_groups.clone();
        Some(config)
    }

    /// Until when our own certificate is valid, if we have one: a server that doesn't know us any more doesn't say why.
    pub fn certificate_end(&self) -> Option<jiff::Timestamp> {
        self.client_config().ok()?.tls.certificate_end()
    }

    /// With `--warnings-as-errors`, what the server's warnings amount to.
    ///
    /// # Errors
    /// There were some.
    pub fn warnings_as_errors(&self) -> Result<(), Failure> {
        match self.warnings.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ if !self.flags.warnings_as_errors => Ok(()),
            1 => Err(Failure::message("1 warning received")),
            count => Err(Failure::message(format!("{count} warnings received"))),
        }
    }

    /// What the server has, fetched on first use.
    ///
    /// # Errors
    /// The server doesn't answer.
    pub async fn discovery(&self) -> Result<&Discovery, Failure> {
        let client = self.client().await?;
        let fetch = || async {
            let (found, documents) = Discovery::fetch_documents(client).await?;
            if let Some(file) = self.cache_file(client).filter(|_| !documents.is_empty()) {
                cache::write(&file, &documents);
            }
            Ok::<_, ClientError>(found)
        };
        Ok(self.discovery.get_or_try_init(fetch).await?)
    }

    /// What the server had when it was last asked, or has now.
    ///
    /// # Errors
    /// As [`Context::discovery`].
    pub async fn cached_discovery(&self) -> Result<&Discovery, Failure> {
        let client = self.client().await?;
        let kept = self.cache_file(client).and_then(|file| cache::read(&file));
        match kept {
            Some(documents) => {
                let kept = || std::future::ready(Discovery::from_documents(&documents));
                Ok(self.discovery.get_or_init(kept).await)
            }
            None => self.discovery().await,
        }
    }

    fn cache_file(&self, client: &Client) -> Option<PathBuf> {
        cache::file(self.flags.cache_dir.as_deref(), &client.config().server)
    }

    /// The resource that a user's word means.
    ///
    /// # Errors
    /// `the server doesn't have a resource type "x"`.
    pub async fn resource(&self, word: &str) -> Result<&ApiResource, Failure> {
        let found = self.discovery().await?.find(word);
        found.ok_or_else(|| Failure::message(format!("the server doesn't have a resource type {word:?}")))
    }

    /// The resource that an object's kind means.
    ///
    /// # Errors
    /// `no matches for kind "X" in version "v1"`.
    pub async fn resource_of(&self, object: &Object, source: &str) -> Result<&ApiResource, Failure> {
        let gvk = object.gvk();
        let missing = || {
            Failure::message(format!(
                "resource mapping not found for name: {:?} namespace: {:?} from {source:?}: no matches for kind {:?} in version {:?}\nensure CRDs are installed first",
                object.name(),
                object.namespace().unwrap_or_default(),
                gvk.kind,
                gvk.api_version()
            ))
        };
        self.discovery().await?.for_kind(&gvk).ok_or_else(missing)
    }

    /// The namespace to work in: the flag's, the context's, or `default`.
    pub fn namespace(&self) -> String {
        let from_flag = self.flags.namespace.clone().filter(|ns| !ns.is_empty());
        let from_context =
            || self.resolved().ok().and_then(|r| r.namespace).or_else(|| self.in_pod()?.namespace);
        from_flag.or_else(from_context).unwrap_or_else(|| "default".into())
    }

    /// The journey file of the cluster whose kubeconfig is in use: `logs/journey.jsonl` beside it, where a pipeline has made
    /// one.
    pub fn journey_file(&self) -> Option<PathBuf> {
        let kubeconfigs = match self.flags.kubeconfig.as_str() {
            "" => kubeconfig::default_paths(),
            path => vec![PathBuf::from(path)],
        };
        let beside = |path: &PathBuf| Some(path.parent()?.join("logs/journey.jsonl"));
        kubeconfigs.iter().filter_map(beside).find(|file| file.is_file())
    }

    /// Reports what is about to be sent, and why it is this request, as a journey step.
    pub fn step(&self, object: &Object, sent: &str, why: &str) {
        let name = journey::object_name(object.kind(), object.namespace(), object.name());
        journey_step!(Stage::Kubectl, name, sent, why);
    }

    /// Whether output goes to a terminal on which more than plain text is wanted.
    pub fn draws(&self) -> bool {
        std::io::IsTerminal::is_terminal(&std::io::stdout()) && self.paints()
    }

    fn paints(&self) -> bool {
        let terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        crate::printers::color::wanted(&self.flags.color, no_color, terminal)
    }

    /// Prints a table, in colour where that is wanted.
    pub fn print_table(&self, table: &str, titled: bool) {
        match self.paints() {
            true => self.print(&crate::printers::color::paint(table, titled)),
            false => self.print(table),
        }
    }

    /// On a terminal, says what is waited for; the line is gone when it is over.
    pub fn progress(&self, waiting_for: &str) {
        if std::io::IsTerminal::is_terminal(&std::io::stderr()) && !waiting_for.is_empty() {
            eprint(&format!("\r\u{1b}[K{waiting_for}"));
        }
    }

    /// Ends what [`Context::progress`] has begun.
    pub fn progress_done(&self) {
        if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
            eprint("\r\u{1b}[K");
        }
    }

    /// Prints to standard output. A closed pipe ends the command silently.
    pub fn print(&self, text: &str) {
        self.print_bytes(text.as_bytes());
    }

    /// The same for output that need not be text.
    pub fn print_bytes(&self, bytes: &[u8]) {
        let mut out = std::io::stdout().lock();
        if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
            std::process::exit(0);
        }
    }

    /// Prints to standard error.
    pub fn warn(&self, text: &str) {
        eprint(text);
    }
}

/// Prints to standard error; nothing can be done when that fails.
pub fn eprint(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
