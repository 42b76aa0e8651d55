//! The backend: one of the two dialects, with the rules that it has in the kernel.
//!
//! *Step 6 of a pod's journey.* Before: [`crate::proxier`] decided to sync. After: the kernel has the rules.
//!
//! # Invariants
//! 1. After a failed sync the next one is full: what the kernel holds then is unknown.
//!
//! # In Kubernetes
//! The `proxy.Provider` interface with its implementations in `pkg/proxy/{iptables,nftables,ipvs}`. Left out: IPVS.
#![expect(clippy::disallowed_methods, reason = "shell: looks for programs")]

use std::collections::BTreeMap;
use std::fmt;
use std::process::{Command, Stdio};

use tracing::warn;

use crate::iptables::{self, Iptables};
use crate::nftables::run::RunError;
use crate::nftables::{self, Nftables};
use crate::options::ProxyMode;
use crate::proxy_state::{NodeView, ProxyState, ServiceState};
use crate::service_map::ServicePortName;

/// The rules of the chosen dialect.
#[derive(Clone, Debug)]
enum Rules {
    Nftables(Nftables),
    Iptables(Iptables),
}

/// Writes rules and remembers them.
#[derive(Debug)]
pub struct Backend {
    mode: ProxyMode,
    view: NodeView,
    /// What the kernel has; `None`: unknown, sync all.
    rules: Option<Rules>,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.mode)
    }
}

/// The mode to use when none is asked for: nftables where `nft` works, else iptables.
///
/// # Errors
/// Neither program is there.
pub fn detect_mode(wanted: Option<ProxyMode>) -> Result<ProxyMode, String> {
    let works = |program: &str| {
        let status =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let candidates = match wanted {
        Some(mode) => vec![mode],
        None => vec![ProxyMode::Nftables, ProxyMode::Iptables],
    };
    let program = |mode: &ProxyMode| match mode {
        ProxyMode::Nftables => "nft",
        ProxyMode::Iptables => "iptables-restore",
    };
    let found = candidates.iter().copied().find(|mode| works(program(mode)));
    found.ok_or_else(|| {
        let programs: Vec<_> = candidates.iter().map(program).collect();
        format!("{} not found: install nftables or iptables", programs.join(" and "))
    })
}

impl Backend {
    /// A backend that has written nothing yet.
    pub fn new(mode: ProxyMode, view: NodeView) -> Self {
        if mode == ProxyMode::Iptables
            && view.localhost_node_ports
            && let Err(error) = iptables::restore::route_localnet()
        {
            warn!(%error, "Cannot set route_localnet, NodePorts at 127.0.0.1 will not work");
        }
        Self { mode, view, rules: None }
    }

    /// Is a full sync due?
    pub fn needs_full_sync(&self) -> bool {
        self.rules.is_none()
    }

    /// Writes everything.
    ///
    /// # Errors
    /// The kernel refused it.
    pub async fn sync_full(&mut self, state: &ProxyState) -> Result<(), RunError> {
        self.rules = None;
        let rules = match self.mode {
            ProxyMode::Nftables => {
                let rules = Nftables::render(state, &self.view);
                nftables::run::apply(&rules.full()).await?;
                Rules::Nftables(rules)
            }
            ProxyMode::Iptables => {
                let rules = Iptables::render(state, &self.view);
                iptables::restore::full(&rules).await?;
                Rules::Iptables(rules)
            }
        };
        self.rules = Some(rules);
        Ok(())
    }

    /// Writes what changed.
    ///
    /// # Errors
    /// The kernel refused it: the next sync must be full.
    pub async fn sync_changes(
        &mut self,
        changed: &BTreeMap<ServicePortName, Option<ServiceState>>,
    ) -> Result<(), RunError> {
        let Some(mut rules) = self.rules.take() else { return Ok(()) };
        match &mut rules {
            Rules::Nftables(rules) => {
                let transaction = rules.update(changed);
                nftables::run::apply(&transaction.text).await?;
                nftables::run::apply(&transaction.cleanup).await?;
            }
            Rules::Iptables(rules) => {
                let changes = rules.update(changed);
                iptables::restore::partial(rules, &changes).await?;
            }
        }
        self.rules = Some(rules);
        Ok(())
    }

    /// Looks whether somebody flushed our rules; if so, the next sync is full.
    pub async fn check(&mut self) {
        let present = match self.mode {
            ProxyMode::Nftables => nftables::run::is_present().await,
            ProxyMode::Iptables => iptables::restore::is_present().await,
        };
        if !present {
            self.rules = None;
        }
    }
}
