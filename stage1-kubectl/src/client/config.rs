//! Client configuration: where the server is, whom to trust, who we are.
//!
//! From a kubeconfig, from flags, or from the files that a pod has (`in_cluster`).
//!
//! # In Kubernetes
//! `client-go/rest/config.go`, `tools/clientcmd/client_config.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads certificates and tokens")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;

use super::ClientError;
use super::connection::Dial;
use super::round_trippers::RequestLog;
use crate::kubeconfig::{self, Config, ConfigError, ExecPlugin, Resolved};
use crate::tls::TlsOptions;

/// Called with the text of each `Warning` header.
pub type WarningHandler = Arc<dyn Fn(&str) + Send + Sync>;

/// Act as somebody else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impersonate {
    /// User name; empty means: don't impersonate.
    pub user: String,
    /// Uid.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Extra attributes.
    pub extra: Vec<(String, String)>,
}

/// Everything that a [`super::Client`] needs.
#[derive(Clone, Default)]
pub struct ClientConfig {
    /// `https://127.0.0.1:6443`, perhaps with a path.
    pub server: String,
    /// CA, client certificate, or trust in anyone.
    pub tls: TlsOptions,
    /// The name that the server's certificate must have.
    pub tls_server_name: Option<String>,
    /// An HTTP proxy.
    pub proxy_url: Option<String>,
    /// Another way to hosts than TCP.
    pub dial: Option<Dial>,
    /// A bearer token.
    pub token: Option<String>,
    /// A file with a bearer token, read again as it is rotated.
    pub token_file: Option<PathBuf>,
    /// User and password.
    pub basic_auth: Option<(String, String)>,
    /// A credential plugin.
    pub exec: Option<ExecPlugin>,
    /// Act as somebody else.
    pub impersonate: Impersonate,
    /// The context's namespace.
    pub namespace: Option<String>,
    /// `kube-scheduler/v1.33.0 (linux/amd64)`.
    pub user_agent: String,
    /// Limit for a whole call (never for streams).
    pub timeout: Option<Duration>,
    /// Longest answer that is read as a whole (never for streams); `None`: a gigabyte.
    pub max_response_bytes: Option<usize>,
    /// Whether answers may come compressed.
    pub compression: bool,
    /// Don't use HTTP/2.
    pub http1_only: bool,
    /// Where requests are shown, with `-v=6` and more.
    pub request_log: Option<RequestLog>,
    /// Who hears warnings.
    pub warning_handler: Option<WarningHandler>,
}

impl std::fmt::Debug for ClientConfig {
    /// Never shows a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientConfig({})", self.server)
    }
}

impl ClientConfig {
    /// For a server without credentials.
    pub fn new(server: &str) -> Self {
        ClientConfig {
            server: server.to_string(),
            user_agent: default_user_agent(),
            ..ClientConfig::default()
        }
    }

    /// Trusts the authorities that this machine trusts.
    pub(super) fn trusting_the_system(mut self) -> Self {
        self.tls.ca_pem = system_roots();
        self
    }

    /// From one kubeconfig file and one of its contexts (the current one when `None`).
    ///
    /// # Errors
    /// The file, the context, or what they name can't be used.
    pub fn from_kubeconfig(path: &Path, context: Option<&str>) -> Result<Self, ClientError> {
        let config = kubeconfig::load_file(path).map_err(ClientError::from)?;
        ClientConfig::from_config(&config, context)
    }

    /// From a kubeconfig that was read already.
    ///
    /// # Errors
    /// The context, or what it names can't be used.
    pub fn from_config(config: &Config, context: Option<&str>) -> Result<Self, ClientError> {
        Ok(ClientConfig::from_resolved(&config.resolve(context)?)?)
    }

    /// From a context whose names are resolved.
    ///
    /// # Errors
    /// Files that can't be read, base64 that is none.
    pub fn from_resolved(resolved: &Resolved) -> Result<Self, ConfigError> {
        let Resolved { cluster, user, namespace } = resolved;
        let ca_pem = data_or_file(
            cluster.certificate_authority_data.as_deref(),
            cluster.certificate_authority.as_deref(),
            "certificate-authority",
        )?;
        let certificate = data_or_file(
            user.client_certificate_data.as_deref(),
            user.client_certificate.as_deref(),
            "client-cert",
        )?;
        let key = data_or_file(user.client_key_data.as_deref(), user.client_key.as_deref(), "client-key")?;
        let insecure = cluster.insecure_skip_tls_verify.unwrap_or(false);
        let extra = user.impersonate_user_extra.as_ref().and_then(|e| e.as_object()).into_iter().flatten();
        let extra = extra.flat_map(|(key, values)| {
            let values = values.as_array().into_iter().flatten();
            values.filter_map(|v| Some((key.clone(), v.as_str()?.to_string())))
        });
        let mut config = ClientConfig::new(&normalized_server(&cluster.server));
        config.tls = TlsOptions {
            ca_pem: if insecure { None } else { ca_pem.or_else(system_roots) },
            identity_pem: certificate.zip(key),
            insecure_skip_verify: insecure,
        };
        config.proxy_url = cluster.proxy_url.clone().filter(|url| !url.is_empty());
        config.tls_server_name = cluster.tls_server_name.clone().filter(|n| !n.is_empty());
        config.token = user.token.clone().filter(|t| !t.is_empty());
        config.token_file = user.token_file.as_ref().filter(|f| !f.is_empty()).map(PathBuf::from);
        config.basic_auth = user.username.clone().map(|u| (u, user.password.clone().unwrap_or_default()));
        config.exec = user.exec.clone();
        config.impersonate = Impersonate {
            user: user.impersonate.clone().unwrap_or_default(),
            uid: user.impersonate_uid.clone().unwrap_or_default(),
            groups: user.impersonate_groups.clone().unwrap_or_default(),
            extra: extra.collect(),
        };
        config.namespace = namespace.clone();
        Ok(config)
    }

