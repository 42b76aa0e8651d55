//! Allocation: what a Service's write took, and what becomes of it, however the write ends.
//!
//! *Step 2 of a pod's journey* (for Services). Before: the object is prepared. After: its addresses and ports are its own, or free again.
//!
//! A request may end at any point where it waits: its client hangs up and the whole future is dropped. So what was taken is held by a value
//! whose end gives it back. The subtle thing is the write itself: once it is on its way to the store, nobody who is dropped can know whether
//! it arrived. Giving back would let two Services have one address; so the value stays taken, and
//! [`crate::allocator::repair`] finds it later if no Service has it.
//!
//! # Invariants
//! 1. What was taken is committed, given back, or left to the repair; never forgotten.
//!
//! # In Kubernetes
//! `pkg/registry/core/service/storage/transaction.go`, and `finishTransaction` of the `BeginCreate` hooks.

use parking_lot::Mutex;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use crate::allocator::service::{ServiceAllocators, Transaction};

/// What one attempt of a write took.
pub struct Allocation<'a> {
    allocators: &'a Mutex<ServiceAllocators>,
    transaction: Option<Transaction>,
    is_on_its_way: bool,
}

impl<'a> Allocation<'a> {
    /// Nothing: for what isn't a Service.
    pub fn none(allocators: &'a Mutex<ServiceAllocators>) -> Self {
        Allocation { allocators, transaction: None, is_on_its_way: false }
    }

    /// Takes what a Service needs.
    ///
    /// # Errors
    /// 422 if a wished value is taken or out of range.
    pub fn take(
        allocators: &'a Mutex<ServiceAllocators>,
        service: &mut Object,
        old: Option<&Object>,
        dry_run: bool,
        random: u64,
    ) -> Result<Self, Status> {
        let transaction = allocators.lock().allocate(service, old, dry_run, random)?;
        Ok(Allocation { allocators, transaction: Some(transaction), is_on_its_way: false })
    }

    /// From now on nobody can know whether the object is stored, until [`Allocation::settle`] is told.
    pub fn on_its_way(mut self) -> Self {
        self.is_on_its_way = true;
        self
    }

    /// The write ended. What the store couldn't say (a timeout, a lost connection) is left to the repair.
    pub fn settle<T>(mut self, outcome: &Result<T, Status>, dry_run: bool) {
        let Some(transaction) = self.transaction.take() else { return };
        let mut allocators = self.allocators.lock();
        match outcome {
            Ok(_) if !dry_run => transaction.commit(&mut allocators),
            Err(status) if status.code >= 500 && !dry_run => {}
            _ => transaction.revert(&mut allocators),
        }
    }
}

impl Drop for Allocation<'_> {
    fn drop(&mut self) {
        if let (Some(transaction), false) = (self.transaction.take(), self.is_on_its_way) {
            transaction.revert(&mut self.allocators.lock());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::allocator::{IpAllocator, PortAllocator};

    fn taken(allocators: &Mutex<ServiceAllocators>) -> Allocation<'_> {
        let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]});
        let mut service =
            Object::from_value(json!({"kind": "Service", "metadata": {"name": "s"}, "spec": spec}))
                .expect("a map");
        Allocation::take(allocators, &mut service, None, false, 7).expect("free")
    }

    fn is_taken(allocators: &Mutex<ServiceAllocators>) -> bool {
        allocators.lock().ports.has(30080)
    }

    #[test]
    fn what_a_request_took_is_free_again_however_it_ends() {
        let ips = IpAllocator::new("10.96.0.0/16").expect("a range");
        let allocators = Mutex::new(ServiceAllocators { ips, ports: PortAllocator::default() });
        let free = allocators.lock().ips.free();
        drop(taken(&allocators));
        assert!(!is_taken(&allocators), "the client went before the write");
        taken(&allocators).on_its_way().settle::<()>(&Err(Status::already_exists("services", "s")), false);
        assert!(!is_taken(&allocators), "the store refused");
        taken(&allocators).on_its_way().settle(&Ok(()), true);
        assert!(!is_taken(&allocators), "a dry run");
        assert_eq!(allocators.lock().ips.free(), free);
        drop(taken(&allocators).on_its_way());
        assert!(is_taken(&allocators), "nobody knows whether it was stored");
        let mut repair = crate::allocator::repair::Repair::default();
        repair.look(&mut allocators.lock(), []);
        repair.look(&mut allocators.lock(), []);
        assert!(is_taken(&allocators), "a write may still be on its way");
        repair.look(&mut allocators.lock(), []);
        assert!(!is_taken(&allocators) && allocators.lock().ips.free() == free);
        taken(&allocators).on_its_way().settle(&Ok(()), false);
        assert!(is_taken(&allocators));
    }
}
