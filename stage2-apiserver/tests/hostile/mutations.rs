//! Mangled bytes at everything that reads bytes: an answer or an error, never a panic and never long.
//!
//! Inputs are real ones with pieces cut out, doubled, swapped for others or replaced: those get further than noise does.
//! `PROPTEST_CASES=100000 cargo test -p stage2-apiserver --test hostile mutations` looks longer.
//!
//! # In Kubernetes
//! `test/fuzz` of its OSS-Fuzz project.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::json;
use stage1_kubectl::object::Object;
use stage1_kubectl::quantity::Quantity;
use stage1_kubectl::resource::GroupVersionKind;
use stage1_kubectl::selector::{FieldSelector, LabelSelector};
use stage2_apiserver::authentication::jwt;
use stage2_apiserver::authentication::x509::{self, PeerCertificates};
use stage2_apiserver::cel::eval::Budget;
use stage2_apiserver::cel::overloads::Type;
use stage2_apiserver::cel::value::Value;
use stage2_apiserver::cel::{self, PER_CALL_LIMIT};
use stage2_apiserver::custom_resources::structural::Schema;
use stage2_apiserver::decode::{FieldValidation, decode_body};
use stage2_apiserver::handlers::patch::{apply_patch, parse_patch};
use stage2_apiserver::negotiation::{BodyFormat, parse_accept};
use stage2_apiserver::registry;
use stage2_apiserver::request_info::{Query, parse_request_info};
use stage2_apiserver::validation::go_regex;
use stage2_apiserver::watch_cache::continue_token;

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"web"},"finalizers":["a/b"]},
"spec":{"containers":[{"name":"c","image":"nginx:1.25","ports":[{"containerPort":80,"protocol":"TCP"}],
"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],"resources":{"limits":{"cpu":"1500m","memory":"64Mi"}},
"livenessProbe":{"httpGet":{"port":"http","path":"/"}}}],"volumes":[{"name":"v","projected":{"sources":[]}}]}}"#;

const POD_YAML: &str = "apiVersion: v1\nkind: Pod\nmetadata: &m\n  name: web\n  labels: {app: web}\nspec:\n  containers:\n  - name: c\n    image: >-\n      nginx:1.25\n    args: [\"a\", 'b', *m]\n    ports:\n    - {containerPort: 0x50}\n  <<: *m\n---\n# end\n";

const PATCHES: [(&str, &str); 3] = [
    (
        "application/json-patch+json",
        r#"[{"op":"test","path":"/metadata/name","value":"web"},{"op":"move","from":"/spec/containers/0","path":"/spec/containers/-"},{"op":"copy","from":"/spec","path":"/status/a~1b~0c"},{"op":"remove","path":"/spec/volumes/0"},{"op":"replace","path":"","value":{}}]"#,
    ),
    (
        "application/merge-patch+json",
        r#"{"metadata":{"labels":null,"annotations":{"a":"b"}},"spec":{"containers":[]}}"#,
    ),
    (
        "application/strategic-merge-patch+json",
        r#"{"metadata":{"$retainKeys":["name"],"$deleteFromPrimitiveList/finalizers":["a/b"]},"spec":{"$setElementOrder/containers":[{"name":"c"},{"name":"d"}],"containers":[{"name":"c","$patch":"replace"},{"name":"d","ports":[{"containerPort":80,"$patch":"delete"}]}]}}"#,
    ),
];

const EXPRESSIONS: [&str; 4] = [
    "self.l.all(i, i > 0 && self.m.exists(k, k == 'a' || self.m[k].matches('^a+$')))",
    "has(self.s) ? self.s.split(' ').map(p, p.replace('a', 'b')).join('-') : string(self.n) + \"é\\u00e9\"",
    "duration('90m') + timestamp('2024-02-29T12:30:00Z') > timestamp(self.s) || quantity('1Gi').isGreaterThan(quantity(self.s))",
    "cel.bind(x, self.l, x.size() > 1 ? [x, x].map(y, y.sum()) : [[1u, 2.0e300, -9223372036854775808][0]])",
];