    /// As [`ClientConfig::from_kubeconfig`], for components: `--kubeconfig` if given, else the usual places, else a pod's files.
    /// `master` replaces the server's address.
    ///
    /// # Errors
    /// Nothing usable was found.
    pub fn from_flags(kubeconfig: Option<&Path>, master: Option<&str>) -> Result<Self, ClientError> {
        let mut config = match kubeconfig {
            Some(path) => ClientConfig::from_kubeconfig(path, None)?,
            None => {
                let found = kubeconfig::load(&kubeconfig::default_paths())?;
                match ClientConfig::from_config(&found, None) {
                    Ok(config) => config,
                    Err(error) => ClientConfig::in_cluster().map_err(|_| error)?,
                }
            }
        };
        if let Some(master) = master.filter(|m| !m.is_empty()) {
            config.server = normalized_server(master);
        }
        Ok(config)
    }

    /// From the service account that is mounted into a pod.
    ///
    /// # Errors
    /// When this process runs in no pod.
    pub fn in_cluster() -> Result<Self, ClientError> {
        let mount = Path::new("/var/run/secrets/kubernetes.io/serviceaccount");
        let variable = |name| std::env::var(name).ok().filter(|v: &String| !v.is_empty());
        let (Some(host), Some(port)) =
            (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"))
        else {
            return Err(ClientError::from(ConfigError::Empty));
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let mut config = ClientConfig::new(&format!("https://{host}:{port}"));
        config.tls.ca_pem = Some(read(&mount.join("ca.crt"), "certificate-authority")?);
        config.token_file = Some(mount.join("token"));
        config.namespace =
            std::fs::read_to_string(mount.join("namespace")).ok().map(|n| n.trim().to_string());
        Ok(config)
    }

    /// Asks the credential plugin, if there is one, for a client certificate: that belongs to the connection, so it must be there before it.
    /// A plugin that gives a token is asked again when the token has expired.
    ///
    /// # Errors
    /// The plugin fails.
    pub async fn with_plugin_certificate(mut self) -> Result<Self, ClientError> {
        if let Some(plugin) = &self.exec {
            let given = super::credentials::run_plugin(plugin).await?;
            if let Some(identity) = given.identity {
                self.tls.identity_pem = Some(identity);
                self.token = given.token;
                self.exec = None;
            }
        }
        Ok(self)
    }

    /// Sets the user agent to that of a component.
    pub fn with_user_agent(mut self, component: &str) -> Self {
        self.user_agent =
            format!("{component}/v{} ({}/{})", env!("CARGO_PKG_VERSION"), std::env::consts::OS, ARCH);
        self
    }

    /// `127.0.0.1:6443`: how errors name the server.
    pub fn host(&self) -> &str {
        let rest = self.server.split_once("://").map_or(self.server.as_str(), |(_, rest)| rest);
        rest.split('/').next().unwrap_or(rest)
    }
}

/// Go's name of the processor.
const ARCH: &str = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };

fn default_user_agent() -> String {
    format!("six-stages/v{} ({}/{ARCH})", env!("CARGO_PKG_VERSION"), std::env::consts::OS)
}

/// A server without a scheme is `http://`, none at all `http://localhost:8080`.
fn normalized_server(server: &str) -> String {
    match server {
        "" => "http://localhost:8080".into(),
        server if server.contains("://") => server.trim_end_matches('/').to_string(),
        server => format!("http://{server}"),
    }
}

fn system_roots() -> Option<Vec<u8>> {
    std::fs::read("/etc/ssl/certs/ca-certificates.crt").ok()
}

fn data_or_file(data: Option<&str>, file: Option<&str>, what: &str) -> Result<Option<Vec<u8>>, ConfigError> {
    if let Some(data) = data.filter(|d| !d.is_empty()) {
        let bytes = base64::engine::general_purpose::STANDARD.decode(data);
        return bytes.map(Some).map_err(|e| ConfigError::Invalid(format!("{what}-data: {e}")));
    }
    file.filter(|f| !f.is_empty()).map(|f| read(Path::new(f), what)).transpose()
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|e| {
        let why = match e.kind() {
            std::io::ErrorKind::NotFound => "no such file or directory".to_string(),
            std::io::ErrorKind::PermissionDenied => "permission denied".to_string(),
            _ => e.to_string(),
        };
        ConfigError::Invalid(format!("unable to read {what} {} due to open {0}: {why}", path.display()))
    })
}
