//! Go's JSON errors: what `encoding/json` and `encoding/base64` say about bytes that they can't read.
//!
//! The API server looks at `apiVersion` and `kind` before it decodes a body; a body that is not JSON is refused there with the text of
//! Go's scanner. Users search the web for these texts, so we produce them.
//!
//! # In Kubernetes
//! `apimachinery/pkg/runtime/serializer/json/meta.go` (`Interpret`), `encoding/json/scanner.go`, `encoding/base64/base64.go`.
//! Left out: the exact context of errors inside a literal; nesting of more than 127 lists and maps, where Go reads 10,000.

use serde_json::Value;

/// What the body says it is. Empty strings where it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `apps/v1`.
    pub api_version: String,
    /// `Deployment`.
    pub kind: String,
}

/// Reads `apiVersion` and `kind`.
///
/// # Errors
/// `couldn't get version/kind; json parse error: …`, as Kubernetes words it (without the bytes that the caller adds in parentheses).
pub fn interpret(body: &[u8]) -> Result<TypeMeta, String> {
    const WHOLE: &str = "Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    let fail = |text: String| format!("couldn't get version/kind; json parse error: {text}");
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(_) => {
            return Err(fail(
                syntax_error(body).unwrap_or_else(|| "unexpected end of JSON input".to_owned()),
            ));
        }
    };
    let object = match &value {
        Value::Object(object) => object,
        Value::Null => return Ok(TypeMeta::default()),
        other => return Err(fail(format!("json: cannot unmarshal {} into {WHOLE}", kind_of(other)))),
    };
    let field = |name: &str, go: &str| match object.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => {
            let kind = kind_of(other);
            Err(fail(format!("json: cannot unmarshal {kind} into Go struct field .{name} of type {go}")))
        }
    };
    Ok(TypeMeta { api_version: field("apiVersion", "string")?, kind: field("kind", "string")? })
}

/// The bytes as Kubernetes shows them after such an error: the beginning, as text when printable, as hex otherwise.
pub fn shown_bytes(body: &[u8], json_like: bool) -> String {
    const LIMIT: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let cut = &body[..body.len().min(LIMIT)];
    let more = if body.len() > LIMIT { " ..." } else { "" };
    if json_like {
        format!("{}{more}", String::from_utf8_lossy(cut))
    } else {
        let hex: String = cut.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{hex}{more}")
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The first syntax error in Go's words; `None` if the text is JSON as far as this scanner can tell.
pub fn syntax_error(body: &[u8]) -> Option<String> {
    let mut scanner = Scanner { body, at: 0, depth: 0 };
    scanner.value("looking for beginning of value").err().or_else(|| {
        scanner.space();
        scanner.body.get(scanner.at).map(|byte| invalid(*byte, "after top-level value"))
    })
}

fn invalid(byte: u8, context: &str) -> String {
    let shown = match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        0x20..=0x7e => format!("'{}'", char::from(byte)),
        0x80.. => format!("'{}'", char::from(byte)),
        _ => format!("'\\x{byte:02x}'"),
    };
    format!("invalid character {shown} {context}")
}

/// How deep lists and maps may be nested. Go's scanner goes down to 10,000; serde_json stops here, and no kind is half as deep.
const MAX_DEPTH: usize = 127;

struct Scanner<'a> {
    body: &'a [u8],
    at: usize,
    depth: usize,
}

impl Scanner<'_> {
    fn space(&mut self) {
        while matches!(self.body.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte =
            self.body.get(self.at).copied().ok_or_else(|| "unexpected end of JSON input".to_owned())?;
        self.at += 1;
        Ok(byte)
    }

    fn value(&mut self, context: &str) -> Result<(), String> {
        self.space();
        match self.next()? {
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b'"' => self.string(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' | b'0'..=b'9' => {
                while matches!(self.body.get(self.at), Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')) {
                    self.at += 1;
                }
                Ok(())
            }
            other => Err(invalid(other, context)),
        }
    }

    fn nested(&mut self, scan: fn(&mut Self) -> Result<(), String>) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        scan(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self) -> Result<(), String> {
        self.space();
        if self.body.get(self.at) == Some(&b'}') {
            self.at += 1;
            return Ok(());
        }
        let mut context = "looking for beginning of object key string";
        loop {
            self.space();
            match self.next()? {
                b'"' => self.string()?,
                other => return Err(invalid(other, context)),
            }
            self.space();
            match self.next()? {
                b':' => {}
                other => return Err(invalid(other, "after object key")),
            }
            self.value("looking for beginning of value")?;
            self.space();
            match self.next()? {
                b',' => context = "looking for beginning of object key string",
                b'}' => return Ok(()),
                other => return Err(invalid(other, "after object key:value pair")),
            }
        }
    }

    fn array(&mut self) -> Result<(), String> {
        self.space();
        if self.body.get(self.at) == Some(&b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value("looking for beginning of value")?;
            self.space();
            match self.next()? {
                b',' => {}
                b']' => return Ok(()),
                other => return Err(invalid(other, "after array element")),
            }
        }
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => drop(self.next()?),
                control if control < 0x20 => return Err(invalid(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in &word.as_bytes()[1..] {
            let found = self.next()?;
            if found != *expected {
                let expected = char::from(*expected);
                return Err(invalid(found, &format!("in literal {word} (expecting '{expected}')")));
            }
        }
        Ok(())
    }
}

/// Where Go's base64 decoder would stop; `None` if it reads the whole text.
pub fn base64_corrupt_at(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let newline = |byte: u8| byte == b'\r' || byte == b'\n';
    let (mut in_quantum, mut at) = (0, 0);
    while at < bytes.len() {
        let byte = bytes[at];
        at += 1;
        if newline(byte) {
            continue;
        }
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => in_quantum = (in_quantum + 1) % 4,
            b'=' if in_quantum < 2 => return Some(at - 1),
            b'=' => {
                let mut rest = bytes[at..].iter().enumerate().filter(|(_, byte)| !newline(**byte));
                if in_quantum == 2 {
                    match rest.next() {
                        None => return Some(bytes.len()),
                        Some((_, b'=')) => {}
                        Some((offset, _)) => return Some(at + offset),
                    }
                }
                return rest.next().map(|(offset, _)| at + offset);
            }
            _ => return Some(at - 1),
        }
    }
    (in_quantum != 0).then(|| bytes.len() - in_quantum)
}
