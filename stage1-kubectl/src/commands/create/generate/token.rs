//! `create token`: asks for a ServiceAccount's token, which is stored nowhere.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/create/create_token.go`.

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Failure;
use crate::printers::PrintFlags;
use crate::request;
use crate::resource::GroupVersionResource;
use crate::time::parse_duration;

/// Flags of `kubectl create token`.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// The ServiceAccount.
    pub names: Vec<String>,
    /// Audience of the requested token.
    #[arg(long)]
    pub audience: Vec<String>,
    /// Requested lifetime of the issued token.
    #[arg(long, default_value = "0s")]
    pub duration: String,
    /// Kind of an object to bind the token to: Node, Pod or Secret.
    #[arg(long, default_value = "")]
    pub bound_object_kind: String,
    /// Name of an object to bind the token to.
    #[arg(long, default_value = "")]
    pub bound_object_name: String,
    /// UID of an object to bind the token to.
    #[arg(long, default_value = "")]
    pub bound_object_uid: String,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
}

/// The request's body.
fn token_request(args: &TokenArgs) -> Result<Value, Failure> {
    let mut spec = json!({"audiences": null, "expirationSeconds": null, "boundObjectRef": null});
    let duration = parse_duration(&args.duration).ok_or_else(|| {
        Failure::message(format!("invalid argument {:?} for \"--duration\" flag", args.duration))
    })?;
    if duration.is_negative() {
        return Err(Failure::message("--duration must be greater than or equal to 0"));
    }
    if !duration.is_zero() {
        spec["expirationSeconds"] = duration.as_secs().into();
    }
    if !args.audience.is_empty() {
        spec["audiences"] = json!(args.audience);
    }
    match (args.bound_object_kind.as_str(), args.bound_object_name.as_str()) {
        ("", "") if args.bound_object_uid.is_empty() => {}
        ("", "") => {
            return Err(Failure::message(
                "--bound-object-uid can only be set if --bound-object-kind is provided",
            ));
        }
        ("", _) => {
            return Err(Failure::message(
                "--bound-object-name can only be set if --bound-object-kind is provided",
            ));
        }
        ("Node" | "Pod" | "Secret", "") => {
            return Err(Failure::message("--bound-object-name must be provided"));
        }
        (kind @ ("Node" | "Pod" | "Secret"), name) => {
            spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": kind, "name": name});
            if !args.bound_object_uid.is_empty() {
                spec["boundObjectRef"]["uid"] = args.bound_object_uid.clone().into();
            }
        }
        _ => return Err(Failure::message("supported --bound-object-kind values are Node, Pod, Secret")),
    }
    Ok(json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": null}, "spec": spec, "status": {"token": "", "expirationTimestamp": null},
    }))
}

/// Runs `kubectl create token`.
///
/// # Errors
/// Flags that make no request, or what the server refused.
pub async fn run(ctx: &Context, args: &TokenArgs) -> Result<(), Failure> {
    let [name] = args.names.as_slice() else {
        let count = args.names.len();
        let hint = "See 'kubectl create token -h' for help and examples";
        return Err(Failure::message(format!("exactly one NAME is required, got {count}\n{hint}")));
    };
    let body = token_request(args)?;
    let accounts = GroupVersionResource::new("", "v1", "serviceaccounts");
    let path = accounts.path(Some(&ctx.namespace()), Some(name), Some("token"));
    let answer: Value =
        ctx.client().await?.request(request::typed(Method::POST, &path, &body)).await.map_err(|error| {
            match error {
                crate::client::ClientError::Api(status) => {
                    Failure::message(format!("failed to create token: {}", status.message))
                }
                other => other.into(),
            }
        })?;
    match args.print.printer()? {
        None => match answer["status"]["token"].as_str().filter(|token| !token.is_empty()) {
            Some(token) => ctx.print(token),
            None => return Err(Failure::message("failed to create token: no token in server response")),
        },
        Some(printer) => ctx.print(&printer.render(&answer)?),
    }
    Ok(())
}
