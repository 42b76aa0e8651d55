//! `printf` as Go's `fmt.Sprintf` prints the values that JSON has.
//!
//! A verb that doesn't fit the value is no error: it stands in the output, `%!d(string=web)`.
//!
//! # In Kubernetes
//! Go's `fmt/{format,print}.go`. Left out: `*` for a width, `%[1]d`, `%U`, `%b`, `%o`, the flags `#` and space.

use serde_json::Value;

use super::functions::{text, type_name, whole};

/// The text of a format and its arguments.
pub(super) fn printf(format: &str, arguments: &[Value]) -> String {
    let mut out = String::new();
    let mut arguments = arguments.iter();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let spec = &rest[at + 1..];
        let Some(end) = spec.find(|c: char| c.is_alphabetic() || c == '%') else {
            out.push_str("%!(NOVERB)");
            return out;
        };
        let verb = spec[end..].chars().next().unwrap_or('%');
        rest = &spec[end + verb.len_utf8()..];
        if verb == '%' {
            out.push('%');
            continue;
        }
        match arguments.next() {
            None => out.push_str(&format!("%!{verb}(MISSING)")),
            Some(value) => out.push_str(&Flags::read(&spec[..end]).shown(verb, value)),
        }
    }
    out.push_str(rest);
    let extra: Vec<String> =
        arguments.map(|value| format!("{}={}", type_name(value), plain(value))).collect();
    match extra.is_empty() {
        true => out,
        false => format!("{out}%!(EXTRA {})", extra.join(", ")),
    }
}

/// `%v`.
fn plain(value: &Value) -> String {
    if value.is_null() { "<nil>".into() } else { text(value) }
}

/// `-08.3` between the percent sign and the verb.
#[derive(Debug, Default, Clone, Copy)]
struct Flags {
    left: bool,
    zeros: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
}

impl Flags {
    fn read(text: &str) -> Self {
        let sizes = text.trim_start_matches(['-', '0', '+', ' ', '#']);
        let marks = &text[..text.len() - sizes.len()];
        let (width, precision) =
            sizes.split_once('.').map_or((sizes, None), |(width, precision)| (width, Some(precision)));
        Flags {
            left: marks.contains('-'),
            zeros: marks.contains('0') && !marks.contains('-'),
            plus: marks.contains('+'),
            width: width.parse().unwrap_or(0),
            precision: precision.map(|digits| digits.parse().unwrap_or(0)),
        }
    }

    fn shown(self, verb: char, value: &Value) -> String {
        match (verb, value) {
            ('T', value) => self.padded(type_name(value).into(), false),
            ('v', value) => self.padded(plain(value), matches!(value, Value::Number(_))),
            (_, Value::Array(items)) => {
                let items: Vec<String> = items.iter().map(|item| self.shown(verb, item)).collect();
                format!("[{}]", items.join(" "))
            }
            (_, Value::Object(map)) => {
                let entries = map.iter().map(|(key, value)| {
                    format!("{}:{}", self.shown(verb, &key.as_str().into()), self.shown(verb, value))
                });
                format!("map[{}]", entries.collect::<Vec<_>>().join(" "))
            }
            ('t', Value::Bool(value)) => self.padded(value.to_string(), false),
            (_, Value::String(value)) => self.string(verb, value),
            (_, Value::Number(number)) => match whole(number) {
                Some(value) => self.integer(verb, value),
                None => self.float(verb, number.as_f64().unwrap_or_default()),
            },
            (_, value) => bad(verb, value),
        }
    }

    fn string(self, verb: char, value: &str) -> String {
        let cut: String = value.chars().take(self.precision.unwrap_or(usize::MAX)).collect();
        let shown = match verb {
            's' => cut,
            'q' => format!("{cut:?}"),
            'x' => cut.bytes().map(|byte| format!("{byte:02x}")).collect(),
            'X' => cut.bytes().map(|byte| format!("{byte:02X}")).collect(),
            _ => return bad(verb, &value.into()),
        };
        self.padded(shown, self.zeros)
    }

