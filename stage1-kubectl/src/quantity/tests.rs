use proptest::prelude::*;

use super::*;

#[test]
fn the_canonical_form_is_kubernetes_own() {
    let cases = [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Ki", "1Mi"),
        ("100Mi", "100Mi"),
        ("1.1Gi", "1181116006400m"),
        ("512", "512"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("1E", "1E"),
        ("100k", "100k"),
        ("1000k", "1M"),
        ("0.0000000001", "1n"),
        ("-1.5", "-1500m"),
        ("0Gi", "0"),
        ("+2", "2"),
        ("1.", "1"),
        (".5", "500m"),
        ("9999999999999999999999999999999", "9223372036854775807"),
    ];
    for (text, canonical) in cases {
        assert_eq!(Quantity::parse(text).unwrap().to_string(), canonical, "{text}");
    }
}

#[test]
fn rounding_is_away_from_zero() {
    let q = |t: &str| Quantity::parse(t).unwrap();
    assert_eq!(q("1001m").value(), 2);
    assert_eq!(q("-1001m").value(), -2);
    assert_eq!(q("1.0005").milli_value(), 1001);
    assert_eq!(q("128Mi").value(), 134_217_728);
}

#[test]
fn what_is_no_quantity_is_refused() {
    for text in ["", "x", "1x", "1.2.3", "1 Gi", "Gi", "1gi", "1e", "1KiB", "--1"] {
        assert!(Quantity::parse(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn invariant_1_a_canonical_form_is_stable(milli in any::<i64>(), binary in any::<bool>()) {
        let format = if binary { Format::BinarySI } else { Format::DecimalSI };
        let text = Quantity::from_milli(milli, format).to_string();
        prop_assert_eq!(Quantity::parse(&text).unwrap().to_string(), text);
    }

    #[test]
    fn invariant_2_addition_is_exact(a in any::<i32>(), b in any::<i32>()) {
        let q = |m: i32| Quantity::from_milli(m.into(), Format::DecimalSI);
        prop_assert_eq!((q(a) + q(b)).milli_value(), i64::from(a) + i64::from(b));
        prop_assert_eq!((q(a) + q(b) - q(b)).milli_value(), i64::from(a));
    }
}
