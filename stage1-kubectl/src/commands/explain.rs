//! `kubectl explain`: what a field means, from the server's own description of its kinds.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/explain/explain.go`, `kubectl/pkg/explain/v2`.

use clap::Args;
use http::Method;
use serde_json::Value;

use crate::context::Context;
use crate::failure::Failure;
use crate::request;
use crate::resource::{ApiResource, GroupVersionResource, split_api_version};

/// The text of a page as it was before OpenAPI v3.
pub mod openapi_v2;
/// The text of a page.
pub mod page;

/// Flags of `kubectl explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// TYPE, or TYPE and the path of a field: pods.spec.containers.
    pub arguments: Vec<String>,
    /// Print the fields of fields (Currently only 1 level deep).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub recursive: bool,
    /// Use given api-version (group/version) of the resource.
    #[arg(long, default_value = "")]
    pub api_version: String,
    /// Format in which to render the schema.
    #[arg(short = 'o', long, default_value = "plaintext")]
    pub output: String,
}

/// Runs `kubectl explain`.
///
/// # Errors
/// A resource or field that there isn't.
pub async fn run(ctx: &Context, args: ExplainArgs) -> Result<(), Failure> {
    let word = match args.arguments.as_slice() {
        [] => {
            return Err(Failure::message(
                "You must specify the type of resource to explain. Use \"kubectl api-resources\" for a complete list of supported resources.",
            ));
        }
        [word] => word.trim_end_matches('.'),
        _ => return Err(Failure::message("We accept only this format: explain RESOURCE\n")),
    };
    let (name, path) = word.split_once('.').unwrap_or((word, ""));
    let mut resource = ctx.resource(name).await.map_err(unprefixed)?.clone();
    let path = behind_group(&resource, path);
    if !args.api_version.is_empty() {
        let (group, version) = split_api_version(&args.api_version);
        let wanted = GroupVersionResource::new(group, version, &resource.gvr.resource);
        let found = ctx.discovery().await?.resources().find(|other| other.gvr == wanted);
        let missing = || Failure::message(format!("couldn't find resource for {:?}", wanted.to_string()));
        resource = found.ok_or_else(missing)?.clone();
    }
    let fields: Vec<&str> = path.split('.').filter(|field| !field.is_empty()).collect();
    let text = match args.output.as_str() {
        "plaintext" => {
            let document = document(ctx, &resource).await?;
            let page = page::render(&resource.gvk(), &document, &fields, args.recursive);
            if page.is_err() {
                // By then the head has been printed.
                ctx.print(&page::head(&resource.gvk()));
            }
            page
        }
        "plaintext-openapiv2" => {
            let request = request::request(Method::GET, "/openapi/v2", None);
            openapi_v2::render(
                &resource.gvk(),
                &ctx.client().await?.request(request).await?,
                &fields,
                args.recursive,
            )
        }
        other => Err(format!("unrecognized format: {other}. use --output=plaintext|plaintext-openapiv2")),
    };
    ctx.print(&text.map_err(Failure::message)?);
    Ok(())
}

/// A kind that isn't known is told without `error:` here.
pub(super) fn unprefixed(failure: Failure) -> Failure {
    match failure {
        Failure::Message(text) => Failure::verbatim(text),
        other => other,
    }
}

/// `deployments.apps.spec` names the group too; what is left is the field.
fn behind_group<'a>(resource: &ApiResource, path: &'a str) -> &'a str {
    let group = resource.gvr.group.as_str();
    match path.strip_prefix(group).filter(|_| !group.is_empty()) {
        Some("") => "",
        Some(rest) if rest.starts_with('.') => &rest[1..],
        _ => path,
    }
}

/// The OpenAPI document of the resource's group and version.
async fn document(ctx: &Context, resource: &ApiResource) -> Result<Value, Failure> {
    let client = ctx.client().await?;
    let index: Value = client.request(request::request(Method::GET, "/openapi/v3", None)).await?;
    let root = if resource.gvr.group.is_empty() { "api" } else { "apis" };
    let entry = &index["paths"][format!("{root}/{}", resource.gvr.api_version())]["serverRelativeURL"];
    let missing = || Failure::message(format!("couldn't find resource for {:?}", resource.gvr.to_string()));
    let url = entry.as_str().ok_or_else(missing)?;
    Ok(client.request(request::request(Method::GET, url, None)).await?)
}