    fn integer(self, verb: char, value: i64) -> String {
        let sign = if self.plus && value >= 0 { "+" } else { "" };
        let shown = match verb {
            'd' => format!("{sign}{value}"),
            'x' if value < 0 => format!("-{:x}", value.unsigned_abs()),
            'x' => format!("{sign}{value:x}"),
            'X' => format!("{sign}{value:X}"),
            'q' | 'c' => {
                let letter = u32::try_from(value).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
                if verb == 'q' { quoted(letter) } else { letter.to_string() }
            }
            _ => return bad(verb, &value.into()),
        };
        self.padded(shown, self.zeros)
    }

    fn float(self, verb: char, value: f64) -> String {
        let sign = if self.plus && value >= 0.0 { "+" } else { "" };
        let shown = match (verb, self.precision) {
            ('f' | 'F', precision) => format!("{sign}{value:.*}", precision.unwrap_or(6)),
            ('g', None) => format!("{sign}{}", text(&value.into())),
            _ => return bad(verb, &value.into()),
        };
        self.padded(shown, self.zeros)
    }

    fn padded(self, text: String, zeros: bool) -> String {
        let width = self.width;
        if !(zeros && self.zeros) {
            return if self.left { format!("{text:<width$}") } else { format!("{text:>width$}") };
        }
        // The sign stands before the zeros.
        let digits = text.trim_start_matches(['-', '+']);
        let sign = &text[..text.len() - digits.len()];
        format!("{sign}{digits:0>rest$}", rest = width.saturating_sub(sign.len()))
    }
}

/// A letter in quotes, with Go's escapes.
fn quoted(letter: char) -> String {
    match letter {
        '\'' => "'\\''".into(),
        '\\' => "'\\\\'".into(),
        '\u{7}' => "'\\a'".into(),
        '\u{8}' => "'\\b'".into(),
        '\t' => "'\\t'".into(),
        '\n' => "'\\n'".into(),
        '\u{b}' => "'\\v'".into(),
        '\u{c}' => "'\\f'".into(),
        '\r' => "'\\r'".into(),
        letter if (letter as u32) < 0x20 || letter as u32 == 0x7f => format!("'\\x{:02x}'", letter as u32),
        letter => format!("'{letter}'"),
    }
}

/// A verb that doesn't fit.
fn bad(verb: char, value: &Value) -> String {
    match value.is_null() {
        true => format!("%!{verb}(<nil>)"),
        false => format!("%!{verb}({}={})", type_name(value), plain(value)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn verbs_that_fit_print_and_those_that_dont_say_so() {
        let list = [json!(5), json!("web"), json!(true), json!(0.5), Value::Null, json!([1, "a"])];
        let shown = |format: &str| list.each_ref().map(|value| printf(format, &[(*value).clone()]));
        assert_eq!(
            shown("%d"),
            ["5", "%!d(string=web)", "%!d(bool=true)", "%!d(float64=0.5)", "%!d(<nil>)", "[1 %!d(string=a)]"]
        );
        assert_eq!(shown("%s")[..4], ["%!s(int64=5)", "web", "%!s(bool=true)", "%!s(float64=0.5)"]);
        assert_eq!(shown("%v"), ["5", "web", "true", "0.5", "<nil>", "[1 a]"]);
        assert_eq!(shown("%q")[..2], ["'\\x05'", "\"web\""]);
        assert_eq!(
            printf("%05d|%-5s|%5.1f|%.2s", &[json!(-7), json!("a"), json!(0.25), json!("abc")]),
            "-0007|a    |  0.2|ab"
        );
        assert_eq!(printf("%d%%", &[]), "%!d(MISSING)%");
        assert_eq!(printf("a", &[json!(1)]), "a%!(EXTRA int64=1)");
    }
}
