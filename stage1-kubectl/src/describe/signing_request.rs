//! The page of a CertificateSigningRequest: who asks, and for which name.
//!
//! The request itself is PKCS #10 in PEM in base64; what a person wants to see before approving stands inside of it.
//!
//! # In Kubernetes
//! `describeCertificateSigningRequest` in `kubectl/pkg/describe/describe.go`. Left out: names of subjects that aren't text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

use super::access::{list, map_text, number, text};
use super::doc::Doc;
use crate::time::human_duration;

/// The page without its events.
pub fn write(doc: &mut Doc, request: &Value) {
    doc.field(0, "Name", text(request, "/metadata/name"));
    doc.field(0, "Labels", &map_text(request, "/metadata/labels"));
    doc.field(0, "Annotations", &map_text(request, "/metadata/annotations"));
    doc.field(0, "CreationTimestamp", &doc.time(request.pointer("/metadata/creationTimestamp")));
    doc.field(0, "Requesting User", text(request, "/spec/username"));
    if !text(request, "/spec/signerName").is_empty() {
        doc.field(0, "Signer", text(request, "/spec/signerName"));
    }
    if request.pointer("/spec/expirationSeconds").is_some() {
        let duration = SignedDuration::from_secs(number(request, "/spec/expirationSeconds"));
        doc.field(0, "Requested Duration", &human_duration(duration));
    }
    doc.field(0, "Status", &status(request));
    let der = STANDARD.decode(text(request, "/spec/request")).ok().and_then(|pem| der_of(&pem));
    if let Some(Ok((_, asked))) = der.as_deref().map(X509CertificationRequest::from_der) {
        write_subject(doc, &asked.certification_request_info.subject);
        write_alternatives(doc, &asked);
    }
}

fn der_of(pem: &[u8]) -> Option<Vec<u8>> {
    x509_parser::pem::Pem::read(std::io::Cursor::new(pem)).ok().map(|(pem, _)| pem.contents)
}

/// What was decided, and whether there is a certificate.
fn status(request: &Value) -> String {
    let is = |kind: &str| list(request, "/status/conditions").iter().any(|one| one["type"] == kind);
    let mut words = vec![match () {
        () if is("Denied") => "Denied",
        () if is("Approved") => "Approved",
        () => "Pending",
    }];
    if is("Failed") {
        words.push("Failed");
    }
    if !text(request, "/status/certificate").is_empty() {
        words.push("Issued");
    }
    words.join(",")
}

fn write_subject(doc: &mut Doc, subject: &X509Name<'_>) {
    let texts = |oid: &str| -> Vec<String> {
        let all = subject.iter_attributes().filter(|one| one.attr_type().to_id_string() == oid);
        all.filter_map(|one| one.as_str().ok()).map(String::from).collect()
    };
    let last = |oid: &str| texts(oid).pop().unwrap_or_default();
    doc.line(0, "Subject:");
    doc.line(0, &format!("\tCommon Name:\t{}", last("2.5.4.3")));
    doc.line(0, &format!("\tSerial Number:\t{}", last("2.5.4.5")));
    for (title, oid) in [
        ("Organization", "2.5.4.10"),
        ("Organizational Unit", "2.5.4.11"),
        ("Country", "2.5.4.6"),
        ("Locality", "2.5.4.7"),
        ("Province", "2.5.4.8"),
        ("StreetAddress", "2.5.4.9"),
        ("PostalCode", "2.5.4.17"),
    ] {
        write_list(doc, title, &texts(oid));
    }
}

fn write_list(doc: &mut Doc, title: &str, values: &[String]) {
    if !values.is_empty() {
        doc.line(0, &format!("\t{title}:\t{}", values.join("\n\t\t")));
    }
}

fn write_alternatives(doc: &mut Doc, asked: &X509CertificationRequest<'_>) {
    let names: Vec<&GeneralName<'_>> = asked
        .requested_extensions()
        .into_iter()
        .flatten()
        .filter_map(|extension| match extension {
            ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
            _ => None,
        })
        .flatten()
        .collect();
    if names.is_empty() {
        return;
    }
    doc.line(0, "Subject Alternative Names:");
    let those = |of: fn(&GeneralName<'_>) -> Option<String>| -> Vec<String> {
        names.iter().filter_map(|name| of(name)).collect()
    };
    write_list(
        doc,
        "DNS Names",
        &those(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        }),
    );
    write_list(
        doc,
        "Email Addresses",
        &those(|name| match name {
            GeneralName::RFC822Name(name) => Some((*name).to_owned()),
            _ => None,
        }),
    );
    write_list(
        doc,
        "URIs",
        &those(|name| match name {
            GeneralName::URI(name) => Some((*name).to_owned()),
            _ => None,
        }),
    );
    write_list(
        doc,
        "IP Addresses",
        &those(|name| match name {
            GeneralName::IPAddress(bytes) => match <[u8; 4]>::try_from(*bytes) {
                Ok(four) => Some(std::net::Ipv4Addr::from(four).to_string()),
                Err(_) => {
                    <[u8; 16]>::try_from(*bytes).ok().map(|all| std::net::Ipv6Addr::from(all).to_string())
                }
            },
            _ => None,
        }),
    );
}
