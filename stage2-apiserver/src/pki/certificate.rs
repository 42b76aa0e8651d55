//! Certificates: made from a purpose, and read back to see whether they still serve it.
//!
//! # In Kubernetes
//! `client-go/util/cert/cert.go`, `cmd/kubeadm/app/util/pkiutil`.

use std::net::IpAddr;

use jiff::civil::Date;
use jiff::{Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

use super::{Identity, days, subject};

/// What a certificate is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// To say who one is.
    Client(Identity),
    /// To be a server under these names and addresses.
    Serving {
        /// CN.
        user: String,
        /// DNS names and IP addresses.
        names: Vec<String>,
        /// Whether it is a client certificate too (etcd's peers).
        client_too: bool,
    },
}

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateInfo {
    /// CN and O.
    pub identity: Identity,
    /// DNS names and IP addresses.
    pub names: Vec<String>,
    /// Whether clients may use it.
    pub client: bool,
    /// Whether servers may use it.
    pub server: bool,
    /// The end of its life.
    pub not_after: Timestamp,
    der: Vec<u8>,
}

impl CertificateInfo {
    /// Whether it does for a purpose.
    pub(super) fn serves(&self, purpose: &Purpose) -> bool {
        match purpose {
            Purpose::Client(identity) => {
                let sorted = |groups: &[String]| {
                    let mut groups = groups.to_vec();
                    groups.sort();
                    groups
                };
                self.client
                    && self.identity.user == identity.user
                    && sorted(&self.identity.groups) == sorted(&identity.groups)
            }
            Purpose::Serving { names, client_too, .. } => {
                self.server
                    && (self.client || !client_too)
                    && names.iter().all(|name| self.names.contains(name))
            }
        }
    }

    /// Whether a CA's key made the signature.
    pub(super) fn signed_by(&self, ca_pem: &str) -> bool {
        let ca = inspect(ca_pem);
        let Some(ca) = ca else { return false };
        let (Ok((_, own)), Ok((_, ca))) =
            (X509Certificate::from_der(&self.der), X509Certificate::from_der(&ca.der))
        else {
            return false;
        };
        // x509-parser's own check needs a feature; comparing issuer and authority key id is enough to notice a new CA.
        own.issuer().as_raw() == ca.subject().as_raw() && authority_key(&own) == subject_key(&ca)
    }
}

fn authority_key<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|key| key.0),
        _ => None,
    })
}

fn subject_key<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(key) => Some(key.0),
        _ => None,
    })
}

/// Reads the first certificate of a PEM text; `None` when there is none.
pub fn inspect(pem: &str) -> Option<CertificateInfo> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).ok()?;
    inspect_der(&pem.contents)
}

/// Reads a certificate.
pub(crate) fn inspect_der(der: &[u8]) -> Option<CertificateInfo> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let text =
        |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| attribute.as_str().map(str::to_owned).ok();
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map(|names| names.value.general_names.iter().filter_map(name).collect());
    let usage = certificate.extended_key_usage().ok().flatten().map(|usage| usage.value);
    Some(CertificateInfo {
        identity: Identity {
            user: certificate.subject().iter_common_name().find_map(text).unwrap_or_default(),
            groups: certificate.subject().iter_organization().filter_map(text).collect(),
        },
        names: names.unwrap_or_default(),
        client: usage.is_some_and(|usage| usage.client_auth),
        server: usage.is_some_and(|usage| usage.server_auth),
        not_after: Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()?,
        der: der.to_vec(),
    })
}

fn name(general: &GeneralName<'_>) -> Option<String> {
    match general {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let ip: Option<IpAddr> = match bytes.len() {
                4 => <[u8; 4]>::try_from(*bytes).ok().map(IpAddr::from),
                _ => <[u8; 16]>::try_from(*bytes).ok().map(IpAddr::from),
            };
            ip.map(|ip| ip.to_string())
        }
        _ => None,
    }
}

/// Parameters valid from yesterday (clocks differ) for some days.
fn params(names: Vec<String>, now: Timestamp, valid_days: i64) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    let day = |at: Timestamp| -> Date { at.to_zoned(TimeZone::UTC).date() };
    let (from, to) = (day(now - days(1)), day(now + days(valid_days)));
    let date = |d: Date| date_time_ymd(d.year().into(), d.month().unsigned_abs(), d.day().unsigned_abs());
    params.not_before = date(from);
    params.not_after = date(to);
    params.distinguished_name = rcgen::DistinguishedName::new();
    Ok(params)
}

/// A CA's own certificate, as PEM.
pub(super) fn issue_ca(
    name: &str,
    key: &KeyPair,
    now: Timestamp,
    valid_days: i64,
) -> Result<String, rcgen::Error> {
    let mut params = params(Vec::new(), now, valid_days)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(params.self_signed(key)?.pem())
}

/// A certificate for a purpose, as PEM.
pub(super) fn issue(
    ca_pem: &str,
    ca_key: &KeyPair,
    key: &KeyPair,
    purpose: &Purpose,
    now: Timestamp,
    valid_days: i64,
) -> Result<String, rcgen::Error> {
    let (names, identity, usages) = match purpose {
        Purpose::Client(identity) => {
            (Vec::new(), identity.clone(), vec![ExtendedKeyUsagePurpose::ClientAuth])
        }
        Purpose::Serving { user, names, client_too } => {
            let mut usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            usages.extend(client_too.then_some(ExtendedKeyUsagePurpose::ClientAuth));
            (names.clone(), Identity::new(user, &[]), usages)
        }
    };
    let mut params = params(names, now, valid_days)?;
    params.distinguished_name.push(DnType::CommonName, identity.user.as_str());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = usages;
    params.use_authority_key_identifier_extension = true;
    let issuer = Issuer::from_ca_cert_pem(ca_pem, ca_key)?;
    let certificate = params.signed_by(key, &issuer)?;
    match identity.groups.len() {
        0 => Ok(certificate.pem()),
        _ => subject::with_subject(certificate.der(), &identity, ca_key),
    }
}