/// A cut, a copy or a change at some place.
#[derive(Debug, Clone)]
enum Edit {
    Remove(Index, usize),
    Double(Index, usize, u8),
    Put(Index, Vec<u8>),
    Flip(Index, u8),
}

fn edit() -> impl Strategy<Value = Edit> {
    let pieces = select(vec![
        "\"",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\\",
        "\\ud800",
        "\0",
        "é",
        "\u{feff}",
        "\n",
        "\t",
        "- ",
        "&a",
        "*a",
        "~1",
        "~",
        "$patch",
        "null",
        "-1",
        "1e999",
        "99999999999999999999",
        "0x",
        ".",
        "..",
        "(",
        ")",
        "'",
        "==",
        "!",
        "%",
        "=",
        ";q=",
        "\u{202e}",
    ]);
    prop_oneof![
        (any::<Index>(), 1_usize..20).prop_map(|(at, length)| Edit::Remove(at, length)),
        (any::<Index>(), 1_usize..30, 1_u8..40)
            .prop_map(|(at, length, times)| Edit::Double(at, length, times)),
        (any::<Index>(), pieces).prop_map(|(at, piece)| Edit::Put(at, piece.as_bytes().to_vec())),
        (any::<Index>(), vec(any::<u8>(), 1..6)).prop_map(|(at, bytes)| Edit::Put(at, bytes)),
        (any::<Index>(), 1_u8..255).prop_map(|(at, bits)| Edit::Flip(at, bits)),
    ]
}

fn mangled(input: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for edit in edits {
        let place = |at: &Index| at.index(bytes.len() + 1);
        match edit {
            Edit::Remove(at, length) => {
                let from = place(at);
                bytes.drain(from..(from + length).min(bytes.len()));
            }
            Edit::Double(at, length, times) => {
                let from = place(at);
                let piece = bytes[from..(from + length).min(bytes.len())].repeat(usize::from(*times));
                bytes.splice(from..from, piece);
            }
            Edit::Put(at, piece) => {
                let from = place(at);
                bytes.splice(from..from, piece.iter().copied());
            }
            Edit::Flip(at, bits) => {
                let from = place(at);
                if let Some(byte) = bytes.get_mut(from) {
                    *byte ^= bits;
                }
            }
        }
    }
    bytes
}

fn text(input: &str, edits: &[Edit]) -> String {
    String::from_utf8_lossy(&mangled(input.as_bytes(), edits)).into_owned()
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    vec(edit(), 0..6)
}

fn pods() -> GroupVersionKind {
    registry::find("", "v1", "pods").unwrap().gvk()
}

fn sealed_pod() -> Vec<u8> {
    stage1_kubectl::protobuf::encode_object(&serde_json::from_str(POD).unwrap()).unwrap()
}

/// What is decoded must be writable again: it goes into the store.
fn check_body(body: &[u8], format: BodyFormat) {
    for validation in [FieldValidation::Strict, FieldValidation::Warn] {
        if let Ok(decoded) = decode_body(body, format, &pods(), validation) {
            assert_eq!(decoded.object.kind(), "Pod");
            serde_json::to_vec(decoded.object.as_value()).unwrap();
        }
    }
}

#[test]
fn the_inputs_are_good_ones_before_they_are_mangled() {
    let read = |body: &[u8], format| decode_body(body, format, &pods(), FieldValidation::Strict).map(|_| ());
    assert_eq!(read(POD.as_bytes(), BodyFormat::Json), Ok(()));
    assert_eq!(read(&sealed_pod(), BodyFormat::Protobuf), Ok(()));
    for (kind, patch) in PATCHES {
        assert!(parse_patch(kind, patch.as_bytes()).is_ok(), "{kind}");
    }
}

