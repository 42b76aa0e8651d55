//! The command line of `labs`.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::exercises::ExerciseCommand;
use crate::lab::commands::LabCommand;

/// Six Stages: images, demo and labs.
#[derive(Debug, Parser)]
#[command(name = "labs", version)]
pub struct Flags {
    /// Directory of the cluster's state (default: ~/.six-stages)
    #[arg(long, global = true, env = "STAGES_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands, one module each.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an OCI image from files of this machine
    Image(Box<ImageFlags>),
    /// Deploy a web site on the running pipeline, send requests through its Services, print its pod's journey
    Demo(DemoFlags),
    /// Serve the book with a live panel: journeys as they happen, labs
    Book(crate::page::BookFlags),
    /// Run a cluster for labs: each component a process that can be stopped, edited and broken
    Cluster,
    /// Exercises: implement one trait of a stage
    Exercises {
        /// What to do.
        #[command(subcommand)]
        command: ExerciseCommand,
    },
    /// The labs themselves
    #[command(flatten)]
    Lab(LabCommand),
    /// Start pipelines in fresh state directories and measure starts, rollouts, idle CPU and memory
    Measure(MeasureFlags),
}

/// Flags of `labs image`.
#[derive(Debug, Args)]
pub struct ImageFlags {
    /// Make the ready-made images (pause, busybox, nginx) instead, one tar each, in this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "names"])]
    pub presets: Option<PathBuf>,
    /// The tar to write (OCI layout and docker archive at once)
    #[arg(required_unless_present = "presets")]
    pub out: Option<PathBuf>,
    /// Full name and tag, as in docker.io/library/web:1
    #[arg(required_unless_present = "presets")]
    pub names: Vec<String>,
    /// Copy a file: SRC:DST[:MODE]
    #[arg(long = "file", value_name = "SRC:DST[:MODE]")]
    pub files: Vec<String>,
    /// Copy a program to its own path, with the libraries it loads
    #[arg(long = "program", value_name = "PATH")]
    pub programs: Vec<PathBuf>,
    /// Make a symbolic link: TARGET:PATH
    #[arg(long = "link", value_name = "TARGET:PATH")]
    pub links: Vec<String>,
    /// Make a directory: PATH[:MODE]
    #[arg(long = "dir", value_name = "PATH[:MODE]")]
    pub dirs: Vec<String>,
    /// Write a text file: PATH=CONTENTS
    #[arg(long = "text", value_name = "PATH=CONTENTS")]
    pub texts: Vec<String>,
    /// Environment: KEY=value
    #[arg(long)]
    pub env: Vec<String>,
    /// Entrypoint, one word each
    #[arg(long)]
    pub entrypoint: Vec<String>,
    /// Command, one word each
    #[arg(long)]
    pub cmd: Vec<String>,
    /// User (and group) of the first process
    #[arg(long, default_value = "")]
    pub user: String,
    /// Working directory of the first process
    #[arg(long, default_value = "")]
    pub workdir: String,
    /// Signal that asks the first process to end
    #[arg(long, default_value = "")]
    pub stop_signal: String,
    /// Exposed port, as in 80/tcp
    #[arg(long = "port")]
    pub ports: Vec<String>,
    /// Compress the layer, so that its digest is the same in a registry
    #[arg(long)]
    pub gzip: bool,
}

/// Flags of `labs demo`.
#[derive(Debug, Args)]
pub struct DemoFlags {
    /// The kubectl to use
    #[arg(long, default_value = "kubectl")]
    pub kubectl: PathBuf,
}

/// Flags of `labs measure`.
#[derive(Debug, Args)]
pub struct MeasureFlags {
    /// How often each thing is measured (after one round that isn't counted)
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub repeat: u32,
    /// How long CPU time is counted while nothing happens, in seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub idle_seconds: u64,
    /// The kube-proxy with the real parts; without it cargo builds one
    #[arg(long, value_name = "FILE")]
    pub real: Option<PathBuf>,
    /// The kube-proxy without features; without it cargo builds one
    #[arg(long, value_name = "FILE")]
    pub featureless: Option<PathBuf>,
    /// Write the figures as JSON to this file, too (they are always the last line of the output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
