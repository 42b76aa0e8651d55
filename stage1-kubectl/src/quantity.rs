//! Quantities: `500m`, `1.5Gi`, `2`: exact numbers with a unit.
//!
//! *Steps 4 and 5 of a pod's journey.* The scheduler adds requests up, the kubelet turns limits into cgroup files.
//!
//! Sums of floats would drift, so a [`Quantity`] is an integer count of billionths (10⁻⁹ is the finest unit that the API
//! knows). It remembers which family of suffixes it was written in, and prints itself in the canonical form of that
//! family: the largest suffix that leaves an integer. `1000m` becomes `1`, `1.5Gi` becomes `1536Mi`.
//!
//! The subtle thing: a binary quantity below 1024, or one that is no whole number, is printed in decimal units.
//!
//! # Invariants
//! 1. Parsing a canonical form and printing it gives the same text.
//! 2. Addition and subtraction are exact; they saturate instead of wrapping.
//!
//! # In Kubernetes
//! `apimachinery/pkg/api/resource/quantity.go`. Left out: values beyond ±1.7·10²⁹, which Kubernetes caps at 2⁶³-1 in most paths.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS: i128 = 1_000_000_000;

/// Which suffixes a quantity is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// `m`, none, `k`, `M`, `G`, …
    #[default]
    DecimalSI,
    /// `Ki`, `Mi`, `Gi`, …
    BinarySI,
    /// `1e3`.
    DecimalExponent,
}

/// An exact amount of something: CPU cores, bytes, pods.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The text is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not `<sign><digits><suffix>`.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number or the suffix can't be read.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Quantity {
    /// Reads `500m`, `1.5Gi`, `1e3`.
    ///
    /// # Errors
    /// [`QuantityError`] with Kubernetes' text.
    // ANCHOR: quantity-parse
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let digits = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(digits);
        if !number.contains(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return Err(QuantityError::Format);
        }
        let (base, exponent, format) = parse_suffix(suffix)?;
        let magnitude = scaled_nanos(number, base, exponent);
        let nanos = if text.starts_with('-') { -magnitude } else { magnitude };
        Ok(Quantity { nanos, format })
    }
    // ANCHOR_END: quantity-parse

    /// A whole number.
    pub fn from_value(value: i64, format: Format) -> Self {
        Quantity { nanos: i128::from(value) * NANOS, format }
    }

    /// Thousandths: CPU in millicores.
    pub fn from_milli(milli: i64, format: Format) -> Self {
        Quantity { nanos: i128::from(milli) * (NANOS / 1000), format }
    }

    /// Zero.
    pub fn zero() -> Self {
        Quantity::default()
    }

    /// The whole number, rounded away from zero; saturates.
    pub fn value(&self) -> i64 {
        rounded_up(self.nanos, NANOS)
    }

    /// The number of thousandths, rounded away from zero; saturates.
    pub fn milli_value(&self) -> i64 {
        rounded_up(self.nanos, NANOS / 1000)
    }

    /// As a floating-point number, for percentages.
    pub fn as_f64(&self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        self.nanos.signum() as i32
    }

    /// The suffix family it is printed in.
    pub fn format(&self) -> Format {
        self.format
    }
}

/// Division that rounds away from zero, cut to the range of i64.
fn rounded_up(nanos: i128, unit: i128) -> i64 {
    let whole = nanos / unit;
    let rounded = if nanos % unit == 0 { whole } else { whole + nanos.signum() };
    i64::try_from(rounded).unwrap_or(if rounded > 0 { i64::MAX } else { i64::MIN })
}

fn parse_suffix(suffix: &str) -> Result<(i128, i32, Format), QuantityError> {
    let decimal = |exponent| Ok((10, exponent, Format::DecimalSI));
    let binary = |exponent| Ok((2, exponent, Format::BinarySI));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        other => {
            let exponent = other.strip_prefix(['e', 'E']).ok_or_else(|| unknown_suffix(other))?;
            let exponent = exponent.parse().map_err(|_| QuantityError::Suffix)?;
            Ok((10, exponent, Format::DecimalExponent))
        }
    }
}

