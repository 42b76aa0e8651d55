//! bbolt: the file format of etcd's database, written in one go.
//!
//! A file of pages. The first two say where the root is; the root is a tree whose leaves name buckets; each bucket is a tree whose leaves hold
//! keys and values in order. A page that is too small for one item is followed by more of the same.
//!
//! # Invariants
//! 1. Items are written in the order in which they come; they must come sorted.
//!
//! # In Kubernetes
//! `go.etcd.io/bbolt`: `page.go`, `node.go`, `db.go` (`meta`). Left out: everything that changes a file.

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
const HEADER_BYTES: usize = 16;
const ELEMENT_BYTES: usize = 16;
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const META: u16 = 0x04;
const FREELIST: u16 = 0x10;
const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
/// A leaf's item that is a bucket.
const BUCKET: u32 = 0x01;
/// Two metas and the list of free pages come first.
const FIRST_FREE_PAGE: u64 = 3;

/// A key and a value.
pub type Item = (Vec<u8>, Vec<u8>);

/// Pages in the making.
struct Pages {
    bytes: Vec<u8>,
}

/// A whole database with these buckets (sorted by name, their items by key).
pub fn database(buckets: &[(&str, Vec<Item>)]) -> Vec<u8> {
    let mut pages = Pages { bytes: vec![0; FIRST_FREE_PAGE as usize * PAGE_BYTES] };
    let named: Vec<Item> = buckets
        .iter()
        .map(|(name, items)| {
            let root = pages.tree(items, 0);
            // A bucket is where its root is, and a counter.
            (name.as_bytes().to_vec(), [root.to_le_bytes(), 0_u64.to_le_bytes()].concat())
        })
        .collect();
    let root = pages.tree(&named, BUCKET);
    let end = (pages.bytes.len() / PAGE_BYTES) as u64;
    for number in 0..2_u64 {
        let page = meta_page(number, root, end);
        let at = number as usize * PAGE_BYTES;
        pages.bytes[at..at + page.len()].copy_from_slice(&page);
    }
    let freelist = header(2, FREELIST, 0, 0);
    pages.bytes[2 * PAGE_BYTES..2 * PAGE_BYTES + HEADER_BYTES].copy_from_slice(&freelist);
    pages.bytes
}

fn header(id: u64, kind: u16, count: usize, overflow: usize) -> Vec<u8> {
    let count = u16::try_from(count).expect("a page has far fewer items");
    let overflow = u32::try_from(overflow).expect("an item has far fewer pages");
    [&id.to_le_bytes()[..], &kind.to_le_bytes(), &count.to_le_bytes(), &overflow.to_le_bytes()].concat()
}

fn meta_page(number: u64, root: u64, end: u64) -> Vec<u8> {
    let mut meta = Vec::new();
    for word in [MAGIC, VERSION, PAGE_BYTES as u32, 0] {
        meta.extend(word.to_le_bytes());
    }
    // Root and its counter, free list, end, transaction.
    for word in [root, 0, 2, end, number] {
        meta.extend(word.to_le_bytes());
    }
    let sum = fnv64a(&meta);
    meta.extend(sum.to_le_bytes());
    [header(number, META, 0, 0), meta].concat()
}

fn fnv64a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Where to cut items of these sizes so that each part fits a page; one that is larger than a page is a part of its own.
fn cuts(sizes: impl Iterator<Item = usize>) -> Vec<usize> {
    let (mut counts, mut count, mut used) = (Vec::new(), 0, HEADER_BYTES);
    for size in sizes {
        if count > 0 && used + size > PAGE_BYTES {
            counts.push(count);
            (count, used) = (0, HEADER_BYTES);
        }
        count += 1;
        used += size;
    }
    counts.push(count);
    counts
}

impl Pages {
    /// Writes a tree; the answer is the number of its root's page.
    fn tree(&mut self, items: &[Item], flags: u32) -> u64 {
        let mut level: Vec<(Vec<u8>, u64)> = Vec::new();
        let mut rest = items;
        for count in cuts(items.iter().map(|(key, value)| ELEMENT_BYTES + key.len() + value.len())) {
            let (part, after) = rest.split_at(count);
            rest = after;
            let first = part.first().map(|(key, _)| key.clone()).unwrap_or_default();
            level.push((first, self.leaf(part, flags)));
        }
        while level.len() > 1 {
            let mut above = Vec::new();
            let mut rest = &level[..];
            for count in cuts(level.iter().map(|(key, _)| ELEMENT_BYTES + key.len())) {
                let (part, after) = rest.split_at(count);
                rest = after;
                above.push((part[0].0.clone(), self.branch(part)));
            }
            level = above;
        }
        level[0].1
    }

    fn leaf(&mut self, items: &[Item], flags: u32) -> u64 {
        let mut elements = Vec::new();
        let mut data = Vec::new();
        for (index, (key, value)) in items.iter().enumerate() {
            // Counted from the element itself.
            let position = (items.len() - index) * ELEMENT_BYTES + data.len();
            for word in [flags as usize, position, key.len(), value.len()] {
                elements.extend(u32::try_from(word).expect("items are small").to_le_bytes());
            }
            data.extend_from_slice(key);
            data.extend_from_slice(value);
        }
        self.page(LEAF, items.len(), &[elements, data].concat())
    }

    fn branch(&mut self, children: &[(Vec<u8>, u64)]) -> u64 {
        let mut elements = Vec::new();
        let mut data = Vec::new();
        for (index, (key, page)) in children.iter().enumerate() {
            let position = (children.len() - index) * ELEMENT_BYTES + data.len();
            for word in [position, key.len()] {
                elements.extend(u32::try_from(word).expect("keys are small").to_le_bytes());
            }
            elements.extend(page.to_le_bytes());
            data.extend_from_slice(key);
        }
        self.page(BRANCH, children.len(), &[elements, data].concat())
    }

    fn page(&mut self, kind: u16, count: usize, content: &[u8]) -> u64 {
        let id = (self.bytes.len() / PAGE_BYTES) as u64;
        let pages = (HEADER_BYTES + content.len()).div_ceil(PAGE_BYTES);
        self.bytes.extend(header(id, kind, count, pages - 1));
        self.bytes.extend_from_slice(content);
        self.bytes.resize((id as usize + pages) * PAGE_BYTES, 0);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_cut_into_pages_and_a_large_one_gets_its_own() {
        assert_eq!(cuts([1000, 1000, 1000, 1000, 1000].into_iter()), [4, 1]);
        assert_eq!(cuts([10, 9000, 10].into_iter()), [1, 1, 1]);
        assert_eq!(cuts(std::iter::empty()), [0]);
    }

    #[test]
    fn a_database_is_whole_pages_with_two_valid_heads() {
        let items: Vec<Item> = (0..5000_u32).map(|n| (n.to_be_bytes().to_vec(), vec![7; 100])).collect();
        let file = database(&[("key", items), ("meta", vec![(b"a".to_vec(), b"b".to_vec())])]);
        assert_eq!(file.len() % PAGE_BYTES, 0);
        let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"));
        for page in [0, PAGE_BYTES] {
            let meta = page + HEADER_BYTES;
            assert_eq!(word(meta + 56), fnv64a(&file[meta..meta + 56]));
            assert_eq!(word(meta + 40), (file.len() / PAGE_BYTES) as u64);
        }
    }
}
