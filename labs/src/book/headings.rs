//! Headings: the ids by which links reach a part of a page.
//!
//! mdbook makes an id from a heading's words: lower case, spaces become hyphens, other signs go; a second heading with the same words
//! gets `-1`. A link to a part of a page is checked against these.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

/// The ids of a page's headings, in order.
pub fn ids(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut fenced = false;
    for line in page.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let Some(words) =
            line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#') && !fenced)
        else {
            continue;
        };
        let id = id_of(words);
        let same = found.iter().filter(|other| **other == id).count();
        found.push(if same == 0 { id } else { format!("{id}-{same}") });
    }
    found
}

fn id_of(words: &str) -> String {
    let sign = |c: char| match c {
        c if c.is_alphanumeric() || matches!(c, '_' | '-') => Some(c.to_ascii_lowercase()),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    };
    words.trim().chars().filter_map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_mdbook() {
        let page = "# `kubectl get`, twice\n```\n# no heading\n```\n## See it\n## See it\n";
        assert_eq!(ids(page), ["kubectl-get-twice", "see-it", "see-it-1"]);
    }
}
