//! kubectl: flags → context → command → exit code.
fn main() {}
