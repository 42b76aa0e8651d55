//! Proofs that are believed, and those that aren't.
//!
//! # In Kubernetes
//! `pkg/serviceaccount/jwt_test.go`, `apiserver/pkg/authentication/request/x509/x509_test.go`.

use std::sync::Arc;

use http::HeaderMap;
use jiff::{Timestamp, ToSpan};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::impersonation::{Refusal, impersonate};
use super::service_account::{Bound, EXTENDABLE_SECONDS, ISSUER, Named, Signer, TokenError, TokenSpec};
use super::x509::PeerCertificates;
use super::*;
use crate::authorization::{ClusterAuthorizer, SYSTEM_MASTERS};
use crate::pki::{Identity, Pki};

fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

struct Objects<'a>(Vec<(&'static str, &'static str, &'a str)>);

impl service_account::BoundObjects for Objects<'_> {
    fn uid(&self, resource: &'static str, _: &str, name: &str) -> Option<String> {
        let found = self.0.iter().find(|(r, n, _)| *r == resource && *n == name);
        found.map(|(_, _, uid)| (*uid).to_owned())
    }

    fn secret_token(&self, _: &str, name: &str) -> Option<String> {
        let found = self.0.iter().find(|(r, n, _)| *r == "secrets" && *n == name);
        found.map(|(_, _, token)| (*token).to_owned())
    }
}

fn objects() -> Objects<'static> {
    Objects(vec![("serviceaccounts", "robot", "sa1"), ("pods", "web", "p1"), ("nodes", "n1", "n-uid")])
}

fn signer() -> Signer {
    Signer::new(&rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap()
}

fn named(name: &str, uid: &str) -> Named {
    Named { name: name.into(), uid: uid.into() }
}

fn spec() -> TokenSpec {
    let bound = Bound {
        namespace: "az".into(),
        serviceaccount: named("robot", "sa1"),
        pod: Some(named("web", "p1")),
        node: Some(named("n1", "n-uid")),
        ..Bound::default()
    };
    TokenSpec { bound, audiences: Vec::new(), expiration_seconds: 600 }
}

#[test]
fn a_token_names_its_service_account() {
    let signer = signer();
    let token = signer.issue(&spec(), now(), "id-1").unwrap();
    assert_eq!(token.expiration, now() + 600.seconds());
    let user = signer.verify(&token.token, &[], now(), &objects()).unwrap();
    assert_eq!(user.name, "system:serviceaccount:az:robot");
    assert_eq!(user.uid, "sa1");
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:az"]);
    assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["web"]);
    assert_eq!(user.extra["authentication.kubernetes.io/credential-id"], ["JTI=id-1"]);
}

#[test]
fn a_token_dies_with_its_time_its_pod_or_its_account() {
    let signer = signer();
    let token = signer.issue(&spec(), now(), "id-1").unwrap().token;
    let verify = |at: Timestamp, objects: &Objects<'_>| signer.verify(&token, &[], at, objects).unwrap_err();
    // Clocks may differ by a minute.
    assert!(signer.verify(&token, &[], now() + 660.seconds(), &objects()).is_ok());
    assert_eq!(verify(now() + 661.seconds(), &objects()), TokenError::Time);
    assert!(signer.verify(&token, &[], now() - 60.seconds(), &objects()).is_ok());
    assert_eq!(verify(now() - 61.seconds(), &objects()), TokenError::Time);
    let new_pod = Objects(vec![("serviceaccounts", "robot", "sa1"), ("pods", "web", "p2")]);
    assert_eq!(verify(now(), &new_pod), TokenError::Gone("the pod"));
    assert_eq!(verify(now(), &Objects(vec![("pods", "web", "p1")])), TokenError::Gone("the service account"));
}

#[test]
fn a_token_is_worth_nothing_elsewhere() {
    let signer = signer();
    let vault = vec!["vault".to_owned()];
    let token = signer.issue(&TokenSpec { audiences: vault.clone(), ..spec() }, now(), "1").unwrap().token;
    assert_eq!(signer.verify(&token, &[], now(), &objects()), Err(TokenError::Audience));
    assert!(signer.verify(&token, &vault, now(), &objects()).is_ok());
    let other = self::signer();
    assert_eq!(other.verify(&token, &vault, now(), &objects()), Err(TokenError::Foreign));
    let (signed, _) = token.rsplit_once('.').unwrap();
    for forged in [format!("{signed}."), format!("{signed}.AAAA"), signed.to_owned(), "a.b.c".into()] {
        assert!(signer.verify(&forged, &vault, now(), &objects()).is_err(), "{forged}");
    }
}

#[test]
fn a_token_of_a_secret_is_good_while_the_secret_holds_it() {
    let signer = signer();
    let claims = legacy_token::LegacyClaims {
        iss: legacy_token::LEGACY_ISSUER.into(),
        namespace: "az".into(),
        secret: "robot-token".into(),
        account: "robot".into(),
        uid: "sa1".into(),
        sub: "system:serviceaccount:az:robot".into(),
    };
    let token = signer.issue_legacy(&claims).unwrap();
    let holding =
        |token, uid| Objects(vec![("serviceaccounts", "robot", uid), ("secrets", "robot-token", token)]);
    let verify =
        |objects: &Objects<'_>, audiences: &[String]| signer.verify(&token, audiences, now(), objects);
    let user = verify(&holding(&token, "sa1"), &[]).unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:az:robot", "sa1"));
    assert!(verify(&holding(&token, "sa1"), &["vault".into()]).is_err());
    assert_eq!(verify(&holding("another", "sa1"), &[]), Err(TokenError::Gone("the secret")));
    assert_eq!(verify(&holding(&token, "sa2"), &[]), Err(TokenError::Gone("the service account")));
    let forged = legacy_token::LegacyClaims { sub: "system:serviceaccount:az:boss".into(), ..claims };
    let forged = signer.issue_legacy(&forged).unwrap();
    assert_eq!(signer.verify(&forged, &[], now(), &holding(&forged, "sa1")), Err(TokenError::Foreign));
}

