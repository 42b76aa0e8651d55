//! Image references: `nginx`, `registry.test:5000/team/app:1.2@sha256:…`, and what is none.
//!
//! *Step 5 of a pod's journey.* Before: a container's `image`, which the API server took as any text. After: the name that the runtime
//! is asked for, or `InvalidImageName`, which nothing but an edit mends.
//!
//! # Invariants
//! 1. A reference that is sound is handed on as it is written; only a missing tag is added.
//!
//! # In Kubernetes
//! `applyDefaultImageTag` in `pkg/kubelet/images/image_manager.go`, `pkg/util/parsers`, and `distribution/reference`
//! (`ParseNormalizedNamed`), whose texts these are.

use std::sync::LazyLock;

use regex::Regex;

/// Longest repository path, without the registry.
const MAX_PATH_CHARS: usize = 255;
/// The tag that is meant when none is written.
const DEFAULT_TAG: &str = "latest";

/// Name, tag, digest; the registry may be missing.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let component = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    let host = format!(r"(?:{component}(?:\.{component})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
    let part = "[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*";
    let tag = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}";
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
    let text = format!("^(?:{host}/)?(?<path>{part}(?:/{part})*)(?<tag>:{tag})?(?:@(?<digest>{digest}))?$");
    Regex::new(&text).expect("the pattern is a constant")
});

/// The reference with a tag or a digest, as the runtime wants it.
///
/// # Errors
/// With the reason that stands behind `couldn't parse image name …: `.
pub fn apply_default_image_tag(image: &str) -> Result<String, String> {
    const INVALID: &str = "invalid reference format";
    if image.len() == 64 && image.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(format!("invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"));
    }
    let (domain, remainder) = split_domain(image);
    let remote = remainder.split(':').next().unwrap_or_default();
    if remote != remote.to_lowercase() {
        return Err(format!("{INVALID}: repository name ({remote}) must be lowercase"));
    }
    let full = format!("{domain}/{remainder}");
    let Some(parts) = REFERENCE.captures(&full) else { return Err(INVALID.to_owned()) };
    if parts.name("path").is_some_and(|path| path.len() > MAX_PATH_CHARS) {
        return Err(format!("repository name must not be more than {MAX_PATH_CHARS} characters"));
    }
    if let Some(digest) = parts.name("digest") {
        check_digest(digest.as_str())?;
    }
    let is_complete = parts.name("tag").is_some() || parts.name("digest").is_some();
    Ok(if is_complete { image.to_owned() } else { format!("{image}:{DEFAULT_TAG}") })
}

/// The registry, as one reads a name: a first part without dot, colon or capital is a user of Docker Hub.
fn split_domain(image: &str) -> (&str, String) {
    let docker = "docker.io";
    let (domain, rest) = match image.split_once('/') {
        None => (docker, image),
        Some(("index.docker.io", rest)) => (docker, rest),
        Some((first, rest))
            if first == "localhost" || first.contains(['.', ':']) || first != first.to_lowercase() =>
        {
            (first, rest)
        }
        Some(_) => (docker, image),
    };
    match domain == docker && !rest.contains('/') {
        true => (domain, format!("library/{rest}")),
        false => (domain, rest.to_owned()),
    }
}

fn check_digest(digest: &str) -> Result<(), String> {
    let (algorithm, hex) = digest.split_once(':').unwrap_or((digest, ""));
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return Err("unsupported digest algorithm".to_owned()),
    };
    if hex.len() != length {
        return Err("invalid checksum digest length".to_owned());
    }
    match hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        true => Ok(()),
        false => Err("invalid checksum digest format".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_reference_gets_a_tag_and_nothing_else() {
        let digest = format!("app@sha256:{}", "0".repeat(64));
        for (image, expected) in [
            ("nginx", "nginx:latest"),
            ("nginx:1.25", "nginx:1.25"),
            ("host:5000/a", "host:5000/a:latest"),
            ("localhost/team/app__x.y-z:V1_a", "localhost/team/app__x.y-z:V1_a"),
            ("[fe80::1]:5000/a", "[fe80::1]:5000/a:latest"),
            ("UPPER/a:1", "UPPER/a:1"),
            (digest.as_str(), digest.as_str()),
        ] {
            assert_eq!(apply_default_image_tag(image).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_is_no_reference_is_told_as_stock_tells_it() {
        let short = "a@sha256:".to_owned() + &"0".repeat(40);
        let (hex, long) = ("a".repeat(64), format!("h.test/{}", "a".repeat(256)));
        for (image, why) in [
            ("Bad_Ref::x", "invalid reference format: repository name (library/Bad_Ref) must be lowercase"),
            ("nginx:", "invalid reference format"),
            ("a b", "invalid reference format"),
            ("https://r.test/a", "invalid reference format"),
            ("a//b", "invalid reference format"),
            ("a:1:2", "invalid reference format"),
            (short.as_str(), "invalid checksum digest length"),
            (long.as_str(), "repository name must not be more than 255 characters"),
        ] {
            assert_eq!(apply_default_image_tag(image), Err(why.to_owned()), "{image}");
        }
        let why = format!("invalid repository name ({hex}), cannot specify 64-byte hexadecimal strings");
        assert_eq!(apply_default_image_tag(&hex), Err(why));
    }
}
