//! Static tokens: `--token-auth-file`, lines of `token,user,uid,"group1,group2"`.
//!
//! # Invariants
//! 1. A token is looked up by its hash, so the time of a lookup says nothing about tokens that nearly match.
//!
//! # In Kubernetes
//! `apiserver/pkg/authentication/token/tokenfile/tokenfile.go`.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::UserInfo;

/// The tokens of a file.
#[derive(Default)]
pub struct TokenFile {
    by_hash: HashMap<Vec<u8>, UserInfo>,
}

fn hash(token: &str) -> Vec<u8> {
    Sha256::digest(token.as_bytes()).to_vec()
}

impl TokenFile {
    /// Reads the file's text.
    ///
    /// # Errors
    /// A line has fewer than three columns, or an empty token or user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut file = TokenFile::default();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let (plain, groups) = match line.split_once(",\"") {
                Some((plain, groups)) => (plain, groups.trim_end().trim_end_matches('"')),
                None => (line, ""),
            };
            let columns: Vec<&str> = plain.split(',').map(str::trim).collect();
            let [token, name, uid, more @ ..] = columns.as_slice() else {
                return Err(format!("token file line {}: expected token,user,uid", number + 1));
            };
            if token.is_empty() || name.is_empty() {
                return Err(format!("token file line {}: empty token or user", number + 1));
            }
            let groups = groups.split(',').chain(more.iter().copied()).map(str::trim);
            let groups = groups.filter(|group| !group.is_empty()).map(str::to_owned).collect();
            let user = UserInfo { name: (*name).into(), uid: (*uid).into(), groups, ..UserInfo::default() };
            file.by_hash.insert(hash(token), user);
        }
        Ok(file)
    }

    /// The user of a token.
    pub fn user(&self, token: &str) -> Option<UserInfo> {
        self.by_hash.get(&hash(token)).cloned()
    }
}
