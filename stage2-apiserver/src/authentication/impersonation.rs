//! Impersonation: asking in another's name, if one may.
//!
//! *Step 2 of a pod's journey.* Before: the real user is known. After: authorization, and everything behind it, sees the other one.
//!
//! Each part of the other identity (user or ServiceAccount, each group, the uid, each extra value) is a permission of its
//! own: the verb `impersonate` on that name.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/filters/impersonation/impersonation.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use stage1_kubectl::status::Status;

use super::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, UserInfo, service_account};
use crate::authorization::{Attributes, Authorizer};

/// Why the other name can't be taken.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// 500 with this text (there is a group, uid or extra, but no user).
    WithoutUser(String),
    /// 403.
    Forbidden(Box<Status>),
}

#[derive(Debug, Default)]
struct Wanted {
    user: String,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
}

fn read(headers: &HeaderMap) -> Wanted {
    let texts = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).map(str::to_owned).collect()
    };
    let first = |name: &str| texts(name).into_iter().next().unwrap_or_default();
    let mut wanted = Wanted {
        user: first("impersonate-user"),
        groups: texts("impersonate-group"),
        uid: first("impersonate-uid"),
        extra: BTreeMap::new(),
    };
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix("impersonate-extra-") {
            let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
            wanted.extra.insert(key, texts(name.as_str()));
        }
    }
    wanted
}

impl Wanted {
    /// Go's print of the references that are asked for.
    fn describe(&self) -> String {
        let groups = self.groups.iter().map(|group| format!("{{Group  {group}    }}"));
        let version = "authentication.k8s.io/v1";
        let extra = self.extra.iter().flat_map(|(key, values)| {
            values.iter().map(move |value| format!("{{UserExtra  {value}  {version}  {key}}}"))
        });
        let uid = (!self.uid.is_empty()).then(|| format!("{{UID  {}  {version}  }}", self.uid));
        let parts: Vec<String> = groups.chain(extra).chain(uid).collect();
        format!("[{}]", parts.join(" "))
    }

    /// What must be allowed: group, resource, subresource, namespace, name.
    fn permissions(&self) -> Vec<[String; 5]> {
        let own = |group: &str, resource: &str, sub: &str, namespace: &str, name: &str| {
            [group, resource, sub, namespace, name].map(str::to_owned)
        };
        let mut all = vec![match service_account::split_username(&self.user) {
            Some((namespace, name)) => own("", "serviceaccounts", "", namespace, name),
            None => own("", "users", "", "", &self.user),
        }];
        all.extend(self.groups.iter().map(|group| own("", "groups", "", "", group)));
        for (key, values) in &self.extra {
            all.extend(values.iter().map(|value| own("authentication.k8s.io", "userextras", key, "", value)));
        }
        if !self.uid.is_empty() {
            all.push(own("authentication.k8s.io", "uids", "", "", &self.uid));
        }
        all
    }
}

/// The identity that the headers ask for; `None` when they ask for none.
///
/// # Errors
/// See [`Refusal`].
pub fn impersonate(
    headers: &HeaderMap,
    user: &Arc<UserInfo>,
    authorizer: &dyn Authorizer,
) -> Result<Option<UserInfo>, Refusal> {
    let wanted = read(headers);
    if wanted.user.is_empty() {
        let nothing = wanted.groups.is_empty() && wanted.uid.is_empty() && wanted.extra.is_empty();
        return match nothing {
            true => Ok(None),
            false => Err(Refusal::WithoutUser(format!(
                "requested {} without impersonating a user",
                wanted.describe()
            ))),
        };
    }
    for [group, resource, subresource, namespace, name] in wanted.permissions() {
        let version = if group.is_empty() { "" } else { "v1" }.to_owned();
        let attributes = Attributes {
            user: user.clone(),
            verb: "impersonate".into(),
            is_resource: true,
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
            ..Attributes::default()
        };
        let decision = authorizer.authorize(&attributes);
        if !decision.is_allowed() {
            return Err(Refusal::Forbidden(Box::new(attributes.forbidden(decision.reason()))));
        }
    }
    let mut groups = wanted.groups;
    if let (Some((namespace, _)), true) = (service_account::split_username(&wanted.user), groups.is_empty()) {
        groups = service_account::groups(namespace);
    }
    let implied = if wanted.user == ANONYMOUS { ALL_UNAUTHENTICATED } else { ALL_AUTHENTICATED };
    if !groups.iter().any(|group| group == ALL_AUTHENTICATED || group == ALL_UNAUTHENTICATED) {
        groups.push(implied.to_owned());
    }
    Ok(Some(UserInfo { name: wanted.user, uid: wanted.uid, groups, extra: wanted.extra }))
}
