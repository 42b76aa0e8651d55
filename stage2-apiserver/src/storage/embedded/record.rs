//! Records: how one write looks in the file.
//!
//! `[kind: 1 byte][length of the key: 4 bytes, little endian][key][value]`, kind 1 for a value and 0 for a deletion; the revision
//! is the record's key in the B-tree.
//!
//! # In Kubernetes
//! etcd writes a protobuf `mvccpb.KeyValue` under the revision, in bbolt.

use std::path::Path;

use bytes::Bytes;
use redb::{ReadableTable, TableDefinition};

use super::super::{KeyValue, Revision, StorageError};
use super::unavailable;

/// Revision → record.
pub(super) const LOG: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("log");
/// Named numbers: `format`, `current`, `compacted`.
pub(super) const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");

/// One write, borrowed from the file.
pub(super) struct Record<'a> {
    pub(super) key: &'a str,
    pub(super) value: Option<&'a [u8]>,
}

impl<'a> Record<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let length = u32::try_from(self.key.len()).expect("keys are bounded by the URL's length");
        let value = self.value.unwrap_or_default();
        let mut bytes = Vec::with_capacity(5 + self.key.len() + value.len());
        bytes.push(u8::from(self.value.is_some()));
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(self.key.as_bytes());
        bytes.extend_from_slice(value);
        bytes
    }

    /// `None` when the bytes aren't a record.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (key, value) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let key = std::str::from_utf8(key).ok()?;
        match kind {
            0 => Some(Record { key, value: None }),
            1 => Some(Record { key, value: Some(value) }),
            _ => None,
        }
    }
}

/// The value that a revision wrote.
pub(super) fn key_value(
    log: &impl ReadableTable<u64, &'static [u8]>,
    key: &str,
    revision: Revision,
) -> Result<KeyValue, StorageError> {
    let found = log.get(revision.0).map_err(unavailable)?;
    let value = found
        .as_ref()
        .and_then(|bytes| Record::decode(bytes.value()))
        .and_then(|record| record.value.map(Bytes::copy_from_slice))
        .ok_or_else(|| StorageError::Unavailable(format!("record {revision} of {key} is missing")))?;
    Ok(KeyValue { key: key.to_owned(), value, revision })
}

/// Only the owner may read the store: Secrets are in it.
pub(super) fn restrict(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}
