//! The body limit: three mebibytes, as etcd and its patience demand.
//!
//! # Invariants
//! 1. No more than the limit is ever held in memory.
//!
//! # In Kubernetes
//! `MaxRequestBodyBytes` in `apiserver/pkg/server/config.go`, `limitedReadBody` in `…/endpoints/handlers/rest.go`.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use stage1_kubectl::status::Status;

/// Largest body that is read.
pub const MAX_REQUEST_BODY_BYTES: usize = 3 * 1024 * 1024;
/// How much of a body that is too large is read and thrown away, so that the client reads the refusal rather than a reset.
const MAX_DRAINED_BYTES: usize = 16 * 1024 * 1024;

/// Reads a whole body.
///
/// # Errors
/// 413 above the limit, 400 when the client goes away in the middle.
pub async fn read(mut body: Incoming) -> Result<Bytes, Status> {
    let mut whole = BytesMut::new();
    let mut drained = 0;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|e| Status::bad_request(format!("unable to read the request body: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if drained > 0 || whole.len() + data.len() > MAX_REQUEST_BODY_BYTES {
            whole = BytesMut::new();
            drained += data.len().max(1);
            if drained > MAX_DRAINED_BYTES {
                break;
            }
            continue;
        }
        whole.extend_from_slice(&data);
    }
    match drained {
        0 => Ok(whole.freeze()),
        _ => Err(Status::too_large(&format!("limit is {MAX_REQUEST_BODY_BYTES}"))),
    }
}
