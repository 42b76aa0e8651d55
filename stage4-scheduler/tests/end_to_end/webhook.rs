//! A webhook that answers what the test says, and tells the test what it was asked.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

/// A question: the verb, the body, and where the answer (code, body) goes.
pub struct Question {
    pub verb: String,
    pub body: Value,
    answer: oneshot::Sender<(u16, Value)>,
}

impl Question {
    pub fn answer(self, code: u16, body: Value) {
        let _ = self.answer.send((code, body));
    }
}

/// Listens on a free port; returns its URL and the questions.
pub async fn listen() -> (String, mpsc::UnboundedReceiver<Question>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, questions) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let asked = asked.clone();
            let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let asked = asked.clone();
                async move {
                    let verb = request.uri().path().trim_start_matches('/').to_owned();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let body = serde_json::from_slice(&body).unwrap();
                    let (answer, said) = oneshot::channel();
                    let _ = asked.send(Question { verb, body, answer });
                    // A test that ended answers nothing.
                    let (code, body) = said.await.unwrap_or((500, Value::Null));
                    let answer =
                        http::Response::builder().status(code).header("content-type", "application/json");
                    Ok::<_, std::convert::Infallible>(
                        answer.body(Full::new(Bytes::from(body.to_string()))).unwrap(),
                    )
                }
            });
            tokio::spawn(async move {
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    (url, questions)
}

/// Answers every question by this function.
pub fn answer_all(
    mut questions: mpsc::UnboundedReceiver<Question>,
    answer: impl Fn(&str, &Value) -> (u16, Value) + Send + 'static,
) -> Arc<parking_lot::Mutex<Vec<(String, Value)>>> {
    let asked = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let notes = asked.clone();
    tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            notes.lock().push((question.verb.clone(), question.body.clone()));
            let (code, body) = answer(&question.verb, &question.body);
            question.answer(code, body);
        }
    });
    asked
}
