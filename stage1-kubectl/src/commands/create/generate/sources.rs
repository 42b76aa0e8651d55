//! Where a ConfigMap's or Secret's content comes from: literals, files, folders, files of variables.
//!
//! # In Kubernetes
//! `kubectl/pkg/util/{util,env_file}.go`, `handleConfigMapFrom…Sources` in `create_configmap.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the files that flags name")]

use std::path::Path;

use clap::Args;

use crate::failure::Failure;

/// `--from-file`, `--from-literal`, `--from-env-file`.
#[derive(Debug, Clone, Default, Args)]
pub struct SourceFlags {
    /// A file, KEY=FILE, or a folder.
    #[arg(long, value_delimiter = ',')]
    pub from_file: Vec<String>,
    /// KEY=VALUE.
    #[arg(long)]
    pub from_literal: Vec<String>,
    /// A file of KEY=VALUE lines.
    #[arg(long, value_delimiter = ',')]
    pub from_env_file: Vec<String>,
}

/// Keys and their content, in the order of the flags.
pub type Entries = Vec<(String, Vec<u8>)>;

/// Reads all sources.
///
/// # Errors
/// A source that can't be understood or read.
pub fn read(flags: &SourceFlags) -> Result<Entries, Failure> {
    if !(flags.from_env_file.is_empty() || flags.from_file.is_empty() && flags.from_literal.is_empty()) {
        return Err(Failure::message("from-env-file cannot be combined with from-file or from-literal"));
    }
    let mut entries = Entries::new();
    for literal in &flags.from_literal {
        let (key, value) = parse_literal(literal)?;
        entries.push((key, value.into_bytes()));
    }
    for source in &flags.from_file {
        let (key, path) = parse_file_source(source)?;
        add_file(key, &path, &mut entries)?;
    }
    for path in &flags.from_env_file {
        entries.extend(env_file(path)?.into_iter().map(|(key, value)| (key, value.into_bytes())));
    }
    Ok(entries)
}

fn parse_literal(source: &str) -> Result<(String, String), Failure> {
    let wrong = || Failure::message(format!("invalid literal source {source}, expected key=value"));
    let (key, value) = source.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(wrong)?;
    Ok((key.to_string(), value.trim_matches(['"', '\'']).to_string()))
}

fn parse_file_source(source: &str) -> Result<(Option<String>, String), Failure> {
    match source.split('=').collect::<Vec<_>>().as_slice() {
        [path] => Ok((None, (*path).to_string())),
        ["", path] => Err(Failure::message(format!("key name for file path {path} missing"))),
        [key, ""] => Err(Failure::message(format!("file path for key name {key} missing"))),
        [key, path] => Ok((Some((*key).to_string()), (*path).to_string())),
        _ => Err(Failure::message("key names or file paths cannot contain '='")),
    }
}

fn reading(path: &str, error: &std::io::Error) -> Failure {
    let why = match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_string(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_string(),
        _ => error.to_string(),
    };
    Failure::message(format!("error reading {path}: {why}"))
}

fn add_file(key: Option<String>, path: &str, entries: &mut Entries) -> Result<(), Failure> {
    let metadata = std::fs::metadata(path).map_err(|e| reading(path, &e))?;
    let base = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !metadata.is_dir() {
        let content = std::fs::read(path).map_err(|e| reading(path, &e))?;
        entries.push((key.unwrap_or_else(|| base(Path::new(path))), content));
        return Ok(());
    }
    if key.is_some() {
        return Err(Failure::message("cannot give a key name for a directory path"));
    }
    let folder = std::fs::read_dir(path).map_err(|e| reading(path, &e))?;
    let mut files: Vec<_> =
        folder.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    for file in files {
        let content = std::fs::read(&file).map_err(|e| reading(&file.display().to_string(), &e))?;
        entries.push((base(&file), content));
    }
    Ok(())
}

/// The variables of a file; a name without `=` takes its value from the environment.
///
/// # Errors
/// A file that can't be read, or a line that is no variable.
pub fn env_file(path: &str) -> Result<Vec<(String, String)>, Failure> {
    let bytes = std::fs::read(path).map_err(|e| reading(path, &e))?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut variables = Vec::new();
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = std::str::from_utf8(line).map_err(|_| {
            Failure::message(format!("env file {path} contains invalid utf8 bytes at line {}", number + 1))
        })?;
        let line = line.strip_suffix('\r').unwrap_or(line).trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').map_or((line, None), |(key, value)| (key, Some(value)));
        if let Some(why) = variable_name_error(key) {
            return Err(Failure::message(format!("{key:?} is not a valid key name: {why}")));
        }
        let value = value.map(String::from);
        variables.push((key.to_string(), value.unwrap_or_else(|| std::env::var(key).unwrap_or_default())));
    }
    Ok(variables)
}

/// What makes a text no name of a variable.
pub fn variable_name_error(name: &str) -> Option<&'static str> {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let fits = !name.is_empty() && name.chars().all(inner) && !name.starts_with(|c: char| c.is_ascii_digit());
    match (fits, name) {
        (false, _) => Some(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')",
        ),
        (true, ".") => Some("must not be '.'"),
        (true, "..") => Some("must not be '..'"),
        (true, _) => None,
    }
}
