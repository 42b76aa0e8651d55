//! The guard: who may ask this server for something.
//!
//! A page on loopback is within reach of every web page that the reader's browser shows, and of every other user of the machine. So each
//! request must bring the token that was printed in the terminal: once in the address, from then on in a cookie that scripts can't read
//! and other sites can't send. `Host` must be our own address (a foreign name that resolves to 127.0.0.1 is a rebinding
//! attack), and a request that changes something must come from our own pages.
//!
//! # Invariants
//! 1. Without the token nothing is answered but a refusal.
//! 2. A POST without our own `Origin` is refused, whatever else it brings.
//!
//! # In Kubernetes
//! `kubectl proxy` has `--accept-hosts` for the same reason (`staging/src/k8s.io/kubectl/pkg/proxy/proxy_server.go`).

use http::{HeaderMap, Method, header};

/// The cookie with the token.
pub const COOKIE: &str = "six-stages-book";
/// The query parameter with the token, in the printed address.
pub const PARAMETER: &str = "token";

/// What the guard says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Go on.
    Yes,
    /// The token is right and came in the address: hand out the cookie, and show an address without it.
    HandOutCookie,
    /// No token, or a wrong one: 401.
    Unknown,
    /// From elsewhere: 403.
    Foreign,
}

/// Who we are.
#[derive(Debug, Clone)]
pub struct Door {
    /// Our port.
    pub port: u16,
    /// Our token.
    pub token: String,
}

// ANCHOR: page-guard
impl Door {
    /// Judges one request by its method, headers and query.
    #[must_use]
    pub fn judge(&self, method: &Method, headers: &HeaderMap, query: &str) -> Pass {
        let value = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        if !value(header::HOST).is_some_and(|host| self.is_us(host)) {
            return Pass::Foreign;
        }
        let origin = value(header::ORIGIN);
        let from_us = origin.and_then(|origin| origin.strip_prefix("http://")).is_some_and(|o| self.is_us(o));
        // Browsers leave `Origin` out of plain reads; where there is one, it must be ours.
        let changes = !matches!(*method, Method::GET | Method::HEAD);
        if !from_us && (changes || origin.is_some()) {
            return Pass::Foreign;
        }
        let site = headers.get("sec-fetch-site").map(|value| value.to_str().unwrap_or("?"));
        if changes && site.is_some_and(|site| site != "same-origin") {
            return Pass::Foreign;
        }
        if value(header::COOKIE).is_some_and(|cookies| self.in_cookie(cookies)) {
            return Pass::Yes;
        }
        match parameter(query, PARAMETER) {
            Some(token) if !changes && same(token, &self.token) => Pass::HandOutCookie,
            _ => Pass::Unknown,
        }
    }

    fn is_us(&self, host: &str) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        matches!(name, "127.0.0.1" | "localhost") && port.parse() == Ok(self.port)
    }

    /// The cookie's name holds the port: two books on one machine don't take each other's.
    fn cookie_name(&self) -> String {
        format!("{COOKIE}-{}", self.port)
    }

    fn in_cookie(&self, cookies: &str) -> bool {
        let name = self.cookie_name();
        let mut pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(key, token)| key == name && same(token, &self.token))
    }

    /// The header that hands out the cookie.
    #[must_use]
    pub fn set_cookie(&self) -> String {
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie_name(), self.token)
    }
}
// ANCHOR_END: page-guard

/// Compares in a time that doesn't tell how much was right.
fn same(given: &str, token: &str) -> bool {
    given.len() == token.len()
        && given.bytes().zip(token.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// A parameter of a query, as it is written.
#[must_use]
pub fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(method: Method, headers: &[(&'static str, &str)], query: &str) -> Pass {
        let door = Door { port: 4000, token: "secret".to_owned() };
        let headers =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        door.judge(&method, &headers, query)
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:4000");
    const COOKIE: (&str, &str) = ("cookie", "a=b; six-stages-book-4000=secret");
    const ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:4000");

    #[test]
    fn the_token_opens_the_door_once_and_the_cookie_from_then_on() {
        assert_eq!(judge(Method::GET, &[HOST], "token=secret"), Pass::HandOutCookie);
        assert_eq!(judge(Method::GET, &[HOST, COOKIE], ""), Pass::Yes);
        assert_eq!(judge(Method::GET, &[("host", "localhost:4000"), COOKIE], ""), Pass::Yes);
        for query in ["", "token=", "token=secreT", "token=secret2"] {
            assert_eq!(judge(Method::GET, &[HOST], query), Pass::Unknown, "{query}");
        }
        let of_another_book = ("cookie", "six-stages-book-4001=secret");
        assert_eq!(judge(Method::GET, &[HOST, of_another_book], ""), Pass::Unknown);
    }

    #[test]
    fn a_name_that_was_bound_to_our_address_is_foreign() {
        for host in ["evil.example:4000", "127.0.0.1:4001", "127.0.0.1", ""] {
            assert_eq!(judge(Method::GET, &[("host", host), COOKIE], ""), Pass::Foreign, "{host}");
        }
        assert_eq!(judge(Method::GET, &[COOKIE], ""), Pass::Foreign);
    }

    #[test]
    fn only_our_own_pages_change_something() {
        assert_eq!(judge(Method::POST, &[HOST, COOKIE, ORIGIN], ""), Pass::Yes);
        assert_eq!(judge(Method::POST, &[HOST, COOKIE], ""), Pass::Foreign);
        assert_eq!(judge(Method::POST, &[HOST, ORIGIN], "token=secret"), Pass::Unknown);
        for origin in ["http://evil.example", "https://127.0.0.1:4000", "null", "http://127.0.0.1:4001"] {
            assert_eq!(
                judge(Method::POST, &[HOST, COOKIE, ("origin", origin)], ""),
                Pass::Foreign,
                "{origin}"
            );
            assert_eq!(
                judge(Method::GET, &[HOST, COOKIE, ("origin", origin)], ""),
                Pass::Foreign,
                "{origin}"
            );
        }
        let cross = ("sec-fetch-site", "same-site");
        assert_eq!(judge(Method::POST, &[HOST, COOKIE, ORIGIN, cross], ""), Pass::Foreign);
    }
}
