//! Addresses: IPs and CIDRs in objects.
//!
//! # In Kubernetes
//! `apimachinery/pkg/util/validation/ip.go`, `ValidateNonSpecialIP`. Left out: the old acceptance of leading zeros is kept there, not here.

use std::net::IpAddr;

use super::{Errors, FieldError};

/// `must be a valid IP address, …`.
pub const NOT_AN_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
/// `must be a valid CIDR value, …`.
pub const NOT_A_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// An IP address.
pub fn ip(errors: &mut Errors, value: &str, path: &str) {
    if value.parse::<IpAddr>().is_err() {
        errors.push(FieldError::invalid(path, value, NOT_AN_IP));
    }
}

/// A range of addresses.
pub fn parse_cidr(value: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = value.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let length: u8 = length.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (length <= most).then_some((address, length))
}

/// A CIDR.
pub fn cidr(errors: &mut Errors, value: &str, path: &str) {
    if parse_cidr(value).is_none() {
        errors.push(FieldError::invalid(path, value, NOT_A_CIDR));
    }
}

/// The inner range is a strict part of the outer one.
pub fn strictly_contains(outer: (IpAddr, u8), inner: (IpAddr, u8)) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
        IpAddr::V6(v6) => u128::from(v6),
    };
    let mask = if outer.1 == 0 { 0 } else { u128::MAX << (128 - u32::from(outer.1)) };
    outer.0.is_ipv4() == inner.0.is_ipv4()
        && inner.1 > outer.1
        && bits(outer.0) & mask == bits(inner.0) & mask
}

/// An address that endpoints may have: not unspecified, loopback, link-local or multicast.
pub fn non_special_ip(errors: &mut Errors, value: &str, path: &str) {
    let Ok(address) = value.parse::<IpAddr>() else {
        errors.push(FieldError::invalid(path, value, NOT_AN_IP));
        return;
    };
    if address.is_unspecified() {
        errors.push(FieldError::invalid(path, value, format!("may not be unspecified ({value})")));
    }
    if address.is_loopback() {
        errors.push(FieldError::invalid(
            path,
            value,
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ));
    }
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02),
    };
    if link_local {
        errors.push(FieldError::invalid(
            path,
            value,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ));
    }
    if link_local_multicast {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errors.push(FieldError::invalid(path, value, detail));
    }
}
