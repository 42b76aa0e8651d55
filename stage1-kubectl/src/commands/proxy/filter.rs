//! The proxy's filter: which requests may use our credentials.
//!
//! Four lists of regular expressions, separated by commas: hosts and paths that are accepted, paths and methods that are rejected. A
//! rejection wins. The host is what the client *named*, not where it comes from: that is what keeps out a web page whose name was
//! rebound to 127.0.0.1.
//!
//! # In Kubernetes
//! `FilterServer` in `kubectl/pkg/proxy/proxy_server.go`.

use regex::Regex;

use super::ProxyArgs;

pub(super) const DEFAULT_HOSTS: &str = r"^localhost$,^127\.0\.0\.1$,^\[::1\]$";
pub(super) const DEFAULT_PATHS: &str = "^.*";
pub(super) const DEFAULT_REJECTED_PATHS: &str = "^/api/.*/pods/.*/exec,^/api/.*/pods/.*/attach";
pub(super) const DEFAULT_REJECTED_METHODS: &str = "^$";

/// The four lists.
pub(super) struct Filter {
    accept_hosts: Vec<Regex>,
    accept_paths: Vec<Regex>,
    reject_paths: Vec<Regex>,
    reject_methods: Vec<Regex>,
}

impl Filter {
    /// Reads the lists from the flags.
    pub(super) fn parse(args: &ProxyArgs) -> Result<Self, String> {
        let list = |text: &str| -> Result<Vec<Regex>, String> {
            text.split(',').map(|one| Regex::new(one).map_err(|e| e.to_string())).collect()
        };
        Ok(Filter {
            accept_hosts: list(&args.accept_hosts)?,
            accept_paths: list(&args.accept_paths)?,
            reject_paths: list(&args.reject_paths)?,
            reject_methods: list(&args.reject_methods)?,
        })
    }

    /// Whether a request may pass; `host` as in its header.
    pub(super) fn accepts(&self, method: &str, path: &str, host: &str) -> bool {
        let any = |list: &[Regex], text: &str| list.iter().any(|one| one.is_match(text));
        !any(&self.reject_paths, path)
            && !any(&self.reject_methods, method)
            && any(&self.accept_paths, path)
            && any(&self.accept_hosts, without_port(host))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ProxyArgs,
    }

    fn filter(flags: &[&str]) -> Filter {
        let line = Line::parse_from(std::iter::once(&"proxy").chain(flags));
        Filter::parse(&line.args).unwrap()
    }

    #[test]
    fn only_local_names_pass_and_no_exec() {
        let filter = filter(&[]);
        assert!(filter.accepts("GET", "/api/v1/pods", "localhost:8001"));
        assert!(filter.accepts("DELETE", "/api/v1/pods", "127.0.0.1"));
        assert!(filter.accepts("GET", "/", "[::1]:8001"));
        assert!(!filter.accepts("GET", "/api/v1/pods", "evil.example:8001"));
        assert!(!filter.accepts("GET", "/api/v1/pods", "127.0.0.1.evil.example"));
        assert!(!filter.accepts("POST", "/api/v1/namespaces/a/pods/b/exec", "localhost"));
        assert!(!filter.accepts("POST", "/api/v1/namespaces/a/pods/b/attach?x=y", "localhost"));
    }

    #[test]
    fn methods_and_paths_can_be_refused() {
        let filter = filter(&["--reject-methods=POST,PUT,PATCH", "--accept-paths=^/api/v1,^/version"]);
        assert!(filter.accepts("GET", "/version", "localhost"));
        assert!(!filter.accepts("PUT", "/version", "localhost"));
        assert!(!filter.accepts("GET", "/apis", "localhost"));
    }
}
