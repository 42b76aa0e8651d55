//! `kubectl config`: looks into kubeconfig files and changes them.
//!
//! Several files can be in use at once (`KUBECONFIG=a:b`). They are read as one, but a change goes into the file that
//! defines the entry, so [`files`] keeps them apart. What a change means is decided by pure functions on a [`Config`]
//! ([`entries`], [`property`]); how a configuration is shown by [`view`].
//!
//! # Invariants
//! 1. A file is replaced as a whole, never half written, and only when its content changed.
//! 2. `view` shows no secret unless `--raw` or `--flatten` asks for it.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/config`, `client-go/tools/clientcmd/config.go`. Left out: the `.lock` file beside the kubeconfig.

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;
use crate::kubeconfig::Config;
use crate::printers::table;

/// Changes of whole entries.
pub mod entries;
/// The files that are in use.
pub mod files;
/// One value by its path.
pub mod property;
/// How a configuration is shown.
pub mod view;

use files::Files;

/// `kubectl config …`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What can be done with kubeconfig files.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Display merged kubeconfig settings or a specified kubeconfig file.
    View(view::ViewArgs),
    /// Display the current-context.
    CurrentContext,
    /// Describe one or many contexts.
    GetContexts(GetContextsArgs),
    /// Display clusters defined in the kubeconfig.
    GetClusters,
    /// Display users defined in the kubeconfig.
    GetUsers,
    /// Set the current-context in a kubeconfig file.
    #[command(visible_alias = "use")]
    UseContext(Names),
    /// Set a context entry in kubeconfig.
    SetContext(entries::SetContextArgs),
    /// Set a cluster entry in kubeconfig.
    SetCluster(entries::SetClusterArgs),
    /// Set a user entry in kubeconfig.
    SetCredentials(entries::SetCredentialsArgs),
    /// Delete the specified context from the kubeconfig.
    DeleteContext(Names),
    /// Delete the specified cluster from the kubeconfig.
    DeleteCluster(Names),
    /// Delete the specified user from the kubeconfig.
    DeleteUser(Names),
    /// Rename a context from the kubeconfig file.
    RenameContext(Names),
    /// Set an individual value in a kubeconfig file.
    Set(SetPropertyArgs),
    /// Unset an individual value in a kubeconfig file.
    Unset(Names),
}

/// One name or more.
#[derive(Debug, Args)]
pub struct Names {
    /// The names.
    pub names: Vec<String>,
}

impl Names {
    /// The names, when there are as many as wanted.
    fn exactly<const N: usize>(&self) -> Result<[&str; N], Failure> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        names
            .try_into()
            .map_err(|names: Vec<&str>| Failure::message(format!("Unexpected args: [{}]", names.join(" "))))
    }
}

/// Flags of `kubectl config get-contexts`.
#[derive(Debug, Args)]
pub struct GetContextsArgs {
    /// The contexts to show; all when none is named.
    pub names: Vec<String>,
    /// Output format: name.
    #[arg(short = 'o', long, default_value = "")]
    pub output: String,
    /// Don't print headers.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub no_headers: bool,
}

/// Flags of `kubectl config set`.
#[derive(Debug, Args)]
pub struct SetPropertyArgs {
    /// The path and the value.
    pub names: Vec<String>,
    /// Take a value of bytes as it is instead of as base64.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub set_raw_bytes: bool,
}

