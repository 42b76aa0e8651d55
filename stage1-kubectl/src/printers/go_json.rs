//! JSON in the form of Go's encoder.
//!
//! Byte for byte matters: people keep and compare this output. Go writes `<`, `>` and `&` as escapes (so that JSON can stand
//! in a web page), whole floats without a fraction, and an exponent only for very large and very small numbers.
//!
//! # In Kubernetes
//! `encoding/json/encode.go` (`floatEncoder`, `appendString`), `cli-runtime/pkg/printers/json.go`.

use std::io;

use serde_json::ser::{Formatter, PrettyFormatter};

/// Indents by four.
pub(super) struct GoFormatter(PrettyFormatter<'static>);

impl GoFormatter {
    pub(super) fn new() -> Self {
        GoFormatter(PrettyFormatter::with_indent(b"    "))
    }
}

/// A float as Go writes it.
pub(super) fn float(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if (1e-6..1e21).contains(&value.abs()) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    match text.contains("e-") {
        true => text,
        false => text.replace('e', "e+"),
    }
}

impl Formatter for GoFormatter {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }

    /// What doesn't fit into 64 bits with a sign became a float when it was read.
    fn write_u64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        match i64::try_from(value) {
            Ok(value) => writer.write_all(value.to_string().as_bytes()),
            Err(_) => self.write_f64(writer, value as f64),
        }
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let c = rest[at..].chars().next().unwrap_or_default();
            write!(writer, "{}\\u{:04x}", &rest[..at], c as u32)?;
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::printers::to_json;

    #[test]
    fn numbers_and_angle_brackets_are_written_as_go_does() {
        let value = json!([1e20, -0.0, 1.5, 1e21, 1e-7, u64::MAX, "<a&b>", 3.0]);
        let lines = [
            "100000000000000000000",
            "0",
            "1.5",
            "1e+21",
            "1e-7",
            "18446744073709552000",
            "\"\\u003ca\\u0026b\\u003e\"",
            "3",
        ];
        let wanted: Vec<String> = lines.iter().map(|line| format!("    {line}")).collect();
        assert_eq!(to_json(&value), format!("[\n{}\n]\n", wanted.join(",\n")));
    }
}
