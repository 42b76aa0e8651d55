//! CertificateSubjectRestriction: nobody becomes `system:masters` by a certificate request.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/certificates/subjectrestriction/admission.go`. Left out: CertificateApproval and CertificateSigning, which ask
//! the authorizer for `approve` and `sign`; here RBAC on the subresources decides.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;

use super::{AdmissionPlugin, Attributes, ObjectReader, Operation};

/// The plugin.
pub struct CertificateSubjectRestriction;

impl AdmissionPlugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn validate(
        &self,
        attributes: &Attributes,
        object: Option<&Object>,
        _: Option<&Object>,
        _: &dyn ObjectReader,
    ) -> Result<(), Status> {
        let Some(object) = object else { return Ok(()) };
        if !attributes.is("certificates.k8s.io", "certificatesigningrequests")
            || attributes.operation != Operation::Create
        {
            return Ok(());
        }
        if object.get_str("/spec/signerName") != Some("kubernetes.io/kube-apiserver-client") {
            return Ok(());
        }
        let request = object.get_str("/spec/request").unwrap_or_default();
        if organizations(request).iter().any(|group| group == "system:masters") {
            return Err(attributes.forbidden(
                "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
            ));
        }
        Ok(())
    }
}

/// The groups that a base64 PEM certificate request asks for.
pub fn organizations(request: &str) -> Vec<String> {
    let Ok(pem) = STANDARD.decode(request) else { return Vec::new() };
    let Ok((_, pem)) = parse_x509_pem(&pem) else { return Vec::new() };
    let Ok((_, request)) = X509CertificationRequest::from_der(&pem.contents) else { return Vec::new() };
    let subject = &request.certification_request_info.subject;
    subject.iter_organization().filter_map(|part| part.as_str().ok()).map(str::to_owned).collect()
}
