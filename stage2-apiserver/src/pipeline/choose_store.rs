//! Choosing the store: what the flags ask for, what this program can, and what the state directory already holds.
//!
//! *Step 2 of a pod's journey, before the first one.* Before: flags. After: [`super::open_store`] opens what was chosen.
//!
//! A cluster's objects stay in the store in which they began. Whoever starts a program without etcd on a state directory with
//! etcd's data would otherwise see an empty cluster, with the nodes' containers of the old one being removed as nobody's. So a store
//! that would hide objects is refused, with what to do instead.
//!
//! # Invariants
//! 1. A new store is never made beside one that holds objects, unless both are there already.
//!
//! # In Kubernetes
//! No counterpart: there is only etcd, and it is always named.

use crate::options::StoreKind;

/// What a state directory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// Data of an etcd that we started.
    pub etcd: bool,
    /// An embedded store.
    pub embedded: bool,
}

/// Whether we could start an etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Etcd {
    /// Yes.
    Installed,
    /// The program is missing.
    NotInstalled,
    /// This program was built without it.
    NotBuiltIn,
}

/// What to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Memory.
    Memory,
    /// The embedded store; where it wasn't asked for, why not etcd.
    Embedded(&'static str),
    /// An etcd of our own.
    OwnEtcd,
    /// The servers that a flag names.
    GivenEtcd,
}

/// Why nothing is opened.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    /// There is no etcd where one was asked for or is needed.
    #[error("etcd is not installed (apt-get install etcd-server), and --etcd-servers is not given")]
    NotInstalled,
    /// Nor could there be one.
    #[error("etcd is not built in: build with --features real")]
    NotBuiltIn,
    /// etcd's data is there, and this program can't read it.
    #[error(
        "this cluster's objects are in etcd (directory etcd of the state directory), which this program was built without: \
         build with --features real, or begin a new cluster with another --state-dir"
    )]
    NeedsBuild,
    /// etcd's data is there, and no etcd.
    #[error(
        "this cluster's objects are in etcd (directory etcd of the state directory), which is not installed: \
         apt-get install etcd-server, or begin a new cluster with another --state-dir"
    )]
    NeedsInstallation,
    /// The embedded store was asked for, and etcd has the objects.
    #[error(
        "this cluster's objects are in etcd (directory etcd of the state directory), not in the embedded store: \
         leave --store out, or begin a new cluster with another --state-dir"
    )]
    InEtcd,
    /// etcd was asked for, and the embedded store has the objects.
    #[error(
        "this cluster's objects are in the embedded store (store/store.redb of the state directory), not in etcd: \
         leave --store and --etcd-servers out, or begin a new cluster with another --state-dir"
    )]
    InEmbedded,
}

