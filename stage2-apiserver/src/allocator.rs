//! Allocators: which Service addresses and node ports are taken.
//!
//! *Step 4 of a pod's journey through the API server* (for Services). Before: [`crate::strategies`] prepared the Service. After: it is stored.
//!
//! A Service's address comes from a fixed range and must be nobody else's. The set of taken ones is a bitmap in memory; the truth is the
//! stored Services, from which the bitmap is rebuilt at start and [repaired](repair) every few minutes. An allocation is made before the
//! Service is stored and given back if the write fails.
//!
//! The lower part of a range is left to those who ask for an address by name, so that a static choice rarely meets a dynamic one.
//!
//! # Invariants
//! 1. No value is given out twice.
//! 2. The network address, and for IPv4 the broadcast address, are never given out.
//! 3. After [`Allocator::rebuild`] exactly the stored values are taken.
//!
//! # In Kubernetes
//! `pkg/registry/core/service/{ipallocator,portallocator}`, `…/allocator/bitmap.go`. Left out: IPAddress and ServiceCIDR objects as the
//! store of allocations, dual stack.

pub mod repair;
pub mod service;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;

/// Default of `--service-cluster-ip-range`.
pub const DEFAULT_SERVICE_CLUSTER_IP_RANGE: &str = "10.96.0.0/16";
/// Default of `--service-node-port-range`, first port.
pub const DEFAULT_NODE_PORT_FIRST: u16 = 30000;
/// Default of `--service-node-port-range`, last port.
pub const DEFAULT_NODE_PORT_LAST: u16 = 32767;

// ANCHOR: bitmap
/// A set of the numbers `0..size`, one bit each.
#[derive(Clone, Debug)]
pub struct Bitmap {
    words: Vec<u64>,
    size: usize,
    /// Dynamic allocations begin here; only when the rest is full they go below.
    offset: usize,
}

impl Bitmap {
    /// An empty set; the numbers below `offset` are kept for static allocation.
    pub fn new(size: usize, offset: usize) -> Self {
        Bitmap { words: vec![0; size.div_ceil(64)], size, offset: offset.min(size) }
    }

    /// The number is taken.
    pub fn has(&self, number: usize) -> bool {
        number < self.size && self.words[number / 64] >> (number % 64) & 1 == 1
    }

    /// Takes a number; `false` if it was taken already or is out of range.
    pub fn allocate(&mut self, number: usize) -> bool {
        if number >= self.size || self.has(number) {
            return false;
        }
        self.words[number / 64] |= 1 << (number % 64);
        true
    }

    /// Takes a free number, searched from a random place on.
    pub fn allocate_next(&mut self, random: u64) -> Option<usize> {
        let upper = self.free_in(self.offset, self.size, random);
        let number = upper.or_else(|| self.free_in(0, self.offset, random))?;
        self.allocate(number).then_some(number)
    }

    fn free_in(&self, low: usize, high: usize, random: u64) -> Option<usize> {
        let count = high.checked_sub(low).filter(|count| *count > 0)?;
        let start = usize::try_from(random % count as u64).expect("less than a usize");
        (0..count).map(|step| low + (start + step) % count).find(|number| !self.has(*number))
    }

    /// Gives a number back.
    pub fn release(&mut self, number: usize) {
        if number < self.size {
            self.words[number / 64] &= !(1 << (number % 64));
        }
    }
}
// ANCHOR_END: bitmap

impl Bitmap {
    /// All that are taken.
    pub fn taken(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.words.iter().enumerate().filter(|(_, word)| **word != 0);
        words.flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        })
    }

    /// How many are free.
    pub fn free(&self) -> usize {
        self.size - self.words.iter().map(|word| word.count_ones() as usize).sum::<usize>()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }
}

/// A band at the low end for static allocation: a sixteenth of the range, between 16 and 256.
fn static_band(size: usize, min: usize, max: usize, step: usize) -> usize {
    if size < min { 0 } else { (size / step).clamp(min, max) }
}

/// The taken addresses of the Service range.
#[derive(Clone, Debug)]
pub struct IpAllocator {
    base: u32,
    prefix: u8,
    bitmap: Bitmap,
}

/// A range that is not `A.B.C.D/N`.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("service cluster IP range {0:?} is not an IPv4 CIDR of at most 20 bits of hosts")]
pub struct BadRange(String);

