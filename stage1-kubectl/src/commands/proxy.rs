//! `kubectl proxy`: a plain local address that leads to the API server, with our credentials.
//!
//! *Beside a pod's journey.* A browser or `curl` has no client certificate. The proxy listens on this machine, takes any request, adds
//! who we are and sends it on; answers are passed through as they come, watches and upgraded connections included.
//!
//! The subtle thing is that *every* local program, and every web page in the user's browser, can send requests to such an address. So
//! [`filter`] lets through only what names a local host (a page that rebinds DNS names another), and no `exec` or `attach`.
//!
//! # Invariants
//! 1. A refused request never reaches the API server.
//! 2. Files are served from below `--www` only.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/proxy/proxy.go`, `kubectl/pkg/proxy/proxy_server.go`. Left out: request bodies are read to their end (up to 64 MiB)
//! before they are sent on; `--keepalive` of the listening socket.
#![expect(clippy::disallowed_methods, reason = "shell: listens on a local address")]

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

use crate::client::Client;
use crate::context::{Context, eprint};
use crate::failure::Failure;

mod filter;
mod files;
mod forward;

use filter::Filter;

/// Flags of `kubectl proxy`.
#[derive(Debug, Clone, Args)]
pub struct ProxyArgs {
    /// The IP address on which to serve on.
    #[arg(long, default_value = "127.0.0.1")]
    pub address: String,
    /// The port on which to run the proxy. Set to 0 to pick a random port.
    #[arg(short = 'p', long, default_value_t = DEFAULT_PORT)]
    pub port: u16,
    /// Unix socket on which to run the proxy.
    #[arg(short = 'u', long, default_value = "", hide_default_value = true)]
    pub unix_socket: String,
    /// Prefix to serve the proxied API under.
    #[arg(long, default_value = "/")]
    pub api_prefix: String,
    /// If true, enables automatic path appending of the kube context server path to each request.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub append_server_path: bool,
    /// Also serve static files from the given directory under the specified prefix.
    #[arg(short = 'w', long, default_value = "", hide_default_value = true)]
    pub www: String,
    /// Prefix to serve static files under, if static file directory is specified.
    #[arg(short = 'P', long, default_value = "/static/")]
    pub www_prefix: String,
    /// Regular expression for hosts that the proxy should accept.
    #[arg(long, default_value = filter::DEFAULT_HOSTS)]
    pub accept_hosts: String,
    /// Regular expression for paths that the proxy should accept.
    #[arg(long, default_value = filter::DEFAULT_PATHS)]
    pub accept_paths: String,
    /// Regular expression for paths that the proxy should reject. Paths specified here will be rejected even accepted by --accept-paths.
    #[arg(long, default_value = filter::DEFAULT_REJECTED_PATHS)]
    pub reject_paths: String,
    /// Regular expression for HTTP methods that the proxy should reject (example --reject-methods='POST,PUT,PATCH').
    #[arg(long, default_value = filter::DEFAULT_REJECTED_METHODS)]
    pub reject_methods: String,
    /// If true, disable request filtering in the proxy. This is dangerous, and can leave you vulnerable to XSRF attacks.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub disable_filter: bool,
    /// keepalive specifies the keep-alive period for an active network connection. Set to 0 to disable keepalive.
    #[arg(long, default_value = "0s")]
    pub keepalive: String,
}

const DEFAULT_PORT: u16 = 8001;

/// What every request needs.
struct Proxy {
    client: Client,
    /// `None` lets everything through.
    filter: Option<Filter>,
    /// With slashes at both ends.
    api_prefix: String,
    /// The prefix and the folder of files.
    files: Option<(String, PathBuf)>,
}

/// Runs `kubectl proxy` until it is interrupted.
///
/// # Errors
/// The address is taken, or an expression is none.
pub async fn run(ctx: &Context, args: ProxyArgs) -> Result<(), Failure> {
    if args.port != DEFAULT_PORT && !args.unix_socket.is_empty() {
        return Err(Failure::message("cannot set --unix-socket and --port at the same time"));
    }
    if !args.www.is_empty() && !PathBuf::from(&args.www).is_dir() {
        ctx.warn(&format!("Warning: static file root path {} is not a directory\n", args.www));
    }
    let filter = match args.disable_filter {
        true => {
            if args.unix_socket.is_empty() {
                ctx.warn(
                    "Request filter disabled, your proxy is vulnerable to XSRF attacks, please be cautious\n",
                );
            }
            None
        }
        false => Some(Filter::parse(&args).map_err(Failure::message)?),
    };
    let mut config = ctx.client_config()?;
    if !args.append_server_path {
        let host = config.host().to_string();
        let scheme = config.server.split("://").next().unwrap_or("https").to_string();
        config.server = format!("{scheme}://{host}");
    }
    let slashes = |prefix: &str| format!("/{}/", prefix.trim_matches('/')).replace("//", "/");
    let proxy = Arc::new(Proxy {
        client: Client::new(config)?,
        filter,
        api_prefix: slashes(&args.api_prefix),
        files: (!args.www.is_empty()).then(|| (slashes(&args.www_prefix), PathBuf::from(&args.www))),
    });
    tokio::select! {
        () = crate::signals::shutdown() => Ok(()),
        ended = listen(ctx, &args, proxy) => ended,
    }
}

async fn listen(ctx: &Context, args: &ProxyArgs, proxy: Arc<Proxy>) -> Result<(), Failure> {
    if !args.unix_socket.is_empty() {
        let listener = bind_private(Path::new(&args.unix_socket))?;
        ctx.print(&format!("Starting to serve on {}\n", args.unix_socket));
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(serve(stream, proxy.clone()));
        }
    }
    let host = args.address.trim_matches(['[', ']']);
    let listener = TcpListener::bind((host, args.port)).await.map_err(|e| {
        let why = if e.kind() == std::io::ErrorKind::AddrInUse {
            "address already in use".into()
        } else {
            e.to_string()
        };
        Failure::message(format!("listen tcp {}:{}: bind: {why}", args.address, args.port))
    })?;
    ctx.print(&format!("Starting to serve on {}\n", listener.local_addr()?));
    loop {
        let (stream, _) = listener.accept().await?;
        let _ = stream.set_nodelay(true);
        tokio::spawn(serve(stream, proxy.clone()));
    }
}

/// A socket for its owner only. One that an earlier proxy left behind makes room; any other file stays.
fn bind_private(path: &Path) -> std::io::Result<UnixListener> {
    use std::os::unix::fs::FileTypeExt as _;
    if std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let mask = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    let listener = UnixListener::bind(path);
    nix::sys::stat::umask(mask);
    listener
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, proxy: Arc<Proxy>) {
    let answer = service_fn(move |request| {
        let proxy = proxy.clone();
        async move { Ok::<_, Infallible>(forward::answer(&proxy, request).await) }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    if let Err(error) = connection.with_upgrades().await
        && !error.is_incomplete_message()
    {
        eprint(&format!("error while proxying request: {error}\n"));
    }
}