// ANCHOR: choose-store
/// What to open, or why nothing is.
///
/// # Errors
/// [`Refusal`], which says what to do.
pub fn choose(
    wanted: Option<StoreKind>,
    servers_given: bool,
    holds: Holds,
    etcd: Etcd,
) -> Result<Choice, Refusal> {
    let only_embedded = holds.embedded && !holds.etcd;
    let only_etcd = holds.etcd && !holds.embedded;
    match (wanted, servers_given) {
        (Some(StoreKind::Memory), _) => Ok(Choice::Memory),
        (Some(StoreKind::Embedded), _) if only_etcd => Err(Refusal::InEtcd),
        (Some(StoreKind::Embedded), _) => Ok(Choice::Embedded("")),
        (Some(StoreKind::Etcd), _) | (None, true) if only_embedded => Err(Refusal::InEmbedded),
        (Some(StoreKind::Etcd), _) | (None, true) if etcd == Etcd::NotBuiltIn => Err(Refusal::NotBuiltIn),
        (Some(StoreKind::Etcd), true) | (None, true) => Ok(Choice::GivenEtcd),
        (Some(StoreKind::Etcd), false) if etcd == Etcd::NotInstalled => Err(Refusal::NotInstalled),
        (Some(StoreKind::Etcd), false) => Ok(Choice::OwnEtcd),
        // The cluster began with the embedded store; it stays there.
        (None, false) if holds.embedded => Ok(Choice::Embedded("")),
        (None, false) => match etcd {
            Etcd::Installed => Ok(Choice::OwnEtcd),
            Etcd::NotInstalled if holds.etcd => Err(Refusal::NeedsInstallation),
            Etcd::NotBuiltIn if holds.etcd => Err(Refusal::NeedsBuild),
            Etcd::NotInstalled => {
                Ok(Choice::Embedded(" (etcd is not installed: apt-get install etcd-server)"))
            }
            Etcd::NotBuiltIn => Ok(Choice::Embedded(" (etcd is not built in: --features real)")),
        },
    }
}
// ANCHOR_END: choose-store

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Holds = Holds { etcd: false, embedded: false };
    const ETCD: Holds = Holds { etcd: true, embedded: false };
    const EMBEDDED: Holds = Holds { etcd: false, embedded: true };
    const BOTH: Holds = Holds { etcd: true, embedded: true };

    #[test]
    fn a_new_cluster_takes_etcd_where_it_can() {
        assert_eq!(choose(None, false, NOTHING, Etcd::Installed), Ok(Choice::OwnEtcd));
        assert!(
            matches!(choose(None, false, NOTHING, Etcd::NotInstalled), Ok(Choice::Embedded(why)) if why.contains("apt-get"))
        );
        assert!(
            matches!(choose(None, false, NOTHING, Etcd::NotBuiltIn), Ok(Choice::Embedded(why)) if why.contains("--features"))
        );
        assert_eq!(choose(None, true, NOTHING, Etcd::NotInstalled), Ok(Choice::GivenEtcd));
        assert_eq!(choose(Some(StoreKind::Memory), false, ETCD, Etcd::NotBuiltIn), Ok(Choice::Memory));
    }

    #[test]
    fn objects_in_etcd_are_never_hidden_by_an_empty_embedded_store() {
        assert_eq!(choose(None, false, ETCD, Etcd::NotBuiltIn), Err(Refusal::NeedsBuild));
        assert_eq!(choose(None, false, ETCD, Etcd::NotInstalled), Err(Refusal::NeedsInstallation));
        for etcd in [Etcd::Installed, Etcd::NotInstalled, Etcd::NotBuiltIn] {
            assert_eq!(choose(Some(StoreKind::Embedded), false, ETCD, etcd), Err(Refusal::InEtcd));
        }
        assert_eq!(choose(None, false, ETCD, Etcd::Installed), Ok(Choice::OwnEtcd));
    }

    #[test]
    fn objects_in_the_embedded_store_are_never_hidden_by_an_empty_etcd() {
        for etcd in [Etcd::Installed, Etcd::NotInstalled, Etcd::NotBuiltIn] {
            assert_eq!(choose(Some(StoreKind::Etcd), false, EMBEDDED, etcd), Err(Refusal::InEmbedded));
            assert_eq!(choose(None, true, EMBEDDED, etcd), Err(Refusal::InEmbedded));
            assert_eq!(choose(None, false, EMBEDDED, etcd), Ok(Choice::Embedded("")));
        }
    }

    #[test]
    fn where_both_are_the_flag_decides() {
        assert_eq!(choose(Some(StoreKind::Etcd), false, BOTH, Etcd::Installed), Ok(Choice::OwnEtcd));
        assert_eq!(choose(Some(StoreKind::Embedded), false, BOTH, Etcd::Installed), Ok(Choice::Embedded("")));
        assert_eq!(choose(None, false, BOTH, Etcd::Installed), Ok(Choice::Embedded("")));
    }

    #[test]
    fn an_etcd_that_cannot_be_had_is_refused() {
        let wanted = Some(StoreKind::Etcd);
        assert_eq!(choose(wanted, false, NOTHING, Etcd::NotInstalled), Err(Refusal::NotInstalled));
        assert_eq!(choose(wanted, false, NOTHING, Etcd::NotBuiltIn), Err(Refusal::NotBuiltIn));
        assert_eq!(choose(None, true, NOTHING, Etcd::NotBuiltIn), Err(Refusal::NotBuiltIn));
    }
}
