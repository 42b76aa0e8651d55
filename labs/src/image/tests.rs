use std::io::Read as _;

use super::*;

fn web() -> ImageSpec {
    let mut spec = ImageSpec {
        names: vec!["docker.io/library/web:1".into(), "docker.io/library/web:latest".into()],
        cmd: vec!["/bin/web".into()],
        gzip: true,
        ..ImageSpec::default()
    };
    spec.add("/srv/www/index.html", Entry::File(b"hello".to_vec(), 0o644)).unwrap();
    spec.add("/bin/web", Entry::File(vec![0x7f], 0o755)).unwrap();
    spec.add("/bin/sh", Entry::Link("web".into())).unwrap();
    spec
}

fn paths(tar: &[u8]) -> Vec<String> {
    let mut archive = tar::Archive::new(tar);
    archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
}

#[test]
fn make_image_twice() {
    assert_eq!(build(&web()).unwrap(), build(&web()).unwrap());
}

#[test]
fn parents_come_first_and_once() {
    let tar = layer(&web().entries);
    assert_eq!(paths(&tar), ["bin/", "bin/sh", "bin/web", "srv/", "srv/www/", "srv/www/index.html"]);
}

#[test]
fn a_path_out_of_the_image_is_refused() {
    let refused = ImageSpec::default().add("/srv/../../etc/passwd", Entry::Dir(0o755));
    assert_eq!(refused, Err(ImageError::Escapes("/srv/../../etc/passwd".into())));
}

#[test]
fn a_name_without_a_tag_is_refused_and_a_port_is_no_tag() {
    let spec = ImageSpec { names: vec!["127.0.0.1:5000/web".into()], ..ImageSpec::default() };
    assert_eq!(build(&spec), Err(ImageError::NoTag("127.0.0.1:5000/web".into())));
    assert_eq!(build(&ImageSpec::default()), Err(ImageError::NoName));
}

#[test]
fn every_digest_names_a_blob_of_the_archive() {
    let tar = build(&web()).unwrap();
    let all = paths(&tar);
    let mut archive = tar::Archive::new(&tar[..]);
    let mut index = None;
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path().unwrap().ends_with("index.json") {
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            index = Some(serde_json::from_str::<Value>(&text).unwrap());
        }
    }
    let manifests = index.unwrap()["manifests"].as_array().unwrap().clone();
    assert_eq!(manifests.len(), 2, "one entry a name");
    for manifest in manifests {
        let digest = manifest["digest"].as_str().unwrap().trim_start_matches("sha256:").to_owned();
        assert!(all.contains(&format!("blobs/sha256/{digest}")), "{digest} is not in {all:?}");
    }
}
