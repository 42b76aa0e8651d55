//! What becomes of an edit that was refused: pure functions from the refusal to the words, and to the file's new head.
//!
//! *Step 1 of a pod's journey*, when the server says no. Invalid objects go back into the editor; what is gone or can't be patched ends the
//! command, with the name of the file that has the edit.
//!
//! # In Kubernetes
//! `editResults`, `editHeader` and `addError` in `kubectl/pkg/cmd/util/editor/editoptions.go`.

use std::path::Path;

use super::HEADER;
use crate::client::ClientError;
use crate::commands::builder::Target;
use crate::failure::Failure;

/// A reason at the head of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) head: String,
    pub(super) more: Vec<String>,
}

/// What can be done about a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// Edit it again.
    Invalid(Reason),
    /// The object is gone.
    NotFound,
    /// Try again later.
    Retryable,
}

/// What is said at once about a refusal, and what can be done.
pub(super) fn refusal(error: ClientError, target: &Target) -> (String, Problem) {
    let name = format!("{} {:?}", target.resource.gvr.group_resource(), target.name);
    if error.is_invalid() {
        let causes = error
            .status()
            .and_then(|status| status.details.as_ref())
            .map(|details| details.causes.as_slice());
        let more = causes.unwrap_or_default().iter().map(|one| format!("{}: {}", one.field, one.message));
        let reason = Reason { head: format!("{name} was not valid"), more: more.collect() };
        return (format!("error: {name} is invalid"), Problem::Invalid(reason));
    }
    if error.is_not_found() {
        return (format!("error: {name} could not be found on the server"), Problem::NotFound);
    }
    let why = match error.status() {
        Some(status) => status.message.clone(),
        None => Failure::from(error).report().0,
    };
    (format!("error: {name} could not be patched: {why}"), Problem::Retryable)
}

/// A text that is no object, told as the refusal of the first object.
pub(super) fn not_an_object(error: &str, target: &Target) -> (String, Reason) {
    let name = format!("{} {:?}", target.resource.gvr.group_resource(), target.name);
    let why = format!("<nil>: Invalid value: \"The edited file failed validation\": {error}");
    (format!("error: {name} is invalid"), Reason { head: format!("{name} was not valid"), more: vec![why] })
}

/// The last words, where editing again won't help.
pub(super) fn end(problems: &[Problem], file: &Path) -> Option<String> {
    let shown = file.display().to_string();
    if problems.contains(&Problem::Retryable) {
        return Some(format!("You can run `kubectl replace -f {shown}` to try this update again.\n"));
    }
    let gone = problems.contains(&Problem::NotFound);
    gone.then(|| format!("The edits you made on deleted resources have been saved to {shown:?}\n"))
}

/// Why an object must be edited again.
pub(super) fn cause(problem: Problem) -> Option<Reason> {
    match problem {
        Problem::Invalid(reason) => Some(reason),
        Problem::NotFound | Problem::Retryable => None,
    }
}

/// The edited text with the reasons at its head, as comments. JSON has no comments.
pub(super) fn with_reasons(edited: &str, reasons: &[Reason], json: bool) -> String {
    let body: String =
        edited.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    if json {
        return body;
    }
    let commented = |text: &str| text.replace('\n', "\n# ");
    let mut head = HEADER.to_string();
    for reason in reasons {
        let colon = if reason.more.is_empty() { "" } else { ":" };
        head += &format!("# {}{colon}\n", commented(&reason.head));
        head.extend(reason.more.iter().map(|one| format!("# * {}\n", commented(one))));
        head += "#\n";
    }
    head + &body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::of;
    use crate::status::{FieldError, Status};

    fn target() -> Target {
        let resource = of::<k8s_openapi::api::apps::v1::Deployment>();
        Target { resource, namespace: Some("d".into()), name: "web".into(), manifest: None }
    }

    #[test]
    fn a_refusal_stands_at_the_head_of_the_file_when_it_is_opened_again() {
        let status = Status::invalid("Deployment", "web", &[FieldError::required("spec.x", "")]);
        let (told, problem) = refusal(status.into(), &target());
        assert_eq!(told, "error: deployments.apps \"web\" is invalid");
        assert_eq!(end(std::slice::from_ref(&problem), Path::new("/f")), None);
        let reasons = [cause(problem).unwrap()];
        let text = with_reasons("# old head\nkind: Deployment\n", &reasons, false);
        let wanted = format!(
            "{HEADER}# deployments.apps \"web\" was not valid:\n# * spec.x: Required value\n#\nkind: Deployment\n"
        );
        assert_eq!(text, wanted);
        assert_eq!(with_reasons("{}\n", &reasons, true), "{}\n");
    }

    #[test]
    fn what_editing_again_wont_mend_ends_with_the_files_name() {
        let (told, gone) = refusal(Status::not_found("deployments.apps", "web").into(), &target());
        assert_eq!(told, "error: deployments.apps \"web\" could not be found on the server");
        assert_eq!(
            end(&[gone], Path::new("/f")).unwrap(),
            "The edits you made on deleted resources have been saved to \"/f\"\n"
        );
        let (told, later) = refusal(Status::forbidden("deployments.apps", "web", "no").into(), &target());
        assert!(told.starts_with("error: deployments.apps \"web\" could not be patched: "), "{told}");
        assert_eq!(
            end(&[later], Path::new("/f")).unwrap(),
            "You can run `kubectl replace -f /f` to try this update again.\n"
        );
    }
}
