//! Providers: how bytes are sealed. Each has a list of keys; the first seals, all open.
//!
//! # In Kubernetes
//! `apiserver/pkg/storage/value/encrypt/{aes,secretbox,identity}`, `…/value/transformer.go` (the prefixes).

use std::fmt;
use std::sync::Arc;

use aes::{Aes128, Aes192, Aes256};
use bytes::Bytes;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use crypto_secretbox::XSalsa20Poly1305;
use crypto_secretbox::aead::{Aead, KeyInit};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

/// Everything that is sealed begins with this.
pub const SEALED: &[u8] = b"k8s:enc:";
const SECRETBOX_NONCE_BYTES: usize = 24;
const CBC_BLOCK_BYTES: usize = 16;

/// How bytes are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// AES-GCM with a random nonce; the key must be changed after 200,000 writes.
    AesGcm,
    /// AES-CBC with PKCS#7 padding: nothing notices when somebody changes the bytes.
    AesCbc,
    /// XSalsa20 and Poly1305.
    Secretbox,
}

impl Algorithm {
    /// As the file and the prefix name it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::AesGcm => "aesgcm",
            Algorithm::AesCbc => "aescbc",
            Algorithm::Secretbox => "secretbox",
        }
    }

    /// Lengths of keys that it takes.
    pub fn key_lengths(self) -> &'static [usize] {
        match self {
            Algorithm::AesGcm => &[16, 32],
            Algorithm::AesCbc => &[16, 24, 32],
            Algorithm::Secretbox => &[32],
        }
    }
}

/// A named key. Never shown.
#[derive(Clone)]
pub struct NamedKey {
    /// Its name in the file.
    pub name: String,
    secret: Arc<Vec<u8>>,
}

impl NamedKey {
    /// A key of a length that its algorithm takes.
    pub fn new(name: &str, secret: Vec<u8>) -> Self {
        NamedKey { name: name.to_owned(), secret: Arc::new(secret) }
    }
}

impl fmt::Debug for NamedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedKey({})", self.name)
    }
}

/// One entry of the file.
#[derive(Clone, Debug)]
pub enum Provider {
    /// As it is.
    Identity,
    /// By one of these keys.
    Keys(Algorithm, Vec<NamedKey>),
}

/// A value, and whether it was sealed otherwise than it would be now.
type Opened = Result<(Bytes, bool), String>;

impl Provider {
    /// Seals with the first key.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn seal(&self, context: &str, value: &[u8]) -> Result<Bytes, String> {
        let Provider::Keys(algorithm, keys) = self else { return Ok(Bytes::copy_from_slice(value)) };
        let key = keys.first().ok_or("the provider has no key")?;
        let mut sealed = prefix(*algorithm, &key.name).into_bytes();
        sealed.extend(encrypt(*algorithm, &key.secret, context.as_bytes(), value)?);
        Ok(sealed.into())
    }

    /// Opens what this provider sealed; `None` if it didn't.
    pub fn open(&self, context: &str, stored: &[u8]) -> Option<Opened> {
        let Provider::Keys(algorithm, keys) = self else {
            return (!stored.starts_with(SEALED)).then(|| Ok((Bytes::copy_from_slice(stored), false)));
        };
        let family = prefix(*algorithm, "");
        let family = &family.as_bytes()[..family.len() - 1];
        if !stored.starts_with(family) {
            return None;
        }
        for (index, key) in keys.iter().enumerate() {
            if let Some(rest) = stored.strip_prefix(prefix(*algorithm, &key.name).as_bytes()) {
                let opened = decrypt(*algorithm, &key.secret, context.as_bytes(), rest);
                return Some(opened.map(|value| (Bytes::from(value), index > 0)));
            }
        }
        let name = algorithm.name();
        Some(Err(format!("no matching key was found for the provided {name} transformer")))
    }
}

/// `k8s:enc:aesgcm:v1:NAME:`.
fn prefix(algorithm: Algorithm, key: &str) -> String {
    format!("k8s:enc:{}:v1:{key}:", algorithm.name())
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "no randomness")?;
    Ok(bytes)
}

