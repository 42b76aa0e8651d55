//! Tokens of a provider: whom they name, and which aren't believed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::PublicKeyData;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().expect("a time")
}

fn config() -> Config {
    Config {
        issuer_url: "https://idp".into(),
        client_id: "kubernetes".into(),
        username_claim: "sub".into(),
        groups_claim: "groups".into(),
        groups_prefix: "idp:".into(),
        signing_algorithms: vec!["ES256".into()],
        ..Config::default()
    }
}

struct Provider(EcdsaKeyPair);

impl Provider {
    fn new() -> Self {
        let key = rcgen::KeyPair::generate().expect("a key");
        assert!(!key.der_bytes().is_empty());
        let der = key.serialize_der();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new());
        Provider(pair.expect("a P-256 key"))
    }

    fn keys(&self, id: &str) -> Vec<Key> {
        let public = self.0.public_key().as_ref();
        let part = |from: usize| URL_SAFE_NO_PAD.encode(&public[from..from + 32]);
        let key = json!({"kty": "EC", "crv": "P-256", "kid": id, "x": part(1), "y": part(33)});
        jwt::keys(&json!({"keys": [key, {"kty": "oct", "k": "AAAA"}]}))
    }

    fn token(&self, header: Value, change: Value) -> String {
        let mut claims = json!({
            "iss": "https://idp", "aud": "kubernetes", "sub": "jane", "groups": ["dev"],
            "exp": now().as_second() + 60,
        });
        for (key, value) in change.as_object().expect("a map") {
            claims[key] = value.clone();
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

fn read(provider: &Provider, change: Value) -> Unverified {
    jwt::parse(&provider.token(json!({"alg": "ES256", "kid": "1"}), change)).expect("a token")
}

#[test]
fn a_users_name_and_groups_have_prefixes() {
    let provider = Provider::new();
    let token = read(&provider, json!({"jti": "7"}));
    let jane = user(&config(), &token, now()).expect("believed");
    assert_eq!((jane.name.as_str(), jane.groups), ("https://idp#jane", vec!["idp:dev".to_owned()]));
    assert_eq!(jane.extra["authentication.kubernetes.io/credential-id"], ["JTI=7"]);
    let bare = Config { username_prefix: "-".into(), ..config() };
    assert_eq!(user(&bare, &token, now()).expect("believed").name, "jane");
    let one = read(&provider, json!({"groups": "ops", "email": "j@x"}));
    let by_mail = Config { username_claim: "email".into(), ..config() };
    let jane = user(&by_mail, &one, now()).expect("believed");
    assert_eq!((jane.name.as_str(), jane.groups), ("j@x", vec!["idp:ops".to_owned()]));
}

#[test]
fn a_token_for_others_of_another_time_or_without_a_claim_is_refused() {
    let provider = Provider::new();
    let refused = |config: &Config, change: Value| user(config, &read(&provider, change), now()).is_err();
    let at = |seconds: i64| json!(now().as_second() + seconds);
    assert!(refused(&config(), json!({"aud": "other"})));
    assert!(!refused(&config(), json!({"aud": ["other", "kubernetes"]})));
    assert!(refused(&config(), json!({"exp": at(-1)})) && refused(&config(), json!({"exp": null})));
    assert!(refused(&config(), json!({"nbf": at(301)})) && !refused(&config(), json!({"nbf": at(299)})));
    assert!(refused(&config(), json!({"sub": null})));
    let by_mail = Config { username_claim: "email".into(), ..config() };
    assert!(refused(&by_mail, json!({"email": "j@x", "email_verified": false})));
    let strict = Config { required_claims: vec![("hd".into(), "x.org".into())], ..config() };
    assert!(refused(&strict, json!({})) && !refused(&strict, json!({"hd": "x.org"})));
}

#[test]
fn only_the_providers_key_and_a_real_algorithm_make_a_signature() {
    let (provider, other) = (Provider::new(), Provider::new());
    let keys = provider.keys("1");
    assert_eq!(keys.len(), 1);
    assert!(read(&provider, json!({})).is_signed_by(&keys));
    assert!(!read(&other, json!({})).is_signed_by(&keys));
    assert!(!read(&provider, json!({})).is_signed_by(&provider.keys("2")));
    for algorithm in ["none", "HS256", "RS256", "ES384"] {
        let token = provider.token(json!({"alg": algorithm, "kid": "1"}), json!({}));
        assert!(!jwt::parse(&token).expect("a token").is_signed_by(&keys), "{algorithm}");
    }
    for text in ["", "a", "a.b", "a.b.c", "a.b.c.d", "..", "e30.e30."] {
        assert_eq!(jwt::parse(text), None, "{text}");
    }
}

#[test]
fn the_flags_belong_together() {
    assert_eq!(config().check(), Ok(()));
    assert!(Config { client_id: String::new(), ..config() }.check().is_err());
    assert!(Config { issuer_url: "http://idp".into(), ..config() }.check().is_err());
    assert!(Config { signing_algorithms: vec!["HS256".into()], ..config() }.check().is_err());
    assert_eq!(split("https://h:1/a/b"), Some(("https://h:1", "/a/b")));
    assert_eq!(split("https://h"), Some(("https://h", "/")));
}