proptest! {
    #[test]
    fn bodies(edits in edits()) {
        check_body(&mangled(POD.as_bytes(), &edits), BodyFormat::Json);
        check_body(&mangled(POD_YAML.as_bytes(), &edits), BodyFormat::Yaml);
        check_body(&mangled(&sealed_pod(), &edits), BodyFormat::Protobuf);
    }

    #[test]
    fn patches(edits in edits(), which in 0_usize..3) {
        let (kind, patch) = PATCHES[which];
        let resource = registry::find("", "v1", "pods").unwrap();
        let current = Object::from_value(serde_json::from_str(POD).unwrap()).unwrap();
        if let Ok(patch) = parse_patch(kind, &mangled(patch.as_bytes(), &edits)) {
            let _ = apply_patch(resource, &patch, &current, FieldValidation::Strict);
        }
    }

    #[test]
    fn expressions(edits in edits(), which in 0_usize..4) {
        let schema = Schema::parse(&json!({ "type": "object", "properties": {
            "n": { "type": "integer" }, "s": { "type": "string" },
            "l": { "type": "array", "items": { "type": "integer" } },
            "m": { "type": "object", "additionalProperties": { "type": "string" } },
        }}));
        let object = json!({ "n": 3, "s": "a b", "l": [1, 2, 3], "m": { "a": "aaa" } });
        let source = text(EXPRESSIONS[which], &edits);
        let variables = vec![("self".to_owned(), Type::of(&schema))];
        if let Ok((program, _)) = cel::compile(&source, variables, "") {
            let value = Value::of(&object, Some(&schema));
            let _ = program.evaluate(vec![("self", value)], &mut Budget::new(PER_CALL_LIMIT));
        }
    }

    #[test]
    fn words_of_a_request(edits in edits()) {
        let _ = LabelSelector::parse(&text("a in (b,c),d!=e,!f,g notin (),h>1,x.io/y=z", &edits));
        let _ = FieldSelector::parse(&text("metadata.name=a\\,b,spec.nodeName!=c\\=", &edits));
        let _ = parse_accept(&text("application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml;q=0.9, */*", &edits));
        let _ = Quantity::parse(&text("-12.345e-6Ki", &edits));
        let _ = go_regex::compile(&text(r"^([a-z0-9]{1,63}\.)*(?i:x|\p{Greek})[^\d\s]+?$", &edits));
        let path = text("/apis/apps/v1/namespaces/a%2Fb/deployments/web/scale", &edits);
        let query = Query::parse(Some(&text("watch=1&labelSelector=a%3Db&limit=5&continue=x&dryRun=All", &edits)));
        let _ = parse_request_info("GET", &path, &query);
        let token = continue_token::encode(None, "/registry/pods/a/b", "/registry/pods/");
        let _ = continue_token::decode(&text(&token, &edits), "/registry/pods/");
    }

    #[test]
    fn tokens_and_certificates(edits in edits()) {
        let token = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJpc3MiOiJodHRwczovL3giLCJzdWIiOiJhIiwiYXVkIjpbImIiXSwiZXhwIjoxfQ.c2ln";
        if let Some(unverified) = jwt::parse(&text(token, &edits)) {
            let keys = jwt::keys(&json!({ "keys": [{ "kty": "RSA", "kid": "a", "n": text("AQAB", &edits), "e": "AQAB" }] }));
            prop_assert!(!unverified.is_signed_by(&keys));
        }
        let key = rcgen::KeyPair::generate().unwrap();
        let own = rcgen::CertificateParams::new(vec!["x".to_owned()]).unwrap().self_signed(&key).unwrap();
        let authenticator = x509::Verifier::new(&own.pem()).unwrap();
        let foreign = CertificateDer::from(mangled(own.der(), &edits));
        let _ = authenticator.user(&PeerCertificates::new(vec![foreign]), jiff::Timestamp::UNIX_EPOCH);
        let _ = CertificateDer::pem_slice_iter(&mangled(own.pem().as_bytes(), &edits)).count();
    }
}
