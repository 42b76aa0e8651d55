//! The flags that every command takes.
//!
//! They stand before or behind the command's name. A flag wins over the kubeconfig, so what is given here is kept apart from it until a command
//! asks for its client.
//!
//! # In Kubernetes
//! `cli-runtime/pkg/genericclioptions/config_flags.go`, `component-base/logs`. Without effect there too: `--log-flush-frequency`, since a
//! kubectl logs to stderr, which isn't buffered. Refused here: `--profile` other than `none`, which writes profiles of Go's runtime.

use clap::Args;

/// Flags that every command takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalFlags {
    /// What `--record` keeps.
    #[arg(skip)]
    pub record: crate::commands::record::Record,
    /// Path to the kubeconfig file to use for CLI requests.
    #[arg(
        help = "Path to the kubeconfig file to use for CLI requests.",
        long,
        global = true,
        default_value = "",
        hide_default_value = true
    )]
    pub kubeconfig: String,
    /// The name of the kubeconfig context to use
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// The name of the kubeconfig cluster to use
    #[arg(long, global = true)]
    pub cluster: Option<String>,
    /// The name of the kubeconfig user to use
    #[arg(long, global = true)]
    pub user: Option<String>,
    /// If present, the namespace scope for this CLI request
    #[arg(short = 'n', long, global = true)]
    pub namespace: Option<String>,
    /// The address and port of the Kubernetes API server
    #[arg(short = 's', long, global = true)]
    pub server: Option<String>,
    /// Bearer token for authentication to the API server
    #[arg(long, global = true)]
    pub token: Option<String>,
    /// Username for basic authentication to the API server
    #[arg(long, global = true)]
    pub username: Option<String>,
    /// Password for basic authentication to the API server
    #[arg(long, global = true)]
    pub password: Option<String>,
    /// Username to impersonate for the operation. User could be a regular user or a service account in a namespace.
    #[arg(
        help = "Username to impersonate for the operation. User could be a regular user or a service account in a namespace.",
        long = "as",
        global = true
    )]
    pub impersonate: Option<String>,
    /// Group to impersonate for the operation, this flag can be repeated to specify multiple groups.
    #[arg(
        help = "Group to impersonate for the operation, this flag can be repeated to specify multiple groups.",
        long = "as-group",
        global = true
    )]
    pub impersonate_groups: Vec<String>,
    /// UID to impersonate for the operation.
    #[arg(help = "UID to impersonate for the operation.", long = "as-uid", global = true)]
    pub impersonate_uid: Option<String>,
    /// Path to a cert file for the certificate authority
    #[arg(long, global = true)]
    pub certificate_authority: Option<String>,
    /// Path to a client certificate file for TLS
    #[arg(long, global = true)]
    pub client_certificate: Option<String>,
    /// Path to a client key file for TLS
    #[arg(long, global = true)]
    pub client_key: Option<String>,
    /// Server name to use for server certificate validation. If it is not provided, the hostname used to contact the server is used
    #[arg(long, global = true)]
    pub tls_server_name: Option<String>,
    /// If true, the server's certificate will not be checked for validity. This will make your HTTPS connections insecure
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub insecure_skip_tls_verify: bool,
    /// The length of time to wait before giving up on a single server request. Non-zero values should contain a corresponding time unit (e.g. 1s, 2m, 3h). A value of zero means don't timeout requests.
    #[arg(
        help = "The length of time to wait before giving up on a single server request. Non-zero values should contain a corresponding time unit (e.g. 1s, 2m, 3h). A value of zero means don't timeout requests.",
        long,
        global = true,
        default_value = "0"
    )]
    pub request_timeout: String,
    /// number for the log level verbosity
    #[arg(short = 'v', long = "v", global = true, default_value_t = 0)]
    pub v: u8,
    /// Treat warnings received from the server as errors and exit with a non-zero exit code
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub warnings_as_errors: bool,
    /// If true, opt-out of response compression for all requests to the server
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub disable_compression: bool,
    /// Require server version to match client version
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub match_server_version: bool,
    /// When to use colors: auto (on a terminal), always or never
    #[arg(long, global = true, default_value = "auto", num_args = 0..=1, require_equals = true, default_missing_value = "always")]
    pub color: String,
    /// Default cache directory
    #[arg(long, global = true)]
    pub cache_dir: Option<String>,
    /// Maximum number of seconds between log flushes
    #[arg(long, global = true, default_value = "5s", hide = true)]
    pub log_flush_frequency: String,
    /// comma-separated list of pattern=N settings for file-filtered logging (only works for the default text log format)
    #[arg(long, global = true, default_value = "", hide = true)]
    pub vmodule: String,
    /// Name of profile to capture. One of (none|cpu|heap|goroutine|threadcreate|block|mutex)
    #[arg(long, global = true, default_value = "none", hide = true)]
    pub profile: String,
    /// Name of the file to write the profile to
    #[arg(long, global = true, default_value = "profile.pprof", hide = true)]
    pub profile_output: String,
}
