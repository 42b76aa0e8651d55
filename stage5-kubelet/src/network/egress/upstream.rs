//! The host's own proxy: `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, read as Go programs read them.
//!
//! *Step 5 of a pod's journey.* Before: [`super`] wants a registry. After: it knows whom to ask for it.
//!
//! # Invariants
//! 1. The host's loopback is never asked for at a proxy.
//!
//! # In Kubernetes
//! `golang.org/x/net/http/httpproxy`. Left out: `https://` and `socks5://` proxies (they are passed over).

use std::fmt;

use base64::Engine as _;
use percent_encoding::percent_decode_str;

use stage1_kubectl::client::no_proxy::is_direct;

/// One proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    host: String,
    port: u16,
    authorization: Option<String>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Proxy {
    /// `http://user:password@proxy.test:3128`, or without scheme.
    fn parse(text: &str) -> Option<Self> {
        let bare = match text.split_once("://") {
            Some(("http", bare)) => bare,
            Some(_) => return None,
            None => text,
        };
        let bare = bare.split('/').next().unwrap_or(bare);
        let (user, place) = bare.rsplit_once('@').map_or((None, bare), |(user, place)| (Some(user), place));
        let (host, port) = place.rsplit_once(':').unwrap_or((place, "80"));
        if host.is_empty() {
            return None;
        }
        let authorization = user.map(|user| {
            let pair = percent_decode_str(user).collect::<Vec<u8>>();
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
        });
        Some(Self { host: host.to_owned(), port: port.parse().ok()?, authorization })
    }

    /// Its name or address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The value of `Proxy-Authorization`, if the proxy wants to know its users.
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }
}

/// Whom the host asks for what.
#[derive(Clone, Debug, Default)]
pub struct Upstream {
    http: Option<Proxy>,
    https: Option<Proxy>,
    direct: String,
}

impl Upstream {
    /// From the environment's variables: the upper case name wins, as in Go.
    pub fn new(variable: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name: &str| {
            let set = |name: &str| variable(name).filter(|value| !value.is_empty());
            set(name).or_else(|| set(&name.to_lowercase()))
        };
        Self {
            http: read("HTTP_PROXY").as_deref().and_then(Proxy::parse),
            https: read("HTTPS_PROXY").as_deref().and_then(Proxy::parse),
            direct: read("NO_PROXY").unwrap_or_default(),
        }
    }

    /// The proxy for a target; `None`: none.
    pub fn proxy_for(&self, scheme: &str, host: &str, port: u16) -> Option<&Proxy> {
        let proxy = if scheme == "https" { self.https.as_ref() } else { self.http.as_ref() };
        proxy.filter(|_| !is_direct(&self.direct, host, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(https: &str, no: &str) -> Upstream {
        Upstream::new(|name| match name {
            "HTTPS_PROXY" => Some(https.to_owned()),
            "no_proxy" => Some(no.to_owned()),
            _ => None,
        })
    }

    #[test]
    fn the_hosts_proxy_is_asked_but_for_what_no_proxy_names() {
        let proxies = upstream("http://us%65r:pw@proxy.test:3128", "corp.test, .dot.test,10.0.0.0/8,9.9.9.9");
        let proxy = proxies.proxy_for("https", "registry.k8s.io", 443).expect("a proxy");
        assert_eq!((proxy.host(), proxy.port()), ("proxy.test", 3128));
        assert_eq!(proxy.authorization(), Some("Basic dXNlcjpwdw=="));
        for direct in
            ["corp.test", "a.corp.test", "b.dot.test", "10.1.2.3", "9.9.9.9", "localhost", "127.0.0.2"]
        {
            assert!(proxies.proxy_for("https", direct, 443).is_none(), "{direct} is direct");
        }
        for asked in ["xcorp.test", "dot.test", "11.1.2.3"] {
            assert!(proxies.proxy_for("https", asked, 443).is_some(), "{asked} goes by the proxy");
        }
        assert!(proxies.proxy_for("http", "registry.k8s.io", 80).is_none(), "only HTTPS_PROXY is set");
    }

    #[test]
    fn what_is_no_http_proxy_is_passed_over() {
        for text in ["socks5://p:1", "https://p:1", "", "http://:80", "http://p:x"] {
            assert!(upstream(text, "").proxy_for("https", "a.test", 443).is_none(), "{text}");
        }
        assert!(upstream("proxy:8080", "*").proxy_for("https", "a.test", 443).is_none());
        assert!(upstream("proxy", "").proxy_for("https", "a.test", 443).is_some_and(|p| p.port() == 80));
    }

    #[test]
    fn passwords_are_not_printed() {
        assert!(!format!("{:?}", upstream("http://u:secret@p:1", "")).contains("secret"));
    }
}
