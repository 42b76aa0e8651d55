//! How one text is written in YAML: plain, in quotes, or as a block.
//!
//! A text is quoted with `"` when plain it would be read as something else (`yes`, `12:30`, `1_000`), with `'` when the
//! grammar forbids it plain (`a: b`, `- x`), with `"` again when it holds characters that need escapes.
//!
//! # In Kubernetes
//! `yaml_emitter_analyze_scalar` in `goyaml.v2/emitterc.go`, `resolve` in `resolve.go`, `stringv` in `encode.go`.

/// Lines are folded at the first space beyond this column.
const BEST_WIDTH: usize = 80;

/// What the grammar allows for a text.
struct Analysis {
    plain: bool,
    single_quoted: bool,
    block: bool,
    multiline: bool,
}

/// A key: never folded, never a block.
pub(super) fn key(text: &str) -> String {
    let analysis = analyze(text);
    if !text.is_empty() && !is_other_type(text) && analysis.plain {
        return text.to_string();
    }
    match !is_other_type(text) && analysis.single_quoted && !analysis.multiline {
        true => format!("'{}'", text.replace('\'', "''")),
        false => double_quoted(text, 0, usize::MAX),
    }
}

/// A text that begins at `column`; continued lines are indented by `indent`.
pub(super) fn text(text: &str, indent: usize, column: usize) -> String {
    let analysis = analyze(text);
    if text.is_empty() || is_other_type(text) {
        return double_quoted(text, indent, column);
    }
    if analysis.multiline {
        return match analysis.block {
            true => block(text, indent),
            false => double_quoted(text, indent, column),
        };
    }
    if analysis.plain {
        return fold(text, indent, column, false);
    }
    match analysis.single_quoted {
        true => format!("'{}'", fold(&text.replace('\'', "''"), indent, column + 1, true)),
        false => double_quoted(text, indent, column),
    }
}

fn analyze(text: &str) -> Analysis {
    let chars: Vec<char> = text.chars().collect();
    let is_blank = |at: usize| chars.get(at).is_none_or(|c| c.is_whitespace());
    let mut indicators = text.starts_with("---") || text.starts_with("...");
    let (mut special, mut breaks, mut space_break, mut break_space) = (false, false, false, false);
    for (at, c) in chars.iter().enumerate() {
        let preceded = at == 0 || chars[at - 1].is_whitespace();
        indicators |= match c {
            '#' if preceded => true,
            ':' if is_blank(at + 1) => true,
            ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                at == 0
            }
            '?' | '-' => at == 0 && is_blank(at + 1),
            _ => false,
        };
        match c {
            '\n' => {
                breaks = true;
                space_break |= at > 0 && chars[at - 1] == ' ';
                break_space |= chars.get(at + 1) == Some(&' ');
            }
            c => special |= !is_printable(*c),
        }
    }
    let edge = |c: Option<&char>| c.is_some_and(|c| *c == ' ' || *c == '\n');
    let outer_space = edge(chars.first()) || edge(chars.last());
    let trailing_space = chars.last() == Some(&' ');
    Analysis {
        plain: !indicators && !outer_space && !breaks && !special && !text.is_empty(),
        single_quoted: !special && !space_break && !break_space,
        block: !special && !space_break && !trailing_space,
        multiline: breaks,
    }
}

/// Go's writer escapes what needs more than three bytes of UTF-8 (emoji).
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

/// Whether a reader of YAML 1.1 would take the plain text for something else than text.
fn is_other_type(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE",
        "n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE", ".nan", ".NaN", ".NAN",
        ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF",
    ];
    WORDS.contains(&text) || is_number(text) || is_base_60(text) || is_timestamp(text)
}

fn is_number(text: &str) -> bool {
    let plain = text.replace('_', "");
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    if !text.starts_with(['+', '-', '.']) && !text.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let digits = |text: &str, radix: u32| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    let prefixed = |prefixes: [&str; 2], radix| {
        prefixes.iter().any(|p| unsigned.strip_prefix(p).is_some_and(|rest| digits(rest, radix)))
    };
    if prefixed(["0x", "0X"], 16) || prefixed(["0b", "0B"], 2) || prefixed(["0o", "0O"], 8) {
        return true;
    }
    let (mantissa, exponent) =
        unsigned.split_once(['e', 'E']).map_or((unsigned, None), |(m, e)| (m, Some(e)));
    let exponent_ok = exponent.is_none_or(|e| digits(e.strip_prefix(['+', '-']).unwrap_or(e), 10));
    let mantissa_ok = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction, 10),
        Some((whole, fraction)) => digits(whole, 10) && (fraction.is_empty() || digits(fraction, 10)),
        None => digits(mantissa, 10),
    };
    mantissa_ok && exponent_ok
}

