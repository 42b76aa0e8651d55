//! `--audit-*`: the audit log and its policy.
//!
//! # In Kubernetes
//! `apiserver/pkg/server/options/audit.go`.

use std::path::PathBuf;

use clap::Args;

use crate::audit::file::Rotation;

/// The flags of the audit log.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Audit")]
pub struct AuditFlags {
    /// Audit log, - for standard output (default: logs/audit.log in the state directory)
    #[arg(long, value_name = "FILE")]
    pub audit_log_path: Option<PathBuf>,
    /// What of which request is logged (default: Metadata of every request)
    #[arg(long, value_name = "FILE")]
    pub audit_policy_file: Option<PathBuf>,
    /// Megabytes of an audit file before a new one begins; 0 is 100
    #[arg(long, default_value_t = 0, value_name = "MB")]
    pub audit_log_maxsize: u64,
    /// Old audit files that are kept; 0 is all
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub audit_log_maxbackup: usize,
    /// Days that old audit files are kept; 0 is for ever
    #[arg(long, default_value_t = 0, value_name = "DAYS")]
    pub audit_log_maxage: i64,
}

impl AuditFlags {
    /// When files are rotated and removed.
    pub fn rotation(&self) -> Rotation {
        Rotation {
            max_bytes: self.audit_log_maxsize << 20,
            max_backups: self.audit_log_maxbackup,
            max_age_days: self.audit_log_maxage,
        }
    }
}
