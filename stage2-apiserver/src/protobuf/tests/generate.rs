//! Objects made from the schema: every kind, any fields, values that are canonical.

use serde_json::{Map, Value, json};

use crate::schema::{self, Shape, StructType, roots};

/// A small generator (SplitMix64): the same seed, the same object.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }
}

/// An object of some kind, as the server would hold it.
pub fn object(seed: u64) -> Value {
    let mut dice = Dice(seed);
    let mut roots = roots::all();
    let root = roots.swap_remove(dice.below(roots.len() as u64) as usize);
    let gvk = stage1_kubectl::resource::GroupVersionKind::new(root.group, root.version, root.kind);
    let schema = schema::schema_for(&gvk).expect("a root");
    let decoded = schema::decode_value(structure(schema.root(), &mut dice, 0), schema);
    assert_eq!(decoded.error, None, "{}", root.definition);
    let mut value = decoded.value;
    value["apiVersion"] = json!(gvk.api_version());
    value["kind"] = json!(root.kind);
    value
}

fn structure(ty: &StructType, dice: &mut Dice, depth: u64) -> Value {
    let mut object = Map::new();
    for (name, field) in &ty.fields {
        if matches!(name.as_str(), "kind" | "apiVersion") || dice.below(2 + depth) > 0 && depth > 0 {
            continue;
        }
        object.insert(name.clone(), value(&field.shape, dice, depth + 1));
    }
    Value::Object(object)
}

fn value(shape: &Shape, dice: &mut Dice, depth: u64) -> Value {
    match shape {
        Shape::String => json!(dice.one_of(&["", "a", "web-0", "ü\"\\\n", "0"])),
        Shape::Bool => json!(dice.below(2) == 0),
        Shape::Int32 => json!(dice.next() as i32 >> dice.below(32)),
        Shape::Int64 => json!(dice.next() as i64 >> dice.below(64)),
        Shape::Float => json!([json!(0.5), json!(-3), json!(1e300)][dice.below(3) as usize]),
        Shape::Bytes => json!(dice.one_of(&["", "AA==", "aGVsbG8="])),
        Shape::Time => json!(dice.one_of(&["2024-01-02T03:04:05Z", "1960-01-02T03:04:05Z"])),
        Shape::MicroTime => {
            json!(dice.one_of(&["2024-01-02T03:04:05.000006Z", "1960-01-02T03:04:05.900000Z"]))
        }
        Shape::Quantity => json!(dice.one_of(&["0", "500m", "1Gi", "-2"])),
        Shape::IntOrString if dice.below(2) == 0 => json!(dice.next() as i32),
        Shape::IntOrString => json!(dice.one_of(&["http", "25%", ""])),
        Shape::List(item) => (0..dice.below(3)).map(|_| value(item, dice, depth)).collect(),
        Shape::Map(item) => {
            let keys = (0..dice.below(3)).map(|_| dice.one_of(&["a", "b", "k8s.io/c", ""]).to_owned());
            let keys: Vec<String> = keys.collect();
            Value::Object(keys.into_iter().map(|key| (key, value(item, dice, depth))).collect())
        }
        Shape::Struct(name) | Shape::StructOr(name) => match schema::struct_type(name) {
            Some(ty) => structure(ty, dice, depth),
            None => json!({}),
        },
        Shape::Any => {
            json!([json!({"a": [1, null, "b"]}), json!({}), json!("text"), json!(7)][dice.below(4) as usize])
        }
    }
}
