//! JSON Web Tokens of others: reading one, and checking its signature with the keys that its issuer publishes.
//!
//! *Step 2 of a pod's journey.* Before: a bearer token of three parts. After: its claims, believed.
//!
//! A token says in its header which algorithm made its signature. That is the sender's word, so it is taken only from a list that the
//! server's administrator chose, and only together with a key of that family: a public RSA key is never used as an HMAC secret.
//!
//! # Invariants
//! 1. `none` and HMAC are never accepted.
//! 2. Claims are used only after the signature was checked, but for the issuer, which says whose keys to take.
//!
//! # In Kubernetes
//! `github.com/go-jose/go-jose`, `github.com/coreos/go-oidc`. Left out: ES512 (ring has no P-521), encrypted tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde_json::{Map, Value};

/// Longer tokens are refused unread.
const MAX_TOKEN_BYTES: usize = 64 << 10;

/// A token that was taken apart, not yet believed.
#[derive(Debug, Clone, PartialEq)]
pub struct Unverified {
    /// Algorithm of the signature.
    pub algorithm: String,
    /// Which key made it.
    pub key_id: String,
    /// What it says.
    pub claims: Map<String, Value>,
    signed: String,
    signature: Vec<u8>,
}

/// A public key of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// `kid`.
    pub id: String,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// Curve, and the uncompressed point.
    Elliptic(String, Vec<u8>),
}

/// Takes a token apart; `None` if it is no JWT.
pub fn parse(token: &str) -> Option<Unverified> {
    if token.len() > MAX_TOKEN_BYTES {
        return None;
    }
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, payload) = signed.split_once('.')?;
    if payload.contains('.') {
        return None;
    }
    let json =
        |part: &str| -> Option<Value> { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok() };
    let header = json(header)?;
    let Value::Object(claims) = json(payload)? else { return None };
    Some(Unverified {
        algorithm: header["alg"].as_str()?.to_owned(),
        key_id: header["kid"].as_str().unwrap_or("").to_owned(),
        claims,
        signed: signed.to_owned(),
        signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
    })
}

/// The usable keys of a JWKS document.
pub fn keys(document: &Value) -> Vec<Key> {
    let bytes = |key: &Value, name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str()?).ok();
    let read = |key: &Value| {
        if !matches!(key["use"].as_str(), None | Some("sig")) {
            return None;
        }
        let material = match key["kty"].as_str()? {
            "RSA" => Material::Rsa { modulus: bytes(key, "n")?, exponent: bytes(key, "e")? },
            "EC" => {
                let point = [vec![4], bytes(key, "x")?, bytes(key, "y")?].concat();
                Material::Elliptic(key["crv"].as_str()?.to_owned(), point)
            }
            _ => return None,
        };
        Some(Key { id: key["kid"].as_str().unwrap_or("").to_owned(), material })
    };
    document["keys"].as_array().into_iter().flatten().filter_map(read).collect()
}

fn rsa_parameters(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

impl Unverified {
    /// Whether one of the keys made the signature; keys of another id are not tried.
    pub fn is_signed_by(&self, keys: &[Key]) -> bool {
        let candidates = keys.iter().filter(|key| self.key_id.is_empty() || key.id == self.key_id);
        candidates.into_iter().any(|key| self.verify(&key.material))
    }

    fn verify(&self, material: &Material) -> bool {
        let (message, signature) = (self.signed.as_bytes(), &self.signature);
        match material {
            Material::Rsa { modulus, exponent } => {
                rsa_parameters(&self.algorithm).is_some_and(|parameters| {
                    let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                    key.verify(parameters, message, signature).is_ok()
                })
            }
            Material::Elliptic(curve, point) => {
                let algorithm = match (self.algorithm.as_str(), curve.as_str()) {
                    ("ES256", "P-256") => &ECDSA_P256_SHA256_FIXED,
                    ("ES384", "P-384") => &ECDSA_P384_SHA384_FIXED,
                    _ => return false,
                };
                UnparsedPublicKey::new(algorithm, point).verify(message, signature).is_ok()
            }
        }
    }

    /// A claim that is a text.
    pub fn text(&self, name: &str) -> &str {
        self.claims.get(name).and_then(Value::as_str).unwrap_or("")
    }

    /// The texts of a claim that is one text or a list of them.
    pub fn texts(&self, name: &str) -> Vec<String> {
        match self.claims.get(name) {
            Some(Value::String(text)) => vec![text.clone()],
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }

    /// A claim that is a time, in seconds.
    pub fn seconds(&self, name: &str) -> Option<i64> {
        let value = self.claims.get(name)?;
        value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
    }
}
