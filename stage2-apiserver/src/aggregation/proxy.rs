//! Proxy: a request goes on to another API server, in the name of whoever sent it.
//!
//! # Invariants
//! 1. `X-Remote-*` headers that arrive there are ours, and Authorization headers stay here.
//!
//! # In Kubernetes
//! `kube-aggregator/pkg/apiserver/handler_proxy.go`, `apiserver/pkg/authentication/request/headerrequest`. Left out: upgrades.
#![expect(clippy::disallowed_methods, reason = "shell: chooses an endpoint by chance")]

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use crate::authentication::UserInfo;
use crate::filters::body_limit;
use crate::handlers::Context;
use crate::handlers::pretty::PassedOn;
use crate::handlers::respond::{self, Answer, BoxError};

/// Headers that belong to one connection or to the client's identity.
const NOT_PASSED_ON: [HeaderName; 9] = [
    header::HOST,
    header::AUTHORIZATION,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::CONTENT_LENGTH,
    header::EXPECT,
];
/// What can't stand in a header's name (RFC 9110's tokens), and the sign that begins an escape.
const NOT_IN_A_NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Passes a request on, and the answer back as it comes.
///
/// # Errors
/// A body that is too large, 500 for a user whom no header can name.
pub async fn pass_on(
    context: &Context,
    service: &Object,
    request: Request<Incoming>,
) -> Result<Answer, Status> {
    let server = &context.server;
    let unavailable = |why: String| {
        tracing::debug!(api_service = service.name(), why, "An aggregated API server isn't there");
        Ok(respond::text(StatusCode::SERVICE_UNAVAILABLE, "service unavailable\n"))
    };
    let target = match server.aggregator.target(service, &server.stores, rand::random()) {
        Ok(target) => target,
        Err(why) => return unavailable(why),
    };
    let (mut head, body) = request.into_parts();
    set_identity(&mut head.headers, &context.user)?;
    let authority = HeaderValue::from_str(&target.host).map_err(|e| Status::internal(e.to_string()))?;
    head.headers.insert(header::HOST, authority);
    head.version = http::Version::HTTP_11;
    let body = body_limit::read(body).await?;
    let (mut head, body) = match target.client.forward(Request::from_parts(head, body)).await {
        Ok(answer) => answer.into_parts(),
        Err(error) => {
            let text = format!("error trying to reach service: {error}\n");
            return Ok(respond::text(StatusCode::SERVICE_UNAVAILABLE, text));
        }
    };
    for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
        head.headers.remove(name);
    }
    head.version = http::Version::HTTP_11;
    head.extensions.insert(PassedOn);
    Ok(Response::from_parts(head, body.map_err(|e| Box::new(e) as BoxError).boxed_unsync()))
}

// ANCHOR: remote-user
/// Says whom we have recognised, in place of whatever the client said.
///
/// # Errors
/// 500 for what can't be said: somebody with one group less may be let in where the group is kept out.
fn set_identity(headers: &mut HeaderMap, user: &UserInfo) -> Result<(), Status> {
    let is_claim = |name: &&HeaderName| {
        name.as_str().starts_with("x-remote-") || name.as_str().starts_with("impersonate-")
    };
    let claimed: Vec<HeaderName> = headers.keys().filter(is_claim).cloned().collect();
    for name in NOT_PASSED_ON.iter().chain(&claimed) {
        headers.remove(name);
    }
    let mut say = |name: &str, value: &str| {
        // Names of people are UTF-8, which is what the other side reads.
        let value = HeaderValue::from_bytes(value.as_bytes());
        let (name, value) = HeaderName::try_from(name)
            .ok()
            .zip(value.ok())
            .ok_or_else(|| Status::internal(format!("invalid header field value for {name:?}")))?;
        headers.append(name, value);
        Ok::<(), Status>(())
    };
    say("x-remote-user", &user.name)?;
    if !user.uid.is_empty() {
        say("x-remote-uid", &user.uid)?;
    }
    user.groups.iter().try_for_each(|group| say("x-remote-group", group))?;
    for (key, values) in &user.extra {
        // A key may hold signs that no header's name can. The other side reads names in small letters.
        let name = format!("x-remote-extra-{}", utf8_percent_encode(key, NOT_IN_A_NAME));
        values.iter().try_for_each(|value| say(&name, value))?;
    }
    Ok(())
}
// ANCHOR_END: remote-user

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_another_name_by_a_header() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
            ("impersonate-user", "admin"),
            ("authorization", "Bearer t"),
            ("accept", "*/*"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let mut user = UserInfo::new("jane", &["dev", "ops"]);
        user.extra.insert("example.org/team".into(), vec!["a".into()]);
        user.extra.insert("größe/100%".into(), vec!["größer".into()]);
        set_identity(&mut headers, &user).expect("headers can say this");
        let all = |name: &str| -> Vec<&str> {
            headers.get_all(name).iter().map(|v| v.to_str().expect("text")).collect()
        };
        assert_eq!((all("x-remote-user"), all("x-remote-group")), (vec!["jane"], vec!["dev", "ops"]));
        assert_eq!(all("x-remote-extra-example.org%2fteam"), ["a"]);
        let size = headers.get("x-remote-extra-gr%c3%b6%c3%9fe%2f100%25").expect("escaped byte by byte");
        assert_eq!(size.as_bytes(), "größer".as_bytes());
        assert!(all("authorization").is_empty() && all("impersonate-user").is_empty());
        assert_eq!(all("accept"), ["*/*"]);
    }

    #[test]
    fn who_has_no_ascii_name_keeps_it_and_who_cannot_be_named_is_not_passed_on() {
        let mut headers = HeaderMap::new();
        set_identity(&mut headers, &UserInfo::new("josé", &[])).expect("UTF-8 is fine");
        assert_eq!(headers.get("x-remote-user").expect("said").as_bytes(), "josé".as_bytes());
        let unsayable = UserInfo::new("jane", &["dev", "a\nb"]);
        assert_eq!(set_identity(&mut headers, &unsayable).expect_err("a line break").code, 500);
    }
}