/// Letters that no suffix has fail the regular expression, others are an unknown suffix.
fn unknown_suffix(suffix: &str) -> QuantityError {
    match suffix.chars().all(|c| "eEinumkKMGTP+-0123456789".contains(c)) {
        true => QuantityError::Suffix,
        false => QuantityError::Format,
    }
}

/// `number` × base^exponent in billionths, rounded up, capped at the largest i64 as Kubernetes does.
fn scaled_nanos(number: &str, base: i128, exponent: i32) -> i128 {
    let cap = i128::from(i64::MAX) * NANOS;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let mut numerator: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        let next = numerator.checked_mul(10).and_then(|n| n.checked_add(i128::from(digit - b'0')));
        match next {
            Some(n) => numerator = n,
            None => return cap,
        }
    }
    if numerator == 0 {
        return 0;
    }
    // value = numerator * 10^(9 - fraction digits) * base^exponent
    let mut tens = 9 - i32::try_from(fraction.len()).unwrap_or(i32::MAX - 9);
    let mut twos = 0;
    match base {
        2 => twos = exponent,
        _ => tens = tens.saturating_add(exponent),
    }
    let mut value = Some(numerator);
    for _ in 0..twos {
        value = value.and_then(|v| v.checked_mul(2));
    }
    for _ in 0..tens.clamp(0, 60) {
        value = value.and_then(|v| v.checked_mul(10));
    }
    let Some(value) = value else { return cap };
    if tens < 0 {
        let divisor = 10i128.checked_pow(tens.unsigned_abs()).unwrap_or(i128::MAX);
        return value / divisor + i128::from(value % divisor != 0);
    }
    value
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let magnitude = self.nanos.unsigned_abs();
        let whole = magnitude.is_multiple_of(NANOS.unsigned_abs());
        if self.format == Format::BinarySI && whole && magnitude >= 1024 * NANOS.unsigned_abs() {
            let mut value = self.nanos / NANOS;
            let mut step = 0;
            while value % 1024 == 0 && step < 6 {
                value /= 1024;
                step += 1;
            }
            return write!(f, "{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][step]);
        }
        let mut value = self.nanos;
        let mut exponent = -9;
        while value % 1000 == 0 && exponent < 18 {
            value /= 1000;
            exponent += 3;
        }
        match (self.format, exponent) {
            (Format::DecimalExponent, 0) => write!(f, "{value}"),
            (Format::DecimalExponent, exponent) => write!(f, "{value}e{exponent}"),
            (_, exponent) => {
                let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][((exponent + 9) / 3) as usize];
                write!(f, "{value}{suffix}")
            }
        }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Quantity::parse(text)
    }
}

/// Zero takes the format of the other side, as in Kubernetes: a sum that starts at zero prints like its parts.
fn common_format(a: Quantity, b: Quantity) -> Format {
    if a.is_zero() { b.format } else { a.format }
}

impl Add for Quantity {
    type Output = Quantity;
    fn add(self, other: Quantity) -> Quantity {
        Quantity { nanos: self.nanos.saturating_add(other.nanos), format: common_format(self, other) }
    }
}

impl Sub for Quantity {
    type Output = Quantity;
    fn sub(self, other: Quantity) -> Quantity {
        Quantity { nanos: self.nanos.saturating_sub(other.nanos), format: common_format(self, other) }
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Quantity>>(parts: I) -> Quantity {
        parts.fold(Quantity::zero(), Add::add)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let text = match &value {
            serde_json::Value::String(s) => s.trim().to_string(),
            other => other.to_string(),
        };
        Quantity::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl TryFrom<&k8s_openapi::apimachinery::pkg::api::resource::Quantity> for Quantity {
    type Error = QuantityError;
    fn try_from(
        wire: &k8s_openapi::apimachinery::pkg::api::resource::Quantity,
    ) -> Result<Self, QuantityError> {
        Quantity::parse(&wire.0)
    }
}

impl From<Quantity> for k8s_openapi::apimachinery::pkg::api::resource::Quantity {
    fn from(quantity: Quantity) -> Self {
        k8s_openapi::apimachinery::pkg::api::resource::Quantity(quantity.to_string())
    }
}

#[cfg(test)]
mod tests;