impl IpAllocator {
    /// From `10.96.0.0/16`.
    ///
    /// # Errors
    /// The range can't be used.
    pub fn new(cidr: &str) -> Result<Self, BadRange> {
        let bad = || BadRange(cidr.to_owned());
        let (address, prefix) = cidr.split_once('/').ok_or_else(bad)?;
        let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
        let prefix: u8 = prefix.parse().map_err(|_| bad())?;
        if !(12..=30).contains(&prefix) {
            return Err(bad());
        }
        let base = u32::from(address) & (u32::MAX << (32 - prefix));
        // Neither the network's nor the broadcast address.
        let size = (1_usize << (32 - prefix)) - 2;
        Ok(IpAllocator { base, prefix, bitmap: Bitmap::new(size, static_band(size, 16, 256, 16)) })
    }

    fn number(&self, address: Ipv4Addr) -> Option<usize> {
        let offset = u32::from(address).checked_sub(self.base)?.checked_sub(1)?;
        usize::try_from(offset).ok().filter(|number| *number < self.bitmap.size)
    }

    /// The range as text.
    pub fn cidr(&self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.base), self.prefix)
    }

    /// The address is in the range.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        self.number(address).is_some()
    }

    /// Takes an address; `false` if it is taken or out of range.
    pub fn allocate(&mut self, address: Ipv4Addr) -> bool {
        self.number(address).is_some_and(|number| self.bitmap.allocate(number))
    }

    /// Takes a free address.
    pub fn allocate_next(&mut self, random: u64) -> Option<Ipv4Addr> {
        let number = self.bitmap.allocate_next(random)?;
        Some(Ipv4Addr::from(self.base + 1 + u32::try_from(number).expect("the range has at most 20 bits")))
    }

    /// Gives an address back.
    pub fn release(&mut self, address: Ipv4Addr) {
        if let Some(number) = self.number(address) {
            self.bitmap.release(number);
        }
    }

    /// How many are free.
    pub fn free(&self) -> usize {
        self.bitmap.free()
    }

    /// All that are taken.
    pub fn taken(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        let address = |number| u32::try_from(number).expect("the range has at most 20 bits");
        self.bitmap.taken().map(move |number| Ipv4Addr::from(self.base + 1 + address(number)))
    }

    /// Exactly these are taken.
    pub fn rebuild(&mut self, taken: impl IntoIterator<Item = Ipv4Addr>) {
        self.bitmap.clear();
        for address in taken {
            self.allocate(address);
        }
    }
}

/// The taken node ports.
#[derive(Clone, Debug)]
pub struct PortAllocator {
    first: u16,
    last: u16,
    bitmap: Bitmap,
}

impl Default for PortAllocator {
    fn default() -> Self {
        PortAllocator::new(DEFAULT_NODE_PORT_FIRST, DEFAULT_NODE_PORT_LAST)
    }
}

impl PortAllocator {
    /// Ports from `first` to `last`, both included.
    pub fn new(first: u16, last: u16) -> Self {
        let size = usize::from(last.saturating_sub(first)) + 1;
        PortAllocator { first, last, bitmap: Bitmap::new(size, static_band(size, 16, 128, 32)) }
    }

    /// `30000-32767`.
    pub fn range(&self) -> String {
        format!("{}-{}", self.first, self.last)
    }

    /// The port is in the range.
    pub fn contains(&self, port: i64) -> bool {
        (i64::from(self.first)..=i64::from(self.last)).contains(&port)
    }

    fn number(&self, port: i64) -> Option<usize> {
        self.contains(port).then(|| usize::try_from(port - i64::from(self.first)).expect("in range"))
    }

    /// The port is taken.
    pub fn has(&self, port: i64) -> bool {
        self.number(port).is_some_and(|number| self.bitmap.has(number))
    }

    /// Takes a port; `false` if it is taken or out of range.
    pub fn allocate(&mut self, port: i64) -> bool {
        self.number(port).is_some_and(|number| self.bitmap.allocate(number))
    }

    /// Takes a free port.
    pub fn allocate_next(&mut self, random: u64) -> Option<i64> {
        let number = self.bitmap.allocate_next(random)?;
        Some(i64::from(self.first) + i64::try_from(number).expect("a port"))
    }

    /// All that are taken.
    pub fn taken(&self) -> impl Iterator<Item = i64> + '_ {
        self.bitmap.taken().map(|number| i64::from(self.first) + i64::try_from(number).expect("a port"))
    }

    /// Gives a port back.
    pub fn release(&mut self, port: i64) {
        if let Some(number) = self.number(port) {
            self.bitmap.release(number);
        }
    }

    /// Exactly these are taken.
    pub fn rebuild(&mut self, taken: impl IntoIterator<Item = i64>) {
        self.bitmap.clear();
        for port in taken {
            self.allocate(port);
        }
    }
}
