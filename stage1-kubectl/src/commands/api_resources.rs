//! `kubectl api-resources` and `kubectl api-versions`: what the server has.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/apiresources/{apiresources,apiversions}.go`.

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;
use crate::printers::table;
use crate::resource::ApiResource;

/// Flags of `kubectl api-resources`.
#[derive(Debug, Args)]
pub struct ApiResourcesArgs {
    /// Limit to resources in the specified API group.
    #[arg(long)]
    pub api_group: Option<String>,
    /// If false, non-namespaced resources will be returned, otherwise returning namespaced resources by default.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub namespaced: Option<bool>,
    /// Limit to resources that support the specified verbs.
    #[arg(long, value_delimiter = ',')]
    pub verbs: Vec<String>,
    /// Limit to resources that belong to the specified categories.
    #[arg(long, value_delimiter = ',')]
    pub categories: Vec<String>,
    /// Output format. One of: (wide, name).
    #[arg(short = 'o', long, default_value = "")]
    pub output: String,
    /// When using the default or custom-column output format, don't print headers.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub no_headers: bool,
    /// If non-empty, sort list of resources using specified field (name or kind).
    #[arg(long, default_value = "")]
    pub sort_by: String,
    /// Use the cached list of resources if available.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub cached: bool,
}

/// Runs `kubectl api-resources`.
///
/// # Errors
/// The server doesn't answer.
pub async fn run(ctx: &Context, args: ApiResourcesArgs) -> Result<(), Failure> {
    if !matches!(args.output.as_str(), "" | "wide" | "name") {
        return Err(Failure::message(format!("--output {} is not available", args.output)));
    }
    let discovery = match args.cached {
        true => ctx.cached_discovery().await?,
        false => ctx.discovery().await?,
    };
    let mut found: Vec<&ApiResource> = Vec::new();
    for resource in discovery.resources().filter(|r| fits(r, &args)) {
        let same =
            |f: &&ApiResource| f.gvr.group == resource.gvr.group && f.gvr.resource == resource.gvr.resource;
        if !found.iter().any(same) {
            found.push(resource);
        }
    }
    match args.sort_by.as_str() {
        "kind" => found.sort_by(|a, b| a.kind.cmp(&b.kind)),
        "name" => found.sort_by(|a, b| a.gvr.resource.cmp(&b.gvr.resource)),
        _ => found.sort_by(|a, b| (&a.gvr.group, &a.gvr.resource).cmp(&(&b.gvr.group, &b.gvr.resource))),
    }
    if args.output == "name" {
        ctx.print(&found.iter().map(|r| format!("{}\n", r.gvr.group_resource())).collect::<String>());
        return Ok(());
    }
    let wide = args.output == "wide";
    let mut lines = Vec::new();
    if !args.no_headers {
        let titles: &[&str] = match wide {
            true => &["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND", "VERBS", "CATEGORIES"],
            false => &["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"],
        };
        lines.push(titles.iter().map(|t| t.to_string()).collect());
    }
    for resource in found {
        let mut line = vec![
            resource.gvr.resource.clone(),
            resource.short_names.join(","),
            resource.gvr.api_version(),
            resource.namespaced.to_string(),
            resource.kind.clone(),
        ];
        if wide {
            line.push(resource.verbs.join(","));
            line.push(resource.categories.join(","));
        }
        lines.push(line);
    }
    ctx.print(&table::align(&lines));
    Ok(())
}

fn fits(resource: &ApiResource, args: &ApiResourcesArgs) -> bool {
    args.api_group.as_ref().is_none_or(|group| resource.gvr.group == *group)
        && args.namespaced.is_none_or(|namespaced| resource.namespaced == namespaced)
        && args.verbs.iter().all(|verb| resource.can(verb))
        && args.categories.iter().all(|category| resource.categories.contains(category))
        && !resource.verbs.is_empty()
}

/// Runs `kubectl api-versions`.
///
/// # Errors
/// The server doesn't answer.
pub async fn run_versions(ctx: &Context) -> Result<(), Failure> {
    let mut versions: Vec<String> = Vec::new();
    for version in &ctx.discovery().await?.versions {
        versions.push(match version.group.as_str() {
            "" => version.version.clone(),
            group => format!("{group}/{}", version.version),
        });
    }
    versions.sort();
    ctx.print(&versions.iter().map(|v| format!("{v}\n")).collect::<String>());
    Ok(())
}
