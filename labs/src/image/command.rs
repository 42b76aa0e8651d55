//! `labs image`: flags to a spec, a spec to a file.
//!
//! *Before a pod's journey.* The shell around [`super::build`].
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.
#![expect(clippy::disallowed_methods, reason = "shell: writes the image's tar")]

use std::path::Path;

use anyhow::{Context as _, bail};

use super::source::{add_file, add_program};
use super::{Entry, ImageSpec, build, presets};
use crate::options::ImageFlags;

/// Runs `labs image` and returns what to print, a line an image.
///
/// # Errors
/// When a flag has the wrong form, a file can't be read or the tar can't be written.
pub fn run(flags: &ImageFlags) -> anyhow::Result<String> {
    let Some(dir) = &flags.presets else {
        let out = flags.out.as_deref().context("name the tar to write")?;
        return write(out, &spec(flags)?);
    };
    write_presets(dir)
}

/// Writes the ready-made images into a directory and returns a line an image.
///
/// # Errors
/// As [`run`].
pub fn write_presets(dir: &Path) -> anyhow::Result<String> {
    std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    let mut lines = String::new();
    for (file, spec) in presets::all()? {
        lines.push_str(&write(&dir.join(format!("{file}.tar")), &spec)?);
    }
    Ok(lines)
}

/// Written beside its place and moved there: whoever imports the directory never sees half an image.
fn write(path: &Path, spec: &ImageSpec) -> anyhow::Result<String> {
    let bytes = build(spec)?;
    let part = path.with_extension("tar.part");
    std::fs::write(&part, &bytes).with_context(|| format!("write {}", part.display()))?;
    std::fs::rename(&part, path).with_context(|| format!("write {}", path.display()))?;
    Ok(format!("{}: {} ({} bytes)\n", path.display(), spec.names.join(", "), bytes.len()))
}

fn spec(flags: &ImageFlags) -> anyhow::Result<ImageSpec> {
    let mut spec = ImageSpec {
        names: flags.names.clone(),
        env: flags.env.clone(),
        entrypoint: flags.entrypoint.clone(),
        cmd: flags.cmd.clone(),
        user: flags.user.clone(),
        working_dir: flags.workdir.clone(),
        stop_signal: flags.stop_signal.clone(),
        ports: flags.ports.clone(),
        gzip: flags.gzip,
        ..ImageSpec::default()
    };
    for dir in &flags.dirs {
        let (path, mode) = dir.split_once(':').unwrap_or((dir, "755"));
        spec.add(path, Entry::Dir(parse_mode(mode)?))?;
    }
    for program in &flags.programs {
        add_program(&mut spec, program)?;
    }
    for file in &flags.files {
        match file.split(':').collect::<Vec<_>>()[..] {
            [from, to] => add_file(&mut spec, Path::new(from), to, None)?,
            [from, to, mode] => add_file(&mut spec, Path::new(from), to, Some(parse_mode(mode)?))?,
            _ => bail!("--file {file}: write SRC:DST or SRC:DST:MODE"),
        }
    }
    for text in &flags.texts {
        let (path, contents) =
            text.split_once('=').with_context(|| format!("--text {text}: write PATH=CONTENTS"))?;
        spec.add(path, Entry::File(contents.as_bytes().to_vec(), 0o644))?;
    }
    for link in &flags.links {
        let (target, path) =
            link.split_once(':').with_context(|| format!("--link {link}: write TARGET:PATH"))?;
        spec.add(path, Entry::Link(target.to_owned()))?;
    }
    Ok(spec)
}

fn parse_mode(text: &str) -> anyhow::Result<u32> {
    u32::from_str_radix(text, 8).with_context(|| format!("mode {text:?} is not octal, as in 755"))
}
