//! ServiceAccount tokens: how a program in a pod says who it is.
//!
//! *Step 2 of a pod's journey.* Before: the kubelet asked for a token for a pod ([`issue`]). After: the program shows it, and is
//! `system:serviceaccount:NAMESPACE:NAME` ([`Verifier::verify`]).
//!
//! A token is a JWT, signed by the cluster's service-account key (ES256). It names the ServiceAccount and what it is bound to
//! (a pod, Secret or node), each with its uid, and is worth nothing once one of them is gone or has been made anew under the same
//! name: that is how a token dies with its pod, long before it expires.
//!
//! # Invariants
//! 1. Only our own key and ES256 are accepted: the token doesn't choose how it is checked.
//! 2. A token is valid only while every object that it names exists with the same uid.
//!
//! # In Kubernetes
//! `pkg/serviceaccount/{jwt,claims}.go`. Tokens of the old Secret kind are
//! [`super::legacy_token`]'s. Left out: RS256 keys, several keys.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use rcgen::{KeyPair as RcgenKey, PublicKeyData};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::UserInfo;
use super::legacy_token::{self, LEGACY_ISSUER, LegacyClaims};

/// `iss`, and the audience of the API server.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The lifetime that the kubelet asks for; such tokens live a year for clients that never reload them, with a warning after it.
pub const EXTENDABLE_SECONDS: i64 = 3607;
/// Clocks may differ by this much, and what is deleted counts for as long.
pub const LEEWAY_SECONDS: i64 = 60;
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;
pub(super) const USER_PREFIX: &str = "system:serviceaccount:";

/// Name and uid of an object that a token names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The uid.
    #[serde(default)]
    pub uid: String,
}

/// The claim `kubernetes.io`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bound {
    /// The namespace.
    pub namespace: String,
    /// The node of the pod, or the node that the token is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Named>,
    /// The pod that the token is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Named>,
    /// The Secret that the token is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Named>,
    /// The ServiceAccount.
    pub serviceaccount: Named,
    /// When the client should have loaded a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    aud: Vec<String>,
    exp: i64,
    iat: i64,
    iss: String,
    jti: String,
    #[serde(rename = "kubernetes.io")]
    bound: Bound,
    nbf: i64,
    sub: String,
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    kid: String,
}

/// What is asked for in a TokenRequest, resolved.
#[derive(Debug, Clone, Default)]
pub struct TokenSpec {
    /// Who and what for; `warnafter` is set here.
    pub bound: Bound,
    /// `spec.audiences`; empty: the API server's.
    pub audiences: Vec<String>,
    /// `spec.expirationSeconds`.
    pub expiration_seconds: i64,
}

/// A signed token.
#[derive(Clone)]
pub struct Token {
    /// The JWT.
    pub token: String,
    /// `status.expirationTimestamp`.
    pub expiration: Timestamp,
}

/// The service-account key.
pub struct Signer {
    key: EcdsaKeyPair,
    kid: String,
    public: Vec<u8>,
}

/// Which objects exist: namespace and name (of a resource of the core group) to uid.
pub trait BoundObjects: Send + Sync {
    /// The uid of an object that isn't being deleted since [`LEEWAY_SECONDS`].
    fn uid(&self, resource: &'static str, namespace: &str, name: &str) -> Option<String>;
    /// The token in a Secret of the old kind.
    fn secret_token(&self, namespace: &str, name: &str) -> Option<String>;
}

/// Why a token isn't believed; for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It isn't a token of ours at all.
    #[error("not a service account token of this cluster")]
    Foreign,
    /// The signature is wrong.
    #[error("the token's signature is wrong")]
    Signature,
    /// Too late, or too early.
    #[error("the token is expired or not yet valid")]
    Time,
    /// It is for somebody else.
    #[error("the token is for another audience")]
    Audience,
    /// What it names is gone.
    #[error("{0} of the token is gone")]
    Gone(&'static str),
}

impl Signer {
    /// The key from its PEM text (PKCS#8, P-256).
    ///
    /// # Errors
    /// It isn't such a key.
    pub fn new(key_pem: &str) -> Result<Self, String> {
        let parsed = RcgenKey::from_pem(key_pem).map_err(|e| format!("service-account key: {e}"))?;
        let kid = URL_SAFE_NO_PAD.encode(Sha256::digest(parsed.subject_public_key_info()));
        let der = parsed.serialize_der();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new())
            .map_err(|e| format!("service-account key: {e}"))?;
        let public = key.public_key().as_ref().to_vec();
        Ok(Signer { key, kid, public })
    }

