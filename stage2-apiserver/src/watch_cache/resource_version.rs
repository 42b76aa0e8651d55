//! resourceVersion: what the number on a list means.
//!
//! # In Kubernetes
//! `apimachinery/pkg/apis/meta/internalversion/validation`, and the table in the API concepts page ("Resource versions").

use stage1_kubectl::status::{FieldError, Status};

use crate::storage::Revision;

/// How fresh, or which state, a read wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Everything that was acknowledged before the request.
    Consistent,
    /// Whatever the cache has.
    Any,
    /// This state or a later one.
    NotOlderThan(Revision),
    /// This state.
    Exact(Revision),
}

fn parse(version: &str) -> Result<Revision, Status> {
    version.parse().map(Revision).map_err(|_| {
        Status::bad_request(format!(
            "invalid resource version \"{version}\": strconv.ParseUint: parsing \"{version}\": invalid syntax"
        ))
    })
}

impl At {
    /// Reads `resourceVersion` and `resourceVersionMatch` of a list; empty strings are parameters that aren't there.
    ///
    /// # Errors
    /// 400 for what isn't a number, 422 for combinations that mean nothing.
    pub fn of_list(version: &str, version_match: &str, limit: usize, continues: bool) -> Result<At, Status> {
        let invalid = |error: FieldError| Err(Status::invalid("ListOptions.meta.k8s.io", "", &[error]));
        match (version_match, version) {
            ("", _) => {}
            (_, "") => {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                return invalid(FieldError::forbidden("resourceVersionMatch", why));
            }
            _ if continues => {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                return invalid(FieldError::forbidden("resourceVersionMatch", why));
            }
            ("Exact", "0") => {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                return invalid(FieldError::forbidden("resourceVersionMatch", why));
            }
            ("Exact" | "NotOlderThan", _) => {}
            (other, _) => {
                let supported = ["Exact", "NotOlderThan", ""];
                return invalid(FieldError::not_supported("resourceVersionMatch", other, &supported));
            }
        }
        if continues && !version.is_empty() && version != "0" {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(match (version, version_match) {
            ("", _) => At::Consistent,
            ("0", _) => At::Any,
            (version, "Exact") => At::Exact(parse(version)?),
            // Before resourceVersionMatch existed, a limit made the number exact; clients still count on it.
            (version, "") if limit > 0 => At::Exact(parse(version)?),
            (version, _) => At::NotOlderThan(parse(version)?),
        })
    }

    /// Reads `resourceVersion` of a get.
    ///
    /// # Errors
    /// 400 for what isn't a number.
    pub fn of_get(version: &str) -> Result<At, Status> {
        Ok(match version {
            "" => At::Consistent,
            "0" => At::Any,
            version => At::NotOlderThan(parse(version)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_what_the_match_says() {
        let at = |version, version_match, limit| At::of_list(version, version_match, limit, false).unwrap();
        assert_eq!(at("", "", 0), At::Consistent);
        assert_eq!(at("0", "", 5), At::Any);
        assert_eq!(at("7", "", 0), At::NotOlderThan(Revision(7)));
        assert_eq!(at("7", "", 5), At::Exact(Revision(7)));
        assert_eq!(at("7", "NotOlderThan", 5), At::NotOlderThan(Revision(7)));
        assert_eq!(at("7", "Exact", 0), At::Exact(Revision(7)));
        assert_eq!(At::of_list("x", "", 0, false).unwrap_err().code, 400);
        assert_eq!(At::of_list("", "Exact", 0, false).unwrap_err().code, 422);
        assert_eq!(At::of_list("0", "Exact", 0, false).unwrap_err().code, 422);
        assert_eq!(At::of_list("5", "", 0, true).unwrap_err().code, 400);
    }
}
