//! gRPC in its smallest form: messages with five bytes before them, and how it ended in the trailers.
//!
//! # Invariants
//! 1. A message longer than the limit is refused before it is read.
//!
//! # In Kubernetes
//! `google.golang.org/grpc`. Left out: compression, deadlines, metadata.

use std::future::Future;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Length of what stands before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// How a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// gRPC's code.
    pub code: u16,
    /// The reason.
    pub message: String,
}

impl Failure {
    /// A failure with a code of gRPC.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Failure { code, message: message.into() }
    }

    /// Nobody serves this.
    pub fn unimplemented(what: &str) -> Self {
        Failure::new(12, format!("unknown method {what}"))
    }

    /// The request makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Failure::new(3, message)
    }

    /// An answer without a message.
    pub fn response(self) -> Response<Body> {
        response(stream::iter([Err(self)]).boxed())
    }

    fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from(self.code));
        let text = percent_encoding::utf8_percent_encode(&self.message, percent_encoding::NON_ALPHANUMERIC);
        if let (false, Ok(value)) = (self.message.is_empty(), HeaderValue::from_str(&text.to_string())) {
            trailers.insert("grpc-message", value);
        }
        trailers
    }
}

/// A message as it goes over the wire.
pub fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).expect("messages are far shorter than four gigabytes"));
    message.encode(&mut bytes).expect("the buffer grows");
    bytes.freeze()
}

/// An answer made of framed messages; it ends well unless the last item is a failure.
pub fn response(messages: stream::BoxStream<'static, Result<Bytes, Failure>>) -> Response<Body> {
    let end = stream::once(async { Err(Failure::new(0, "")) });
    // Nothing follows a failure.
    let until = messages.chain(end).scan(false, |ended, item| {
        let stop = std::mem::replace(ended, item.is_err());
        std::future::ready((!stop).then_some(item))
    });
    let frames = until.map(|item| {
        Ok(match item {
            Ok(bytes) => Frame::data(bytes),
            Err(failure) => Frame::trailers(failure.trailers()),
        })
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// An answer whose messages come through a channel.
pub fn streaming() -> (mpsc::Sender<Result<Bytes, Failure>>, Response<Body>) {
    let (sender, receiver) = mpsc::channel(64);
    (sender, response(ReceiverStream::new(receiver).boxed()))
}

/// Reads the messages of a request.
pub struct Messages {
    body: Incoming,
    buffer: BytesMut,
}

impl Messages {
    /// Of a request's body.
    pub fn new(body: Incoming) -> Self {
        Messages { body, buffer: BytesMut::new() }
    }

    /// The next one; `None` at the end.
    ///
    /// # Errors
    /// It is too long, compressed, or no message.
    pub async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Failure> {
        loop {
            if let Some(message) = take(&mut self.buffer)? {
                return M::decode(message).map(Some).map_err(|e| Failure::invalid(e.to_string()));
            }
            match self.body.frame().await {
                None | Some(Err(_)) => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

/// Takes a whole message off the front of a buffer.
fn take(buffer: &mut BytesMut) -> Result<Option<Bytes>, Failure> {
    if buffer.len() < PREFIX_BYTES {
        return Ok(None);
    }
    let length = (&buffer[1..PREFIX_BYTES]).get_u32() as usize;
    if buffer[0] != 0 {
        return Err(Failure::unimplemented("compression"));
    }
    if length > MAX_MESSAGE_BYTES {
        return Err(Failure::new(8, format!("message of {length} bytes is larger than {MAX_MESSAGE_BYTES}")));
    }
    if buffer.len() < PREFIX_BYTES + length {
        return Ok(None);
    }
    buffer.advance(PREFIX_BYTES);
    Ok(Some(buffer.split_to(length).freeze()))
}

/// One message in, one out.
///
/// # Errors
/// What the call fails with.
pub async fn unary<M, A, F, Fut>(body: Incoming, call: F) -> Result<Response<Body>, Failure>
where
    M: Message + Default,
    A: Message,
    F: FnOnce(M) -> Fut,
    Fut: Future<Output = Result<A, Failure>>,
{
    let message = Messages::new(body).next().await?.ok_or_else(|| Failure::invalid("no message"))?;
    let answer = call(message).await?;
    Ok(response(stream::iter([Ok(framed(&answer))]).boxed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_when_it_is_whole() {
        let mut buffer = BytesMut::from(&[0, 0, 0, 0, 3, 1, 2][..]);
        assert_eq!(take(&mut buffer), Ok(None));
        buffer.extend_from_slice(&[3, 9]);
        assert_eq!(take(&mut buffer), Ok(Some(Bytes::from_static(&[1, 2, 3]))));
        assert_eq!(buffer, [9][..]);
        assert!(take(&mut BytesMut::from(&[0, 255, 0, 0, 0][..])).is_err());
        assert!(take(&mut BytesMut::from(&[1, 0, 0, 0, 0][..])).is_err());
    }
}
