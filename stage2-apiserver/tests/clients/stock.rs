//! Where the clients are, and how they get there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

/// One installation at a time.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Says what is missing; with `STAGES_REQUIRE_REAL=1` that is a failure.
pub fn skipped(why: &str) {
    assert!(std::env::var_os("STAGES_REQUIRE_REAL").is_none(), "a stock client is required: {why}");
    println!("skipped: {why}");
}

/// The stock programs of that name, each with its version: `1.32` is `kubectl-1.32`.
pub fn programs(name: &str) -> Vec<(String, PathBuf)> {
    let directory = PathBuf::from(std::env::var_os("STAGES_STOCK_KUBECTL_DIR").unwrap_or_default());
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<(String, PathBuf)> = files
        .filter_map(|file| {
            let version = file.file_name().to_str()?.strip_prefix(name)?.strip_prefix('-')?.to_owned();
            Some((version, file.path()))
        })
        .collect();
    found.sort();
    if found.is_empty() {
        skipped(&format!("no stock {name} in STAGES_STOCK_KUBECTL_DIR"));
    }
    found
}

/// This folder's files of one language.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("stage2-apiserver").join("tests/clients").join(name)
}

/// Python with the packages that the scripts want.
pub fn python() -> Option<PathBuf> {
    let wanted = folder("python").join("requirements.txt");
    let place = installed("python", &wanted, |place| {
        let python = place.join("bin/python");
        run(Command::new("python3").args(["-m", "venv"]).arg(place))?;
        run(Command::new(python).args(["-m", "pip", "install", "-q", "-r"]).arg(&wanted))
    });
    match place {
        Ok(place) => Some(place.join("bin/python")),
        Err(why) => {
            skipped(&format!("no Python packages: {why}"));
            None
        }
    }
}

/// A directory with the packages of the JavaScript client.
pub fn node_packages() -> Option<PathBuf> {
    let wanted = folder("node").join("package.json");
    let place = installed("node", &wanted, |place| {
        std::fs::create_dir_all(place).map_err(|error| error.to_string())?;
        std::fs::copy(&wanted, place.join("package.json")).map_err(|error| error.to_string())?;
        run(Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(place))
    });
    place.inspect_err(|why| println!("skipped: no JavaScript packages: {why}")).ok()
}

/// `target/clients/NAME`, made by `install` unless it was made for the same versions before.
fn installed(
    name: &str,
    wanted: &Path,
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let _turn = INSTALLING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let clients = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("clients");
    std::fs::create_dir_all(&clients).unwrap();
    // Test programs of several packages install into the same place.
    let lock = std::fs::File::create(clients.join("lock")).unwrap();
    lock.lock().unwrap();
    let place = clients.join(name);
    let (mark, versions) = (place.join("installed"), std::fs::read(wanted).unwrap());
    if std::fs::read(&mark).is_ok_and(|installed| installed == versions) {
        return Ok(place);
    }
    let _ = std::fs::remove_dir_all(&place);
    install(&place)?;
    std::fs::write(mark, versions).unwrap();
    Ok(place)
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    let Output { status, stdout, stderr } =
        command.output().map_err(|error| format!("{program}: {error}"))?;
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    let last = said.trim().lines().last().unwrap_or_default().to_owned();
    if status.success() { Ok(()) } else { Err(format!("{program}: {last}")) }
}
