//! Expressions and what they come to.

use serde_json::json;

use super::eval::Budget;
use super::overloads::Type;
use super::value::Value;
use super::{PER_CALL_LIMIT, compile};
use crate::custom_resources::structural::Schema;

fn schema() -> Schema {
    Schema::parse(&json!({ "type": "object", "properties": {
        "n": { "type": "integer" },
        "f": { "type": "number" },
        "s": { "type": "string" },
        "d": { "type": "string", "format": "duration" },
        "t": { "type": "string", "format": "date-time" },
        "l": { "type": "array", "items": { "type": "integer" } },
        "m": { "type": "object", "additionalProperties": { "type": "string" } },
        "o": { "type": "object", "properties": { "a-b": { "type": "string" }, "if": { "type": "integer" } } },
        "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
        "x": { "x-kubernetes-int-or-string": true },
    }}))
}

/// The value of an expression as JSON, or what is wrong.
fn evaluated(source: &str, budget: u64) -> Result<serde_json::Value, String> {
    let object = json!({
        "n": 3, "f": 2, "s": "hello world", "d": "1h30m", "t": "2024-02-29T12:30:00Z", "l": [1, 2, 3],
        "m": { "a": "1", "b": "2" }, "o": { "a-b": "x", "if": 1 }, "set": ["a", "b"], "x": "50%",
    });
    let schema = schema();
    let (program, _) = compile(source, vec![("self".into(), Type::of(&schema))], "")?;
    let mut budget = Budget::new(budget);
    let variables = vec![("self", Value::of(&object, Some(&schema)))];
    program.evaluate(variables, &mut budget).map(|value| value.to_json()).map_err(|error| error.to_string())
}

fn holds(source: &str) {
    assert_eq!(evaluated(source, PER_CALL_LIMIT), Ok(json!(true)), "{source}");
}