#[test]
fn the_kubelets_tokens_live_longer_than_they_say() {
    let signer = signer();
    let spec = TokenSpec { expiration_seconds: EXTENDABLE_SECONDS, ..spec() };
    let token = signer.issue(&spec, now(), "1").unwrap();
    assert_eq!(token.expiration, now() + EXTENDABLE_SECONDS.seconds());
    assert!(signer.verify(&token.token, &[ISSUER.into()], now() + 300.hours(), &objects()).is_ok());
}

#[test]
fn a_certificate_is_believed_only_from_our_ca() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let pki = Pki::open(dir.path(), now()).unwrap();
    let strange = Pki::open(other.path(), now()).unwrap();
    let verifier = x509::Verifier::new(pki.ca_pem()).unwrap();
    let identity = Identity::new("jane", &["dev", "ops", "qa"]);
    let peer = |pki: &Pki| {
        let made = pki.client("jane", &identity).unwrap();
        let leaf = CertificateDer::from_pem_slice(made.certificate_pem.as_bytes()).unwrap();
        PeerCertificates::new(vec![leaf])
    };
    let user = verifier.user(&peer(&pki), now()).unwrap();
    let credential = &user.extra["authentication.kubernetes.io/credential-id"][0];
    assert!(credential.starts_with("X509SHA256=") && credential.len() == "X509SHA256=".len() + 64);
    let plain = UserInfo { extra: Default::default(), ..(*user).clone() };
    assert_eq!(plain, UserInfo::new("jane", &["dev", "ops", "qa", ALL_AUTHENTICATED]));
    assert!(verifier.user(&peer(&strange), now()).is_err());
    assert!(verifier.user(&PeerCertificates::default(), now()).is_err());
}

#[test]
fn a_connection_is_believed_as_long_as_its_certificate_is_valid_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::open(dir.path(), now()).unwrap();
    let verifier = x509::Verifier::new(pki.ca_pem()).unwrap();
    let made = pki.client("jane", &Identity::new("jane", &[])).unwrap();
    let leaf = CertificateDer::from_pem_slice(made.certificate_pem.as_bytes()).unwrap();
    let end = crate::pki::inspect(&made.certificate_pem).unwrap().not_after;
    let peer = PeerCertificates::new(vec![leaf]);
    assert!(verifier.user(&peer, now() - 1000.hours()).is_err());
    let first = verifier.user(&peer, now()).unwrap();
    assert!(Arc::ptr_eq(&first, &verifier.user(&peer, end).unwrap()), "looked at once");
    assert!(verifier.user(&peer, end + 1.seconds()).is_err());
    assert!(verifier.user(&peer, now() - 1000.hours()).is_err());
    assert!(Arc::ptr_eq(&first, &verifier.user(&peer, now() - 1.seconds()).unwrap()));
}

#[test]
fn a_static_token_has_a_user_and_groups() {
    let file = token_file::TokenFile::parse("t0p,jane,1,\"dev,ops\"\n\nx,joe,2\n").unwrap();
    let jane = file.user("t0p").unwrap();
    assert_eq!((jane.name.as_str(), jane.groups), ("jane", vec!["dev".to_owned(), "ops".into()]));
    assert_eq!(file.user("x").unwrap().name, "joe");
    assert_eq!(file.user("t0"), None);
    assert!(token_file::TokenFile::parse("t,u").is_err());
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect::<HeaderMap>()
}

#[test]
fn only_who_may_impersonate_gets_another_name() {
    let authorizer = ClusterAuthorizer::default();
    let admin = Arc::new(UserInfo::new("admin", &[SYSTEM_MASTERS]));
    let other = |pairs: &[(&'static str, &str)]| impersonate(&headers(pairs), &admin, &authorizer);
    assert_eq!(other(&[]).unwrap(), None);
    let alice = other(&[("impersonate-user", "alice")]).unwrap().unwrap();
    assert_eq!(alice, UserInfo::new("alice", &[ALL_AUTHENTICATED]));
    let robot = other(&[("impersonate-user", "system:serviceaccount:az:robot")]).unwrap().unwrap();
    assert_eq!(robot.groups, ["system:serviceaccounts", "system:serviceaccounts:az", ALL_AUTHENTICATED]);
    let refusal = other(&[("impersonate-uid", "x")]).unwrap_err();
    let text = "requested [{UID  x  authentication.k8s.io/v1  }] without impersonating a user";
    assert_eq!(refusal, Refusal::WithoutUser(text.into()));
    let scheduler = Arc::new(UserInfo::new("system:kube-scheduler", &[]));
    let refused =
        |user: &str| match impersonate(&headers(&[("impersonate-user", user)]), &scheduler, &authorizer) {
            Err(Refusal::Forbidden(status)) => status.message,
            other => panic!("{other:?}"),
        };
    assert_eq!(
        refused("alice"),
        "users \"alice\" is forbidden: User \"system:kube-scheduler\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
    assert_eq!(
        refused("system:serviceaccount:az:robot"),
        "serviceaccounts \"robot\" is forbidden: User \"system:kube-scheduler\" cannot impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \"az\""
    );
}
