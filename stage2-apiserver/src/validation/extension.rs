//! What extends or protects the server itself: certificate requests, APIServices, flow schemas.
//!
//! # In Kubernetes
//! `pkg/apis/certificates/validation`, `kube-aggregator/pkg/apis/apiregistration/validation`, `pkg/apis/flowcontrol/validation`.
//! Left out: the signature of a certificate request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::fields::{child, has, int, list, opt_int, text, texts};
use super::values::required;
use super::{Errors, FieldError, field, go_syntax, index, invalid_each, names};

/// The shortest certificate that can be asked for.
const MIN_EXPIRATION_SECONDS: i64 = 600;

/// CertificateSigningRequest.
pub fn certificate_signing_request(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    let request = STANDARD.decode(text(spec, "request")).unwrap_or_default();
    if let Err(why) = pem_of_request(&request) {
        let bytes: Vec<String> = request.iter().map(|byte| format!("0x{byte:x}")).collect();
        let shown = go_syntax::raw(format!("[]byte{{{}}}", bytes.join(", ")));
        errors.push(FieldError::invalid("spec.request", shown, why));
    }
    let usages = texts(spec, "usages");
    if usages.is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    for (at, usage) in usages.iter().enumerate().filter(|(at, usage)| usages[..*at].contains(*usage)) {
        errors.push(FieldError::duplicate(index("spec.usages", at), *usage));
    }
    signer_name(&mut errors, text(spec, "signerName"));
    if let Some(seconds) = opt_int(spec, "expirationSeconds").filter(|s| *s < MIN_EXPIRATION_SECONDS) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid("spec.expirationSeconds", seconds, why));
    }
    errors
}

/// A PEM block of the right type with a request in it.
fn pem_of_request(bytes: &[u8]) -> Result<(), &'static str> {
    const TYPE: &str = "PEM block type must be CERTIFICATE REQUEST";
    let (_, pem) = x509_parser::pem::parse_x509_pem(bytes).map_err(|_| TYPE)?;
    if pem.label != "CERTIFICATE REQUEST" {
        return Err(TYPE);
    }
    use x509_parser::prelude::FromDer as _;
    x509_parser::certification_request::X509CertificationRequest::from_der(&pem.contents)
        .map(drop)
        .map_err(|_| "asn1: structure error: malformed certificate request")
}

fn signer_name(errors: &mut Errors, name: &str) {
    let path = "spec.signerName";
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid(path, name, why));
        return;
    };
    invalid_each(errors, path, domain, names::dns1123_subdomain(domain));
    if !domain.contains('.') {
        errors.push(FieldError::invalid(
            path,
            domain,
            "should be a domain with at least two segments separated by dots",
        ));
    }
    invalid_each(errors, path, rest, names::dns1123_subdomain(rest));
}

/// APIService.
pub fn api_service(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    let required_name = format!("{version}.{group}");
    let name = text(child(value, "metadata"), "name");
    if name != required_name {
        let why = format!(
            "must be `spec.version+\".\"+spec.group`: {}",
            stage1_kubectl::status::quote(&required_name)
        );
        errors.push(FieldError::invalid("metadata.name", name, why));
    }
    if !group.is_empty() {
        invalid_each(&mut errors, "spec.group", group, names::dns1123_subdomain(group));
    }
    invalid_each(&mut errors, "spec.version", version, names::dns1035_label(version));
    for (name, limit) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let priority = int(spec, name);
        if priority <= 0 || priority > limit {
            let why = format!("must be positive and less than {limit}");
            errors.push(FieldError::invalid(field("spec", name), priority, why));
        }
    }
    let service = child(spec, "service");
    if service.is_null() {
        if !text(spec, "caBundle").is_empty() {
            let why = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid("spec.caBundle", "", why));
        }
        return errors;
    }
    for name in ["namespace", "name"] {
        required(&mut errors, service, name, "spec.service");
    }
    errors
}

/// FlowSchema.
pub fn flow_schema(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    let precedence = int(spec, "matchingPrecedence");
    if precedence < 0 {
        errors.push(FieldError::invalid("spec.matchingPrecedence", precedence, "must be a positive value"));
    }
    if precedence > 10_000 {
        let why = "must not be greater than 10000";
        errors.push(FieldError::invalid("spec.matchingPrecedence", precedence, why));
    }
    required(
        &mut errors,
        child(spec, "priorityLevelConfiguration"),
        "name",
        "spec.priorityLevelConfiguration",
    );
    for (at, rule) in list(spec, "rules").iter().enumerate() {
        let path = index("spec.rules", at);
        if list(rule, "subjects").is_empty() {
            let why = "subjects must contain at least one value";
            errors.push(FieldError::required(field(&path, "subjects"), why));
        }
        if list(rule, "resourceRules").is_empty() && list(rule, "nonResourceRules").is_empty() {
            let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
            errors.push(FieldError::required(path.clone(), why));
        }
        for (at, resources) in list(rule, "resourceRules").iter().enumerate() {
            let path = index(&field(&path, "resourceRules"), at);
            for (name, why) in [
                ("verbs", "verbs must contain at least one value"),
                ("apiGroups", "resource rules must supply at least one api group"),
                ("resources", "resource rules must supply at least one resource"),
            ] {
                if list(resources, name).is_empty() {
                    errors.push(FieldError::required(field(&path, name), why));
                }
            }
            if list(resources, "namespaces").is_empty() && !has(resources, "clusterScope") {
                let why = "resource rules that are not cluster scoped must supply at least one namespace";
                errors.push(FieldError::required(field(&path, "namespaces"), why));
            }
        }
    }
    errors
}