#[test]
fn expressions_hold() {
    for source in [
        "self.n == 3 && self.n + 1 < 5 && self.n % 2 == 1",
        "self.f == 2.0 && self.f * 1.5 == 3.0",
        "self.s.startsWith('hello') && self.s.contains('o w') && self.s.size() == 11",
        "self.s.matches('^h.*d$') && self.s.split(' ')[1] == 'world'",
        "self.s.upperAscii() == 'HELLO WORLD' && self.s.substring(6) == 'world' && self.s.indexOf('o') == 4",
        "self.s.replace('l', 'L', 1) == 'heLlo world' && ['a', 'b'].join('-') == 'a-b'",
        "self.d == duration('90m') && self.d.getMinutes() == 90",
        "self.t < timestamp('2025-01-01T00:00:00Z') && self.t.getMonth() == 1 && self.t.getDayOfMonth() == 28",
        "self.l.all(i, i > 0) && self.l.exists(i, i == 2) && self.l.exists_one(i, i == 3)",
        "self.l.map(i, i * 2) == [2, 4, 6] && self.l.filter(i, i > 1).size() == 2",
        "self.l.isSorted() && self.l.sum() == 6 && self.l.min() == 1 && self.l.max() == 3 && self.l.indexOf(2) == 1",
        "self.m['a'] == '1' && 'b' in self.m && self.m.all(k, k != 'c') && !('z' in self.m)",
        "self.o.a__dash__b == 'x' && self.o.__if__ == 1 && has(self.o.a__dash__b)",
        "self.set == ['b', 'a']",
        "{'a': ['x']}[?'a'][0].orValue('') == 'x' && {'a': ['x']}[?'b'][0].orValue('none') == 'none'",
        "type(self.x) == string && string(self.n) == '3' && int('4') == 4",
        "quantity('1Gi').isGreaterThan(quantity('1000Mi')) && quantity('50k').add(1).asInteger() == 50001",
        "isQuantity('1.5Mi') && !isQuantity('1.5MI') && quantity('1').compareTo(quantity('1000m')) == 0",
        "url('https://example.com:80/a?x=1').getHostname() == 'example.com' && isURL('https://a') && !isURL('../a')",
        "url('https://example.com:80/a?x=1').getQuery()['x'] == ['1'] && url('https://a:80/').getPort() == '80'",
        "'abc 123'.find('[0-9]+') == '123' && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "ip('10.0.0.1').family() == 4 && isIP('::1') && ip('::1').isLoopback() && ip.isCanonical('10.0.0.1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsCIDR('10.0.0.0/7')",
        "cidr('192.168.1.7/24').masked() == cidr('192.168.1.0/24') && cidr('10.0.0.0/8').prefixLength() == 8",
        "sets.contains(self.l, [1, 2]) && sets.intersects([1], self.l) && sets.equivalent([1, 1], [1])",
        "self.n > 1 ? true : 1 / 0 == 1",
        "true || 1 / 0 == 1",
        "1 / 0 == 1 || true",
        "[1, 0].exists(i, 1 / i == 1)",
        "optional.of(1).hasValue() && optional.none().orValue(3) == 3 && self.m[?'z'].orValue('d') == 'd'",
        "self.?n.orValue(1) == 3",
        "dyn(1) == 1.0 && 1 < 1.5",
    ] {
        holds(source);
    }
}

#[test]
fn failures_have_the_words_of_cel() {
    let fails = |source: &str| evaluated(source, PER_CALL_LIMIT).expect_err(source);
    assert_eq!(fails("self.l[7] == 1"), "index out of bounds: 7");
    assert_eq!(fails("self.m['z'] == '1'"), "no such key: z");
    assert_eq!(fails("self.n / 0 == 1"), "division by zero");
    assert_eq!(fails("9223372036854775807 + self.n > 0"), "integer overflow");
    assert_eq!(fails("dyn(self.s) > 1"), "no such overload: _>_");
}

#[test]
fn mistakes_are_found_before_anything_runs() {
    let fails = |source: &str| evaluated(source, PER_CALL_LIMIT).expect_err(source);
    assert_eq!(fails("self.zzz > 1"), "ERROR: <input>:1:5: undefined field 'zzz'\n | self.zzz > 1\n | ....^");
    assert_eq!(
        fails("other.n == 1"),
        "ERROR: <input>:1:1: undeclared reference to 'other' (in container '')\n | other.n == 1\n | ^"
    );
    assert_eq!(
        fails("self.s > 1"),
        "ERROR: <input>:1:8: found no matching overload for '_>_' applied to '(string, int)'\n | self.s > 1\n | .......^"
    );
    assert_eq!(
        fails("self.s.nope()"),
        "ERROR: <input>:1:12: undeclared reference to 'nope' (in container '')\n | self.s.nope()\n | ...........^"
    );
    assert!(fails("self.n ==").contains("Syntax error"));
}

#[test]
fn an_evaluation_ends_when_it_costs_too_much() {
    let nested = "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, a + b + c >= 0)))";
    holds(nested);
    assert_eq!(evaluated(nested, 500), Err("operation cancelled: actual cost limit exceeded".into()));
}

#[test]
fn deep_nesting_is_refused_and_not_walked() {
    let nested =
        |open: &str, close: &str, times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
    for source in [
        nested("(", ")", 5000),
        nested("[", "]", 5000),
        nested("[", "]", 100),
        format!("1{} == 1", "+1".repeat(4000)),
        format!("self{} == 1", ".n".repeat(4000)),
        format!("{}true{}", "true ? ".repeat(1000), " : false".repeat(1000)),
        "true || ".repeat(100_000),
    ] {
        assert!(evaluated(&source, PER_CALL_LIMIT).is_err(), "{}", &source[..20]);
    }
    holds(&format!("{} == 41", ["1"; 41].join("+")));
    holds("'((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((' != ''");
}

#[test]
fn comparing_costs_as_much_as_there_is_to_compare() {
    let deep = json!({ "items": (0..200).map(|n| json!({ "name": format!("item-{n}"), "text": "x".repeat(500) })).collect::<Vec<_>>() });
    let cost = |source: &str| {
        let (program, _) = compile(source, vec![("self".into(), Type::Dyn)], "").expect("compiles");
        let mut budget = Budget::new(PER_CALL_LIMIT);
        program.evaluate(vec![("self", Value::of(&deep, None))], &mut budget).expect("a value");
        PER_CALL_LIMIT - budget.left()
    };
    // 100,000 letters, a tenth of a unit each; the small side decides what a comparison looks at.
    assert!((10_000..12_000).contains(&cost("self == self")), "{}", cost("self == self"));
    assert!(
        (10_000..12_000).contains(&cost("self.items[199] in self.items")),
        "{}",
        cost("self.items[199] in self.items")
    );
    assert!(cost("self == {}") < 20);
    let (program, _) = compile("self == self", vec![("self".into(), Type::Dyn)], "").expect("compiles");
    let outcome = program.evaluate(vec![("self", Value::of(&deep, None))], &mut Budget::new(5_000));
    assert_eq!(outcome.expect_err("too much").to_string(), "operation cancelled: actual cost limit exceeded");
}