fn gcm(secret: &[u8]) -> Result<LessSafeKey, String> {
    let algorithm = if secret.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
    UnboundKey::new(algorithm, secret).map(LessSafeKey::new).map_err(|_| "unusable key".into())
}

fn encrypt(algorithm: Algorithm, secret: &[u8], context: &[u8], value: &[u8]) -> Result<Vec<u8>, String> {
    match algorithm {
        Algorithm::AesGcm => {
            let nonce: [u8; NONCE_LEN] = random()?;
            let mut sealed = value.to_vec();
            let unique = Nonce::assume_unique_for_key(nonce);
            let done = gcm(secret)?.seal_in_place_append_tag(unique, Aad::from(context), &mut sealed);
            done.map_err(|_| "sealing failed")?;
            Ok([&nonce[..], &sealed].concat())
        }
        Algorithm::Secretbox => {
            let nonce: [u8; SECRETBOX_NONCE_BYTES] = random()?;
            let cipher = XSalsa20Poly1305::new_from_slice(secret).map_err(|_| "unusable key")?;
            let sealed = cipher.encrypt(&nonce.into(), value).map_err(|_| "sealing failed")?;
            Ok([&nonce[..], &sealed].concat())
        }
        Algorithm::AesCbc => {
            let iv: [u8; CBC_BLOCK_BYTES] = random()?;
            let wrong = |_| "unusable key".to_owned();
            let sealed = match secret.len() {
                16 => cbc::Encryptor::<Aes128>::new_from_slices(secret, &iv)
                    .map_err(wrong)?
                    .encrypt_padded_vec::<Pkcs7>(value),
                24 => cbc::Encryptor::<Aes192>::new_from_slices(secret, &iv)
                    .map_err(wrong)?
                    .encrypt_padded_vec::<Pkcs7>(value),
                _ => cbc::Encryptor::<Aes256>::new_from_slices(secret, &iv)
                    .map_err(wrong)?
                    .encrypt_padded_vec::<Pkcs7>(value),
            };
            Ok([&iv[..], &sealed].concat())
        }
    }
}

fn decrypt(algorithm: Algorithm, secret: &[u8], context: &[u8], stored: &[u8]) -> Result<Vec<u8>, String> {
    const TOO_SHORT: &str = "the stored data was shorter than the required size";
    match algorithm {
        Algorithm::AesGcm => {
            let (nonce, sealed) = stored.split_at_checked(NONCE_LEN).ok_or(TOO_SHORT)?;
            let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| TOO_SHORT)?;
            let mut value = sealed.to_vec();
            let opened = gcm(secret)?.open_in_place(nonce, Aad::from(context), &mut value);
            let length = opened.map_err(|_| "cipher: message authentication failed")?.len();
            value.truncate(length);
            Ok(value)
        }
        Algorithm::Secretbox => {
            let (nonce, sealed) = stored.split_at_checked(SECRETBOX_NONCE_BYTES).ok_or(TOO_SHORT)?;
            let nonce: [u8; SECRETBOX_NONCE_BYTES] = nonce.try_into().map_err(|_| TOO_SHORT)?;
            let cipher = XSalsa20Poly1305::new_from_slice(secret).map_err(|_| "unusable key")?;
            cipher.decrypt(&nonce.into(), sealed).map_err(|_| "error opening the box".into())
        }
        Algorithm::AesCbc => {
            let (iv, sealed) = stored.split_at_checked(CBC_BLOCK_BYTES).ok_or(TOO_SHORT)?;
            let wrong = |_| "unusable key".to_owned();
            let opened = match secret.len() {
                16 => cbc::Decryptor::<Aes128>::new_from_slices(secret, iv)
                    .map_err(wrong)?
                    .decrypt_padded_vec::<Pkcs7>(sealed),
                24 => cbc::Decryptor::<Aes192>::new_from_slices(secret, iv)
                    .map_err(wrong)?
                    .decrypt_padded_vec::<Pkcs7>(sealed),
                _ => cbc::Decryptor::<Aes256>::new_from_slices(secret, iv)
                    .map_err(wrong)?
                    .decrypt_padded_vec::<Pkcs7>(sealed),
            };
            opened.map_err(|_| "invalid padding on input".into())
        }
    }
}
