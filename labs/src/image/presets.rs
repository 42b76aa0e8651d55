//! The three images that first manifests name: pause, busybox and nginx.
//!
//! *Before a pod's journey.* Every tutorial begins with `image: nginx:1.25`. Without a registry these presets stand in
//! under the same names: a real nginx (Debian's) with the layout of the official image (`/etc/nginx/conf.d`,
//! `/usr/share/nginx/html`, logs on stdout), a real busybox, and a pause. The program inside is Debian's version, not the
//! one the tag says; the image's environment says which (`NGINX_VERSION`).
//!
//! # In Kubernetes
//! Images of docker.io and registry.k8s.io. Left out: everything else in those images (apt, bash, njs, entrypoint scripts).
#![expect(clippy::disallowed_methods, reason = "shell: asks busybox and nginx for their applets and version")]

use std::path::Path;
use std::process::Command;

use super::source::{SourceError, add_file, add_program, compile_static};
use super::{Entry, ImageSpec};

/// The sandbox image that containerd's default configuration names.
pub const PAUSE: &str = "registry.k8s.io/pause:3.9";
/// Tags of busybox that manifests name most.
pub const BUSYBOX_TAGS: [&str; 3] = ["1.36", "1.35", "latest"];
/// Tags of nginx: two versions at least, so that a rolling update has somewhere to go.
pub const NGINX_TAGS: [&str; 5] = ["1.25", "1.26", "1.27", "1.14.2", "latest"];

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnginx:x:101:101:nginx:/nonexistent:/bin/false\nnobody:x:65534:65534:nobody:/:/bin/false\n";
const GROUP: &str = "root:x:0:\nnginx:x:101:\nnobody:x:65534:\n";
const NGINX_CONF: &str = include_str!("nginx/nginx.conf");
const NGINX_DEFAULT_CONF: &str = include_str!("nginx/default.conf");
const NGINX_INDEX: &str = include_str!("nginx/index.html");

/// A preset by its name: file name and image.
///
/// # Errors
/// [`SourceError`] when a file or program of this machine is missing.
pub fn all() -> Result<Vec<(String, ImageSpec)>, SourceError> {
    let mut images = vec![("pause".to_owned(), pause()?), ("busybox".to_owned(), busybox()?)];
    for tag in NGINX_TAGS {
        images.push((format!("nginx-{tag}"), nginx(tag)?));
    }
    Ok(images)
}

fn text(contents: &str) -> Entry {
    Entry::File(contents.as_bytes().to_vec(), 0o644)
}

/// The image of a pod's sandbox.
///
/// # Errors
/// [`SourceError::Run`] when there is no C compiler.
pub fn pause() -> Result<ImageSpec, SourceError> {
    let mut spec = ImageSpec {
        names: vec![PAUSE.to_owned()],
        entrypoint: vec!["/pause".to_owned()],
        user: "65535:65535".to_owned(),
        ..ImageSpec::default()
    };
    spec.add("pause", Entry::File(compile_static(include_str!("pause.c"))?, 0o755))?;
    Ok(spec)
}

/// busybox with a link for each of its applets.
///
/// # Errors
/// [`SourceError`] when Debian's `busybox-static` is not installed.
pub fn busybox() -> Result<ImageSpec, SourceError> {
    let mut spec = ImageSpec {
        names: BUSYBOX_TAGS.iter().map(|tag| format!("docker.io/library/busybox:{tag}")).collect(),
        cmd: vec!["sh".to_owned()],
        gzip: true,
        ..ImageSpec::default()
    };
    add_base(&mut spec)?;
    Ok(spec)
}

/// nginx as the official image lays it out, under one tag.
///
/// # Errors
/// [`SourceError`] when Debian's `nginx-light` is not installed.
pub fn nginx(tag: &str) -> Result<ImageSpec, SourceError> {
    let mut spec = ImageSpec {
        names: vec![format!("docker.io/library/nginx:{tag}")],
        env: vec![format!("NGINX_VERSION={}", nginx_version()?), format!("NGINX_IMAGE_TAG={tag}")],
        cmd: ["nginx", "-g", "daemon off;"].map(str::to_owned).to_vec(),
        stop_signal: "SIGQUIT".to_owned(),
        ports: vec!["80/tcp".to_owned()],
        gzip: true,
        ..ImageSpec::default()
    };
    add_base(&mut spec)?;
    add_program(&mut spec, Path::new("/usr/sbin/nginx"))?;
    add_file(&mut spec, Path::new("/etc/nginx/mime.types"), "etc/nginx/mime.types", Some(0o644))?;
    spec.add("etc/nginx/nginx.conf", text(NGINX_CONF))?;
    spec.add("etc/nginx/conf.d/default.conf", text(NGINX_DEFAULT_CONF))?;
    spec.add("usr/share/nginx/html/index.html", text(NGINX_INDEX))?;
    spec.add("var/log/nginx/access.log", Entry::Link("/dev/stdout".to_owned()))?;
    spec.add("var/log/nginx/error.log", Entry::Link("/dev/stderr".to_owned()))?;
    spec.add("var/lib/nginx", Entry::Dir(0o755))?;
    spec.add("run", Entry::Dir(0o755))?;
    Ok(spec)
}

/// What every image but pause has: a shell, users, and the directories that programs expect.
fn add_base(spec: &mut ImageSpec) -> Result<(), SourceError> {
    add_file(spec, Path::new("/usr/bin/busybox"), "bin/busybox", Some(0o755))?;
    for applet in run("busybox", &["--list"])?.lines() {
        spec.add(&format!("bin/{applet}"), Entry::Link("/bin/busybox".to_owned()))?;
    }
    add_file(spec, Path::new("/usr/bin/busybox"), "bin/busybox", Some(0o755))?;
    spec.add("etc/passwd", text(PASSWD))?;
    spec.add("etc/group", text(GROUP))?;
    spec.add("tmp", Entry::Dir(0o1777))?;
    spec.add("root", Entry::Dir(0o700))?;
    Ok(())
}

fn nginx_version() -> Result<String, SourceError> {
    let output = run("/usr/sbin/nginx", &["-v"])?;
    Ok(output.trim().rsplit('/').next().unwrap_or_default().to_owned())
}

/// What a program prints, on either stream: nginx tells its version on stderr.
fn run(program: &'static str, args: &[&str]) -> Result<String, SourceError> {
    let failed = |message: String| SourceError::Run { program, message };
    let output = Command::new(program).args(args).output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let bytes = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
