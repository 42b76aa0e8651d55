use proptest::prelude::*;

use super::*;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

#[test]
fn every_operator_selects_what_kubernetes_selects() {
    let cases = [
        ("app=web", true),
        ("app==web,tier", true),
        ("app!=web", false),
        ("missing!=x", true),
        ("tier in (a, b)", true),
        ("tier notin (a,b)", false),
        ("missing notin (a)", true),
        ("!tier", false),
        ("!missing", true),
        ("n>3", true),
        ("n<3", false),
        ("empty=", true),
        ("", true),
    ];
    let on = labels(&[("app", "web"), ("tier", "b"), ("n", "5"), ("empty", "")]);
    for (text, wanted) in cases {
        assert_eq!(LabelSelector::parse(text).unwrap().matches(&on), wanted, "{text}");
    }
}

#[test]
fn a_broken_selector_says_what_was_expected() {
    let error = LabelSelector::parse("a=b=c").unwrap_err().to_string();
    assert_eq!(error, "unable to parse requirement: found '=', expected: ',' or 'end of string'");
    assert!(LabelSelector::parse("a in b").is_err());
    assert!(LabelSelector::parse("a,").is_err());
    assert!(LabelSelector::parse("-a=b").is_err());
}

#[test]
fn nothing_selects_nothing_and_everything_all() {
    assert!(!LabelSelector::nothing().matches(&labels(&[])));
    assert!(LabelSelector::everything().matches(&labels(&[])));
}

#[test]
fn field_selectors_read_escapes_and_both_operators() {
    let selector = FieldSelector::parse(r"a=b\,c,d!=e").unwrap();
    assert!(selector.matches(|field| (field == "a").then_some("b,c")));
    assert!(!selector.matches(|field| if field == "a" { Some("b,c") } else { Some("e") }));
    assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
    assert!(FieldSelector::parse("nonsense").is_err());
}

proptest! {
    #[test]
    fn invariant_1_display_and_parse_are_inverse(
        parts in proptest::collection::vec(("[a-z]{1,5}(/[a-z]{1,3})?", 0..4u8, "[a-z0-9]{1,4}", "[a-z0-9]{1,4}"), 0..5)
    ) {
        let requirements = parts.into_iter().map(|(key, op, a, b)| Requirement { key, operator: match op {
            0 => Operator::In([a, b].into()),
            1 => Operator::NotIn([a].into()),
            2 => Operator::Exists,
            _ => Operator::DoesNotExist,
        }}).filter(|r| r.key != "in" && r.key != "notin").collect();
        let selector = LabelSelector::new(requirements);
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
    }
}