    /// The document at `/openid/v1/jwks`.
    pub fn jwks(&self) -> serde_json::Value {
        // An uncompressed point is 4, x, y.
        let coordinate = |from: usize| URL_SAFE_NO_PAD.encode(&self.public[from..from + 32]);
        serde_json::json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": self.kid, "crv": "P-256", "alg": "ES256",
            "x": coordinate(1), "y": coordinate(33),
        }]})
    }

    /// Issues a token. `jti` is a new random id.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn issue(&self, spec: &TokenSpec, now: Timestamp, jti: &str) -> Result<Token, String> {
        let iat = now.as_second();
        let for_us = spec.audiences.is_empty() || spec.audiences.iter().any(|aud| aud == ISSUER);
        let extended = for_us && spec.expiration_seconds == EXTENDABLE_SECONDS;
        let mut bound = spec.bound.clone();
        bound.warnafter = extended.then_some(iat + EXTENDABLE_SECONDS);
        let subject = format!("{USER_PREFIX}{}:{}", bound.namespace, bound.serviceaccount.name);
        let claims = Claims {
            aud: if spec.audiences.is_empty() { vec![ISSUER.into()] } else { spec.audiences.clone() },
            exp: iat + if extended { EXTENDED_SECONDS } else { spec.expiration_seconds },
            iat,
            iss: ISSUER.into(),
            jti: jti.into(),
            bound,
            nbf: iat,
            sub: subject,
        };
        let token = self.sign(&claims)?;
        let expiration = Timestamp::from_second(iat + spec.expiration_seconds).map_err(|e| e.to_string())?;
        Ok(Token { token, expiration })
    }

    /// Issues a token that lives in a Secret and never expires.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn issue_legacy(&self, claims: &LegacyClaims) -> Result<String, String> {
        self.sign(claims)
    }

    fn sign(&self, claims: &impl Serialize) -> Result<String, String> {
        let header = Header { alg: "ES256".into(), kid: self.kid.clone() };
        let part = |json: Vec<u8>| URL_SAFE_NO_PAD.encode(json);
        let header = part(serde_json::to_vec(&header).expect("a plain struct"));
        let payload = part(serde_json::to_vec(claims).expect("a plain struct"));
        let signed = format!("{header}.{payload}");
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).map_err(|e| e.to_string())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }

    /// Whether a token claims to be one of ours (then a failure is a failure, and nobody else is asked).
    pub fn is_ours(&self, token: &str) -> bool {
        let header = token.split('.').next().and_then(decode::<Header>);
        header.is_some_and(|header| header.kid == self.kid)
    }

    /// Checks a token for one of the audiences (empty: the API server's) and gives its user.
    ///
    /// # Errors
    /// Why it isn't believed.
    pub fn verify(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
        objects: &dyn BoundObjects,
    ) -> Result<UserInfo, TokenError> {
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenError::Foreign);
        };
        let Header { alg, kid } = decode(header).ok_or(TokenError::Foreign)?;
        if alg != "ES256" || kid != self.kid {
            return Err(TokenError::Foreign);
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Signature)?;
        let signed = &token[..header.len() + 1 + payload.len()];
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.public)
            .verify(signed.as_bytes(), &signature)
            .map_err(|_| TokenError::Signature)?;
        if let Some(claims) = decode::<LegacyClaims>(payload).filter(|c| c.iss == LEGACY_ISSUER) {
            return match audiences.is_empty() || audiences.iter().any(|aud| aud == ISSUER) {
                true => legacy_token::verify(&claims, token, objects),
                false => Err(TokenError::Audience),
            };
        }
        let claims: Claims = decode(payload).ok_or(TokenError::Foreign)?;
        if claims.iss != ISSUER {
            return Err(TokenError::Foreign);
        }
        let now = now.as_second();
        if now - LEEWAY_SECONDS > claims.exp || now + LEEWAY_SECONDS < claims.nbf.max(claims.iat) {
            return Err(TokenError::Time);
        }
        let wanted = |aud: &String| audiences.contains(aud) || (audiences.is_empty() && aud == ISSUER);
        if !claims.aud.iter().any(wanted) {
            return Err(TokenError::Audience);
        }
        check_bound(&claims.bound, objects)?;
        Ok(user(&claims))
    }
}

fn decode<T: for<'de> Deserialize<'de>>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

fn check_bound(bound: &Bound, objects: &dyn BoundObjects) -> Result<(), TokenError> {
    let namespace = bound.namespace.as_str();
    // A node named next to a pod is information; alone it is what the token is bound to.
    let node = bound.node.as_ref().filter(|_| bound.pod.is_none());
    let named = [
        ("serviceaccounts", "the service account", namespace, Some(&bound.serviceaccount)),
        ("pods", "the pod", namespace, bound.pod.as_ref()),
        ("secrets", "the secret", namespace, bound.secret.as_ref()),
        ("nodes", "the node", "", node),
    ];
    for (resource, what, namespace, named) in named {
        let Some(named) = named else { continue };
        if objects.uid(resource, namespace, &named.name).as_ref() != Some(&named.uid) {
            return Err(TokenError::Gone(what));
        }
    }
    Ok(())
}

fn user(claims: &Claims) -> UserInfo {
    let bound = &claims.bound;
    let mut extra = BTreeMap::new();
    let mut add = |key: &str, value: &str| {
        extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
    };
    add("credential-id", &format!("JTI={}", claims.jti));
    if let Some(pod) = &bound.pod {
        add("pod-name", &pod.name);
        add("pod-uid", &pod.uid);
    }
    if let Some(node) = &bound.node {
        add("node-name", &node.name);
        add("node-uid", &node.uid);
    }
    UserInfo {
        name: format!("{USER_PREFIX}{}:{}", bound.namespace, bound.serviceaccount.name),
        uid: bound.serviceaccount.uid.clone(),
        groups: groups(&bound.namespace),
        extra,
    }
}

/// The groups of a namespace's ServiceAccounts.
pub fn groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")]
}

/// Namespace and name of a user that is a ServiceAccount.
pub fn split_username(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(USER_PREFIX)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}