/// Runs `kubectl config …`.
///
/// # Errors
/// A file that can't be read or written, or an entry that isn't there.
pub async fn run(ctx: &Context, args: ConfigArgs) -> Result<(), Failure> {
    use ConfigCommand as C;
    if let C::View(args) = &args.command {
        return view::run(ctx, args);
    }
    let mut files = Files::open(&ctx.flags.kubeconfig)?;
    let said = match args.command {
        C::View(_) => String::new(),
        C::CurrentContext => current_context(&files.merged())?,
        C::GetContexts(args) => return get_contexts(ctx, &files.merged(), &args),
        C::GetClusters => named("NAME", files.merged().clusters.into_iter().map(|c| c.name)),
        C::GetUsers => named("NAME", files.merged().users.into_iter().map(|u| u.name)),
        C::UseContext(names) => use_context(&mut files, &names)?,
        C::SetContext(args) => entries::set_context(&ctx.flags, &args, &mut files)?,
        C::SetCluster(args) => entries::set_cluster(&ctx.flags, &args, &mut files)?,
        C::SetCredentials(args) => entries::set_credentials(&ctx.flags, &args, &mut files)?,
        C::DeleteContext(names) => {
            let [name] = names.exactly()?;
            if files.merged().current_context == name {
                ctx.warn("warning: this removed your active context, use \"kubectl config use-context\" to select a different one\n");
            }
            delete(&mut files, "context", name)?
        }
        C::DeleteCluster(names) => delete(&mut files, "cluster", names.exactly::<1>()?[0])?,
        C::DeleteUser(names) => delete(&mut files, "user", names.exactly::<1>()?[0])?,
        C::RenameContext(names) => rename_context(&mut files, &names)?,
        C::Set(args) => {
            let [path, value] =
                Names { names: args.names.clone() }.exactly::<2>().map(|two| two.map(String::from))?;
            property::set(&mut files, &path, &value, args.set_raw_bytes)?;
            format!("Property {path:?} set.\n")
        }
        C::Unset(names) => {
            let [path] = names.exactly()?;
            property::unset(&mut files, path)?;
            format!("Property {path:?} unset.\n")
        }
    };
    files.save()?;
    ctx.print(&said);
    Ok(())
}

fn current_context(config: &Config) -> Result<String, Failure> {
    match config.current_context.as_str() {
        "" => Err(Failure::message("current-context is not set")),
        name => Ok(format!("{name}\n")),
    }
}

fn named(title: &str, names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.insert(0, title.to_string());
    names.into_iter().map(|name| name + "\n").collect()
}

fn get_contexts(ctx: &Context, config: &Config, args: &GetContextsArgs) -> Result<(), Failure> {
    let mut contexts: Vec<_> = config.contexts.iter().collect();
    contexts.sort_by(|a, b| a.name.cmp(&b.name));
    let shown = contexts.iter().filter(|context| args.names.is_empty() || args.names.contains(&context.name));
    if args.output == "name" {
        ctx.print(&shown.map(|context| format!("{}\n", context.name)).collect::<String>());
    } else {
        let mut lines: Vec<Vec<String>> = Vec::new();
        if !args.no_headers {
            lines.push(["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"].map(String::from).into());
        }
        lines.extend(shown.map(|named| {
            let current = if named.name == config.current_context { "*" } else { "" };
            let namespace = named.context.namespace.as_deref().unwrap_or_default();
            [current, &named.name, &named.context.cluster, &named.context.user, namespace]
                .map(String::from)
                .into()
        }));
        ctx.print(&table::align(&lines));
    }
    let missing = args.names.iter().filter(|name| !contexts.iter().any(|context| context.name == **name));
    Failure::collect(missing.map(|name| Failure::message(format!("context {name} not found"))).collect())
}

fn use_context(files: &mut Files, names: &Names) -> Result<String, Failure> {
    let [name] = names.exactly()?;
    if !files.merged().contexts.iter().any(|context| context.name == name) {
        return Err(Failure::message(format!("no context exists with the name: {name:?}")));
    }
    files.set_current_context(name);
    Ok(format!("Switched to context {name:?}.\n"))
}

fn delete(files: &mut Files, what: &str, name: &str) -> Result<String, Failure> {
    let place = files.default_name();
    let deleted = match what {
        "context" => {
            files.remove(|config| entries::take(&mut config.contexts, |context| context.name == name))
        }
        "cluster" => {
            files.remove(|config| entries::take(&mut config.clusters, |cluster| cluster.name == name))
        }
        _ => files.remove(|config| entries::take(&mut config.users, |user| user.name == name)),
    };
    match deleted {
        true => Ok(format!("deleted {what} {name} from {place}\n")),
        false => Err(Failure::message(format!("cannot delete {what} {name}, not in {place}"))),
    }
}

fn rename_context(files: &mut Files, names: &Names) -> Result<String, Failure> {
    let [from, to] = names.exactly()?;
    let (config, place) = (files.merged(), files.default_name());
    let has = |name: &str| config.contexts.iter().any(|context| context.name == name);
    if !has(from) {
        return Err(Failure::message(format!("cannot rename the context {from:?}, it's not in {place}")));
    }
    if has(to) {
        let why = format!("cannot rename the context {from:?}, the context {to:?} already exists in {place}");
        return Err(Failure::message(why));
    }
    files.rename_context(from, to);
    if config.current_context == from {
        files.set_current_context(to);
    }
    Ok(format!("Context {from:?} renamed to {to:?}.\n"))
}
