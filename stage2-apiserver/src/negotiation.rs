//! Negotiation: in which form a client wants its answer, and in which form it sent its body.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::request_info`] knows what is asked. After: [`crate::decode`] reads the
//! body, and [`crate::handlers::respond`] writes the answer.
//!
//! Accept is a list of wishes with weights. A wish names a serialisation (JSON, YAML, protobuf) and may ask for a
//! transformation: `as=Table` (rows for kubectl) or `as=PartialObjectMetadata` (only metadata, for the garbage
//! collector). The first wish that the server can fulfil wins; a wish for an unknown transformation is skipped, not
//! half fulfilled, because its sender couldn't read the plain object.
//!
//! # Invariants
//! 1. No Accept header means JSON.
//! 2. A wish for protobuf is skipped where there is no message to write: for tables and for custom kinds. Clients that list
//!    protobuf first list JSON after it.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/handlers/negotiation/negotiate.go`. Left out: CBOR.

use stage1_kubectl::status::Status;

/// The media types that refusals name, in Kubernetes' order.
pub const MEDIA_TYPES: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// The media type of protobuf bodies.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The media type of watches in protobuf.
pub const PROTOBUF_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// A serialisation that we write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

impl Format {
    /// The Content-Type of an answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
            Format::Protobuf => PROTOBUF,
        }
    }
}

/// What becomes of the object before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transform {
    /// Nothing.
    Plain,
    /// Rows; the group version of the Table kind.
    Table(String),
    /// Metadata only; the group version of the PartialObjectMetadata kind.
    PartialObjectMetadata(String),
    /// Metadata of each item; the group version of the PartialObjectMetadataList kind.
    PartialObjectMetadataList(String),
}

/// The outcome of a negotiation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// How the answer is written.
    pub format: Format,
    /// What becomes of it before.
    pub transform: Transform,
}

impl Default for Negotiated {
    fn default() -> Self {
        Self { format: Format::Json, transform: Transform::Plain }
    }
}

/// One wish of an Accept header.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// `application/json`, `*/*`
    pub media_type: String,
    /// Parameters but `q`.
    pub parameters: Vec<(String, String)>,
    quality: f32,
}

impl Wish {
    /// The value of a parameter.
    pub fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(k, _)| k == name).map_or("", |(_, v)| v)
    }

    fn specificity(&self) -> u8 {
        match self.media_type.as_str() {
            "*/*" => 0,
            m if m.ends_with("/*") => 1,
            _ => 2,
        }
    }

    fn accepts(&self, media_type: &str) -> bool {
        match self.media_type.as_str() {
            "*/*" | "*" => true,
            wish => {
                wish == media_type
                    || wish.strip_suffix('*').is_some_and(|prefix| media_type.starts_with(prefix))
            }
        }
    }
}

/// Reads an Accept header: the wishes, strongest first.
pub fn parse_accept(accept: &str) -> Vec<Wish> {
    let mut wishes: Vec<Wish> = accept.split(',').filter_map(parse_wish).collect();
    // Stable: among equals the client's order stands.
    wishes.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(b.specificity().cmp(&a.specificity())));
    wishes
}

fn parse_wish(text: &str) -> Option<Wish> {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().filter(|m| !m.is_empty())?.to_ascii_lowercase();
    let mut wish = Wish { media_type, parameters: Vec::new(), quality: 1.0 };
    for (key, value) in parts.filter_map(|p| p.split_once('=')) {
        let value = value.trim_matches('"');
        match key.trim() {
            "q" => wish.quality = value.parse().unwrap_or(1.0),
            key => wish.parameters.push((key.to_owned(), value.to_owned())),
        }
    }
    (wish.quality > 0.0).then_some(wish)
}

// ANCHOR: negotiate
/// Chooses format and transformation. `is_watch` refuses YAML, which has no frames; `has_message` says whether the kind can be
/// written in protobuf.
///
/// # Errors
/// 406 with the media types that can be had.
pub fn negotiate(accept: Option<&str>, is_watch: bool, has_message: bool) -> Result<Negotiated, Status> {
    let Some(accept) = accept.filter(|a| !a.trim().is_empty()) else { return Ok(Negotiated::default()) };
    for wish in parse_accept(accept) {
        let format = match () {
            () if wish.accepts("application/json") => Format::Json,
            () if wish.accepts("application/yaml") && !is_watch => Format::Yaml,
            () if wish.accepts(PROTOBUF) && has_message => Format::Protobuf,
            () => continue,
        };
        if let Some(transform) = transform_of(&wish)
            && !(format == Format::Protobuf && matches!(transform, Transform::Table(_)))
        {
            return Ok(Negotiated { format, transform });
        }
    }
    Err(Status::not_acceptable(&MEDIA_TYPES))
}
// ANCHOR_END: negotiate

fn transform_of(wish: &Wish) -> Option<Transform> {
    let (kind, group, version) = (wish.parameter("as"), wish.parameter("g"), wish.parameter("v"));
    if kind.is_empty() {
        return Some(Transform::Plain);
    }
    if group != "meta.k8s.io" || !matches!(version, "v1" | "v1beta1") {
        return None;
    }
    let group_version = format!("{group}/{version}");
    match kind {
        "Table" => Some(Transform::Table(group_version)),
        "PartialObjectMetadata" => Some(Transform::PartialObjectMetadata(group_version)),
        "PartialObjectMetadataList" => Some(Transform::PartialObjectMetadataList(group_version)),
        _ => None,
    }
}

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFormat {
    /// JSON, also when no Content-Type is given.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf envelope.
    Protobuf,
}

/// Chooses how to read a body.
///
/// # Errors
/// 415 with the media types that are read.
pub fn body_format(content_type: Option<&str>) -> Result<BodyFormat, Status> {
    match media_type(content_type.unwrap_or("")).as_str() {
        "" | "application/json" => Ok(BodyFormat::Json),
        "application/yaml" => Ok(BodyFormat::Yaml),
        PROTOBUF => Ok(BodyFormat::Protobuf),
        _ => Err(Status::unsupported_media_type(&MEDIA_TYPES)),
    }
}

/// A header's media type without its parameters.
pub fn media_type(header: &str) -> String {
    header.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