/// `12:30`: an old notation for numbers.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    let starts = first.starts_with(|c: char| c.is_ascii_digit());
    let first_ok = starts && first.chars().all(|c| c.is_ascii_digit() || c == '_');
    let rest: Vec<&str> = parts.collect();
    let sixty = |part: &str| matches!(part.len(), 1 | 2) && part.parse::<u8>().is_ok_and(|n| n < 60);
    let (last, inner) = match rest.split_last() {
        Some((last, inner)) => (last.split('.').next().unwrap_or_default(), inner),
        None => return false,
    };
    first_ok && sixty(last) && inner.iter().all(|p| sixty(p))
}

fn is_timestamp(text: &str) -> bool {
    let digits = |range: std::ops::Range<usize>| {
        text.get(range).is_some_and(|t| t.bytes().all(|b| b.is_ascii_digit()))
    };
    if !digits(0..4) || text.get(4..5) != Some("-") {
        return false;
    }
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let parts: Vec<&str> = date.split('-').collect();
    let in_range = |part: &str, max: u32| {
        matches!(part.len(), 1 | 2) && part.parse::<u32>().is_ok_and(|n| (1..=max).contains(&n))
    };
    let date_ok = parts.len() == 3 && in_range(parts[1], 12) && in_range(parts[2], 31);
    let time_ok = time.is_none_or(|time| {
        let clock = time.split(['Z', '+', '-', '.', ' ']).next().unwrap_or_default();
        clock.split(':').count() == 3 && clock.split(':').all(|p| p.len() <= 2 && p.parse::<u8>().is_ok())
    });
    date_ok && time_ok
}

fn block(text: &str, indent: usize) -> String {
    let hint = if text.starts_with([' ', '\n']) { "2" } else { "" };
    let chomp = match text.strip_suffix('\n') {
        None => "-",
        Some("") => "+",
        Some(rest) if rest.ends_with('\n') => "+",
        Some(_) => "",
    };
    let mut out = format!("|{hint}{chomp}\n");
    let body = text.strip_suffix('\n').unwrap_or(text);
    for line in body.split('\n') {
        if !line.is_empty() {
            out.push_str(&" ".repeat(indent));
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// Breaks long lines at spaces; inside single quotes an empty line stands for a line end.
fn fold(text: &str, indent: usize, column: usize, quoted: bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::new();
    let mut column = column;
    for (at, c) in chars.iter().enumerate() {
        let inner = !quoted || (at > 0 && at + 1 < chars.len());
        let single = chars.get(at + 1).is_some_and(|n| *n != ' ') && (at == 0 || chars[at - 1] != ' ');
        match c {
            ' ' if column > BEST_WIDTH && single && inner => {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                column = indent;
            }
            '\n' => {
                if at == 0 || chars[at - 1] != '\n' {
                    out.push('\n');
                }
                out.push('\n');
                if chars.get(at + 1).is_some_and(|n| *n != '\n') {
                    out.push_str(&" ".repeat(indent));
                }
                column = indent;
            }
            c => {
                out.push(*c);
                column += 1;
            }
        }
    }
    out
}

fn double_quoted(text: &str, indent: usize, column: usize) -> String {
    let mut out = String::from("\"");
    let mut column = column.saturating_add(1);
    let chars: Vec<char> = text.chars().collect();
    let may_fold = column != usize::MAX;
    for (at, c) in chars.iter().enumerate() {
        let escaped = match c {
            '"' => "\\\"".to_string(),
            '\\' => "\\\\".to_string(),
            '\0' => "\\0".to_string(),
            '\u{7}' => "\\a".to_string(),
            '\u{8}' => "\\b".to_string(),
            '\t' => "\\t".to_string(),
            '\n' => "\\n".to_string(),
            '\u{b}' => "\\v".to_string(),
            '\u{c}' => "\\f".to_string(),
            '\r' => "\\r".to_string(),
            '\u{1b}' => "\\e".to_string(),
            '\u{85}' => "\\N".to_string(),
            '\u{2028}' => "\\L".to_string(),
            '\u{2029}' => "\\P".to_string(),
            c if is_printable(*c) => c.to_string(),
            c if (*c as u32) <= 0xff => format!("\\x{:02X}", *c as u32),
            c if (*c as u32) <= 0xffff => format!("\\u{:04X}", *c as u32),
            c => format!("\\U{:08X}", *c as u32),
        };
        let foldable = may_fold && *c == ' ' && at > 0 && at + 1 < chars.len() && chars[at - 1] != ' ';
        if foldable && column > BEST_WIDTH {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
            if chars[at + 1] == ' ' {
                out.push('\\');
                column += 1;
            }
            continue;
        }
        column = column.saturating_add(escaped.chars().count());
        out.push_str(&escaped);
    }
    out.push('"');
    out
}
