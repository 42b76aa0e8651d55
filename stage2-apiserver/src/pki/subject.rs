//! Subjects with several groups, which our certificate library can't write.
//!
//! rcgen keeps a subject as a map from attribute to value, so of two O the last one wins; a Kubernetes user may be in any
//! number of groups. What is done here is small: take the signed certificate apart, put the subject that we want in the
//! place of the one that it has, and sign again. A certificate is `SEQUENCE { to-be-signed, algorithm, signature }`, and
//! DER is tag, length, content, so that replacing a part means writing the lengths around it again.
//!
//! # Invariants
//! 1. Everything but the subject (and the signature) stays as the library made it.
//!
//! # In Kubernetes
//! Go's `pkix.Name` has a list of organizations.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{Error, KeyPair, SigningKey};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Identity;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const UTF8_STRING: u8 = 0x0c;
const BIT_STRING: u8 = 0x03;
/// `id-at-commonName` and `id-at-organizationName` with tag and length.
const COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x06, 3, 0x55, 0x04, 0x0a];

/// Tag, length, content.
fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut der = vec![tag];
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|b| **b == 0).count()..];
    match content.len() {
        short @ 0..=127 => der.push(u8::try_from(short).expect("at most 127")),
        _ => {
            der.push(0x80 | u8::try_from(significant.len()).expect("at most 8 bytes"));
            der.extend_from_slice(significant);
        }
    }
    der.extend_from_slice(content);
    der
}

/// `CN=user`, then one `O=group` each.
fn subject(identity: &Identity) -> Vec<u8> {
    let attribute = |oid: &[u8], value: &str| {
        let pair = [oid, &tlv(UTF8_STRING, value.as_bytes())].concat();
        tlv(SET, &tlv(SEQUENCE, &pair))
    };
    let groups = identity.groups.iter().flat_map(|group| attribute(ORGANIZATION, group));
    let names: Vec<u8> = groups.chain(attribute(COMMON_NAME, &identity.user)).collect();
    tlv(SEQUENCE, &names)
}

/// The certificate with this subject, signed again by the CA; as PEM.
pub(super) fn with_subject(der: &[u8], identity: &Identity, ca_key: &KeyPair) -> Result<String, Error> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|_| Error::CouldNotParseCertificate)?;
    let signed = certificate.tbs_certificate.as_ref();
    let old = certificate.subject().as_raw();
    let content = content(signed).ok_or(Error::CouldNotParseCertificate)?;
    // Both are slices of `der`, so their addresses tell where one lies in the other; the issuer may look the same.
    let at = (old.as_ptr() as usize)
        .checked_sub(content.as_ptr() as usize)
        .filter(|at| at + old.len() <= content.len())
        .ok_or(Error::CouldNotParseCertificate)?;
    let new = [&content[..at], &subject(identity), &content[at + old.len()..]].concat();
    let signed_now = tlv(SEQUENCE, &new);
    // What follows the signed part is the algorithm, then the signature.
    let after = &content_after(der, signed).ok_or(Error::CouldNotParseCertificate)?;
    let algorithm = first_element(after).ok_or(Error::CouldNotParseCertificate)?;
    let signature = [&[0], &*ca_key.sign(&signed_now)?].concat();
    let whole = [&*signed_now, algorithm, &tlv(BIT_STRING, &signature)].concat();
    Ok(pem(&tlv(SEQUENCE, &whole)))
}

/// Header length and content length of the element at the start.
fn header(der: &[u8]) -> Option<(usize, usize)> {
    let first = usize::from(*der.get(1)?);
    if first < 0x80 {
        return Some((2, first));
    }
    let bytes = der.get(2..2 + (first & 0x7f))?;
    let length = bytes.iter().fold(0usize, |length, b| (length << 8) | usize::from(*b));
    Some((2 + bytes.len(), length))
}

fn content(der: &[u8]) -> Option<&[u8]> {
    let (start, length) = header(der)?;
    der.get(start..start + length)
}

fn first_element(der: &[u8]) -> Option<&[u8]> {
    let (start, length) = header(der)?;
    der.get(..start + length)
}

/// What follows `part` (the first element) in the outer sequence.
fn content_after<'a>(der: &'a [u8], part: &[u8]) -> Option<&'a [u8]> {
    content(der)?.get(part.len()..)
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}
