//! Warnings: what a client should hear although its request went well, as headers.
//!
//! Webhooks and policies say what they like and as much as they like, and a client that gets too many bytes of headers drops the whole answer.
//! So each text is said once, without characters that no header has, and when all together are too long each is cut.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/filters/warning.go`. There a text with control characters isn't said at all; here they are taken out.

use http::HeaderValue;

/// Characters that all warnings together may have; above that, each is cut.
const TOTAL_CHARACTERS: usize = 4 * 1024;
/// Characters of a warning that is cut.
const ITEM_CHARACTERS: usize = 256;

/// The values of the `Warning` headers.
pub fn headers(warnings: &[String]) -> Vec<HeaderValue> {
    let mut said: Vec<String> = Vec::new();
    for warning in warnings {
        let text: String = warning.chars().filter(|letter| !letter.is_control()).collect();
        if !text.is_empty() && !said.contains(&text) {
            said.push(text);
        }
    }
    let lengths = |texts: &[String]| texts.iter().map(|text| text.chars().count()).sum::<usize>();
    if lengths(&said) > TOTAL_CHARACTERS {
        said = said.iter().map(|text| text.chars().take(ITEM_CHARACTERS).collect()).collect();
    }
    let mut total = 0;
    // The one that goes beyond is the last.
    let fits = |text: &&String| {
        let is_room = total < TOTAL_CHARACTERS;
        total += text.chars().count();
        is_room
    };
    said.iter().take_while(fits).filter_map(|text| header(text)).collect()
}

fn header(text: &str) -> Option<HeaderValue> {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{escaped}\"").as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(warnings: &[String]) -> Vec<String> {
        headers(warnings).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }

    #[test]
    fn a_text_is_said_once_and_without_what_no_header_has() {
        let texts =
            ["a \"b\" \\".to_owned(), "two\nlines\r".to_owned(), "a \"b\" \\".to_owned(), "é".to_owned()];
        assert_eq!(said(&texts), ["299 - \"a \\\"b\\\" \\\\\"", "299 - \"twolines\"", "299 - \"é\""]);
    }

    #[test]
    fn long_warnings_are_cut_only_when_there_are_too_many() {
        let long = |letter: char, length: usize| std::iter::repeat_n(letter, length).collect::<String>();
        assert_eq!(said(&[long('a', 4096)]), [format!("299 - \"{}\"", long('a', 4096))]);
        assert_eq!(said(&[long('a', 4097)]), [format!("299 - \"{}\"", long('a', 256))]);
        let many: Vec<String> = (0..40).map(|n| format!("{n:02}{}", long('x', 300))).collect();
        let found = said(&many);
        assert_eq!(found.len(), 16);
        assert!(found.iter().all(|value| value.len() == 256 + "299 - \"\"".len()));
    }
}
