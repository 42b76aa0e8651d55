//! `kubectl auth reconcile`: makes roles and bindings grant at least what the files say.
//!
//! `apply` isn't enough for RBAC: a binding's role can't be changed, only recreated; and rules mean the same in many spellings. So
//! rules are compared by what they *cover*: one rule of two verbs is two rules of one. What is missing is added; what is too much
//! stays, unless a flag says otherwise.
//!
//! # Invariants
//! 1. After it, every rule and subject of the file is granted.
//! 2. A role that says `rbac.authorization.kubernetes.io/autoupdate: "false"` is left alone.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/auth/reconcile.go`, `component-helpers/auth/rbac/{reconciliation,validation}`. Left out: aggregation rules, which are
//! taken from the file as they are.

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use crate::commands::DryRun;
use crate::commands::builder::{self, FilenameFlags};
use crate::commands::create::print_result;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::{Output, PrintFlags, Printer};
use crate::request;
use crate::resource::{ApiResource, GroupVersionResource};

mod rules;

use rules::{Outcome, reconcile};

/// Flags of `kubectl auth reconcile`.
#[derive(Debug, Args)]
pub struct ReconcileArgs {
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// If true, removes extra permissions added to roles.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub remove_extra_permissions: bool,
    /// If true, removes extra subjects added to rolebindings.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub remove_extra_subjects: bool,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
}

/// Runs `kubectl auth reconcile`.
///
/// # Errors
/// A file that can't be read, or what the server refused.
pub async fn run(ctx: &Context, args: ReconcileArgs) -> Result<(), Failure> {
    if args.files.is_empty() {
        return Err(Failure::message("must specify one of -f and -k"));
    }
    let dry_run = DryRun::parse(&args.dry_run)?;
    let printer = args.print.printer()?.map(Printer::typed);
    let (mut failures, mut shown) = (Vec::new(), false);
    for manifest in args.files.read()? {
        let mut wanted = manifest.object;
        let gvk = wanted.gvk();
        if gvk.group != "rbac.authorization.k8s.io" {
            continue;
        }
        if gvk.version != "v1" {
            let (version, kind) = (gvk.version, gvk.kind);
            let why = format!("only rbac.authorization.k8s.io/v1 is supported: not *{version}.{kind}");
            return Err(Failure::message(why));
        }
        let resource = ctx.resource_of(&wanted, &manifest.source).await?.clone();
        let namespace = builder::place(ctx, &resource, &mut wanted)?;
        let place = Place { ctx, resource, namespace, name: wanted.name().to_string(), dry_run };
        match place.one(&args, &wanted).await {
            Ok((object, outcome)) => {
                let separate = shown && printer.as_ref().is_some_and(|p| p.form == Output::Yaml);
                shown = true;
                print(ctx, printer.as_ref(), &object, dry_run, separate)?;
                ctx.warn(&outcome.report());
            }
            Err(failure) => failures.push(failure),
        }
    }
    Failure::collect(failures)
}

fn print(
    ctx: &Context,
    printer: Option<&Printer>,
    object: &Object,
    dry_run: DryRun,
    separate: bool,
) -> Result<(), Failure> {
    if separate {
        ctx.print("---\n");
    }
    let mut object = object.clone();
    if object.get("/metadata/creationTimestamp").is_none() {
        object.set("/metadata/creationTimestamp", Value::Null);
    }
    print_result(ctx, printer, &object, "reconciled", dry_run)
}

/// Where one object lives.
struct Place<'a> {
    ctx: &'a Context,
    resource: ApiResource,
    namespace: Option<String>,
    name: String,
    dry_run: DryRun,
}

impl Place<'_> {
    async fn one(&self, args: &ReconcileArgs, wanted: &Object) -> Result<(Object, Outcome), Failure> {
        let client = self.ctx.client().await?;
        let path = self.resource.path(self.namespace.as_deref(), Some(&self.name), None);
        let live = match client.request::<Object>(request::request(Method::GET, &path, None)).await {
            Ok(live) => Some(live),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        let extra = match wanted.kind() {
            "Role" | "ClusterRole" => args.remove_extra_permissions,
            _ => args.remove_extra_subjects,
        };
        let (object, outcome) = reconcile(live.as_ref(), wanted, extra);
        if self.dry_run == DryRun::Client || outcome.protected {
            return Ok((object, outcome));
        }
        let query = request::query(&[("dryRun", self.dry_run.query())]);
        let object = match outcome.operation {
            rules::Operation::Nothing => object,
            rules::Operation::Create => self.create(&object, &query).await?,
            // The server would answer that the object is there: a deletion in a dry run leaves it.
            rules::Operation::Recreate if self.dry_run == DryRun::Server => object,
            rules::Operation::Recreate => {
                let uid = live.as_ref().map(Object::uid).unwrap_or_default();
                let options = json!({"kind": "DeleteOptions", "apiVersion": "rbac.authorization.k8s.io/v1",
                    "preconditions": {"uid": uid}});
                let delete = request::typed(Method::DELETE, &format!("{path}{query}"), &options);
                client.request::<Value>(delete).await?;
                self.create(&object, &query).await?
            }
            rules::Operation::Update => {
                let put = request::typed(Method::PUT, &format!("{path}{query}"), object.as_value());
                client.request(put).await?
            }
        };
        Ok((object, outcome))
    }

    /// Creates the object, and its namespace first if it isn't there.
    async fn create(&self, object: &Object, query: &str) -> Result<Object, Failure> {
        let client = self.ctx.client().await?;
        if let Some(namespace) = &self.namespace {
            let namespaces = GroupVersionResource::new("", "v1", "namespaces");
            let path = namespaces.path(None, Some(namespace), None);
            match client.request::<Value>(request::request(Method::GET, &path, None)).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {
                    let body =
                        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                    let path = namespaces.path(None, None, None) + query;
                    client.request::<Value>(request::typed(Method::POST, &path, &body)).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let path = self.resource.path(self.namespace.as_deref(), None, None) + query;
        self.ctx.step(object, "POST", "reconcile: the server has no such object yet");
        Ok(client.request(request::typed(Method::POST, &path, object.as_value())).await?)
    }
}
