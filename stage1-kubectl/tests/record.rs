//! `--record` is warned of and keeps the command line, without a server, too.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::process::Command;

#[test]
fn the_command_line_is_kept_in_the_object_and_the_flag_is_said_to_go() {
    let dir = tempfile::tempdir().unwrap();
    let manifest =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: a}]}\n";
    std::fs::write(dir.path().join("p.yaml"), manifest).unwrap();
    let cases = [
        (
            "set image --local -f p.yaml c=b --record",
            "kubectl set image c=b --local=true --filename=p.yaml --record=true",
        ),
        (
            "create --dry-run=client --validate=false -f p.yaml --record",
            "kubectl create --dry-run=client --validate=false --filename=p.yaml --record=true",
        ),
        ("set image --local -f p.yaml c=b --record=false", ""),
        // What no server gets is nobody's change.
        ("label --local -f p.yaml x=y --record", ""),
        ("annotate --local -f p.yaml x=y --record", ""),
    ];
    for (line, kept) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl"))
            .args(line.split(' '))
            .args(["-o", r"jsonpath={.metadata.annotations.kubernetes\.io/change-cause}"])
            .args(["--server", "http://127.0.0.1:1"])
            .current_dir(dir.path())
            .env("KUBECONFIG", "/nonexistent/kubeconfig")
            .env("HOME", dir.path())
            .output()
            .unwrap();
        let output_flags = r" --output=jsonpath={.metadata.annotations.kubernetes\.io/change-cause} --server=http://127.0.0.1:1";
        let wanted = if kept.is_empty() { String::new() } else { kept.to_string() + output_flags };
        assert_eq!(String::from_utf8_lossy(&output.stdout), wanted, "{line}");
        let warned = "Flag --record has been deprecated, --record will be removed in the future\n";
        assert_eq!(String::from_utf8_lossy(&output.stderr), warned, "{line}");
    }
}
