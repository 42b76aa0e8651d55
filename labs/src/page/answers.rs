//! Answers: what each address gives.
//!
//! *All six steps of a pod's journey, shown.* Before: [`super::guard`] let a request in and [`super::route`] read it. After: the browser
//! has a page, a value, or a stream of steps.
//!
//! # Invariants
//! 1. Every answer forbids scripts, frames and connections from elsewhere (Content-Security-Policy), and is never cached.
//! 2. A refusal is a sentence.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use stage1_kubectl::journey::Step;
use stage1_kubectl::state_dir::StateDir;
use tokio::sync::{Mutex, broadcast};

use super::desk::{self, Deed};
use super::files::Repository;
use super::frame::{self, STATIC};
use super::journal::{Journal, first_choice};
use super::route::Route;
use super::{files, lanes, markdown};
use crate::lab::grade::Ruling;
use crate::texts::Texts;

/// A body: whole, or a stream.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;
/// An answer.
pub type Answer = Response<Body>;

/// Steps that wait for a slow reader; one who falls further behind asks again.
const WAITING_STEPS: usize = 1024;
/// A sign of life for a stream that has nothing to say.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// What a page may load: our own files; nothing inline but the empty icon.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// What the server knows.
pub struct Book {
    repository: Repository,
    state_dir: StateDir,
    texts: Texts,
    journal: RwLock<Journal>,
    recording: Journal,
    /// Whether a recording is all there is.
    replay_only: bool,
    news: broadcast::Sender<Arc<Step>>,
    at_work: Arc<Mutex<()>>,
}

impl Book {
    /// With these files, this state directory and this recording.
    #[must_use]
    pub fn new(repository: Repository, state_dir: StateDir, recording: Journal, replay_only: bool) -> Self {
        Self {
            repository,
            state_dir,
            texts: frame::english(),
            journal: RwLock::default(),
            recording,
            replay_only,
            news: broadcast::channel(WAITING_STEPS).0,
            at_work: Arc::default(),
        }
    }

    /// Takes in steps that have just happened, and tells every open page.
    pub fn take(&self, steps: Vec<Step>) {
        for step in steps {
            self.journal.write().expect("nobody panics with the journal in hand").push(step.clone());
            // Nobody may be listening.
            let _ = self.news.send(Arc::new(step));
        }
    }

    fn journal(&self) -> std::sync::RwLockReadGuard<'_, Journal> {
        self.journal.read().expect("nobody panics with the journal in hand")
    }

    /// Answers a request that was let in.
    pub async fn answer(self: &Arc<Self>, route: Route, body: Bytes, seed: u64) -> Answer {
        match route {
            Route::Home => self.home(),
            Route::Page(page) => self.page(&page),
            Route::Picture(path) => self.picture(&path),
            Route::Static(name) => statics(&name).unwrap_or_else(|| self.nothing()),
            Route::Objects { since } => self.objects(since),
            Route::Journey { object, until: Some(count) } => {
                value(&json!(lanes::journey(&self.recording.first(count), &object)))
            }
            Route::Journey { object, until: None } => value(&json!(lanes::journey(&self.journal(), &object))),
            Route::Recording => self.recorded(),
            Route::Events => self.events(),
            Route::Source(at) => self.source(&at),
            Route::Labs => match desk::look(&self.state_dir) {
                Ok(labs) => value(&labs),
                Err(error) => failed(&error),
            },
            Route::Do(name) => self.act(&name, &body, seed).await,
            Route::WrongMethod => self.refuse(StatusCode::METHOD_NOT_ALLOWED, "refused.method"),
            Route::Nothing => self.nothing(),
        }
    }

    /// A refusal, in words.
    #[must_use]
    pub fn refuse(&self, status: StatusCode, key: &str) -> Answer {
        whole(status, "text/html; charset=utf-8", frame::refusal(&self.texts, key))
    }

    fn nothing(&self) -> Answer {
        self.refuse(StatusCode::NOT_FOUND, "refused.nothing")
    }

    fn summary(&self) -> Vec<markdown::Entry> {
        let summary = self.repository.book("SUMMARY.md").unwrap_or_default();
        markdown::contents(&String::from_utf8_lossy(&summary))
    }

    fn home(&self) -> Answer {
        match self.summary().iter().find_map(|entry| entry.page.clone()) {
            Some(page) => see_other(&format!("/book/{page}.html")),
            None => self.nothing(),
        }
    }

    fn page(&self, page: &str) -> Answer {
        let path = format!("{page}.md");
        let Some(text) = self.repository.book(&path).and_then(|bytes| String::from_utf8(bytes).ok()) else {
            return self.nothing();
        };
        let path = Path::new("book/src").join(path);
        let text = crate::book::expand(&path, &text, &|include| self.repository.include(include));
        let (html, title) = markdown::render(&text);
        let whole_page = frame::page(&self.texts, &self.summary(), page, &title, &html);
        whole(StatusCode::OK, "text/html; charset=utf-8", whole_page)
    }

    fn picture(&self, path: &str) -> Answer {
        let kind = match path.rsplit_once('.') {
            Some((_, "svg")) => "image/svg+xml",
            Some((_, "jpg")) => "image/jpeg",
            _ => "image/png",
        };
        self.repository.book(path).map_or_else(|| self.nothing(), |bytes| whole(StatusCode::OK, kind, bytes))
    }

    /// The list of objects; whoever has this version of it already gets the version only.
    fn objects(&self, since: Option<u64>) -> Answer {
        let journal = self.journal();
        let journal = if self.replay_only { &self.recording } else { &*journal };
        let version = journal.version();
        if since == Some(version) {
            return value(&json!({"version": version}));
        }
        let listed = journal.listed();
        let choice = first_choice(&listed).map(|one| one.object.clone());
        value(&json!({"version": version, "objects": listed, "choice": choice, "replay": self.replay_only}))
    }

    /// When its steps happened and whom they are about; the newest pod of them is what a replay shows.
    fn recorded(&self) -> Answer {
        let steps: Vec<Value> = self
            .recording
            .steps()
            .map(|step| json!({"object": step.object, "at_micros": step.at_micros, "stage": step.stage}))
            .collect();
        let listed = self.recording.listed();
        let choice = first_choice(&listed).map(|one| one.object.clone());
        value(&json!({"steps": steps, "objects": listed, "choice": choice}))
    }

    fn source(&self, at: &str) -> Answer {
        let excerpt = self.repository.excerpt(at);
        let pages: Vec<(String, String)> = self
            .summary()
            .into_iter()
            .filter_map(|entry| {
                let page = entry.page?;
                let text = String::from_utf8(self.repository.book(&format!("{page}.md"))?).ok()?;
                Some((page, text))
            })
            .collect();
        let chapter = files::place(at).and_then(|(path, _)| markdown::chapter(&pages, path));
        match (&excerpt, chapter) {
            (None, None) => self.nothing(),
            _ => value(
                &json!({"excerpt": excerpt, "chapter": chapter.map(|page| format!("/book/{page}.html"))}),
            ),
        }
    }

    /// Steps as they happen; a reader who missed some is told to ask for all.
    fn events(&self) -> Answer {
        let hello =
            stream::iter([Ok(Frame::data(Bytes::from_static(b"retry: 1000\nevent: hello\ndata: {}\n\n")))]);
        let news = stream::unfold(self.news.subscribe(), |mut news| async move {
            let text = match tokio::time::timeout(HEARTBEAT, news.recv()).await {
                Err(_) => ": alive\n\n".to_owned(),
                Ok(Ok(step)) => format!("event: step\ndata: {}\n\n", json!(*step)),
                Ok(Err(broadcast::error::RecvError::Lagged(_))) => "event: again\ndata: {}\n\n".to_owned(),
                Ok(Err(broadcast::error::RecvError::Closed)) => return None,
            };
            Some((Ok(Frame::data(Bytes::from(text))), news))
        });
        let body = StreamBody::new(futures::StreamExt::chain(hello, news)).boxed_unsync();
        answer(StatusCode::OK, "text/event-stream", body)
    }

    async fn act(self: &Arc<Self>, name: &str, body: &[u8], seed: u64) -> Answer {
        let Some(deed) = desk::deed(name, body) else {
            return self.said(StatusCode::BAD_REQUEST, "refused.body");
        };
        let Ok(turn) = self.at_work.clone().try_lock_owned() else {
            return self.said(StatusCode::CONFLICT, "refused.busy");
        };
        let book = self.clone();
        // The turn ends with the deed, even when the browser has gone away meanwhile.
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            book.do_it(&deed, seed)
        });
        let done = done.await;
        match done {
            Ok(Ok(done)) => value(&done),
            Ok(Err(error)) => failed(&error),
            Err(error) => failed(&error.into()),
        }
    }

    fn do_it(&self, deed: &Deed, seed: u64) -> anyhow::Result<Value> {
        desk::act(&self.state_dir, deed, seed)
    }

    fn said(&self, status: StatusCode, key: &str) -> Answer {
        whole(status, "application/json", json!({"error": self.texts.of(key)}).to_string())
    }
}

/// An answer with the headers that all have.
fn answer(status: StatusCode, kind: &'static str, body: Body) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, http::HeaderValue::from_static(value));
    }
    response
}

fn whole(status: StatusCode, kind: &'static str, bytes: impl Into<Bytes>) -> Answer {
    answer(status, kind, Full::new(bytes.into()).boxed_unsync())
}

fn value(value: &Value) -> Answer {
    whole(StatusCode::OK, "application/json", value.to_string())
}

/// What went wrong, in the words of whoever found it; with the verdict, where there is one.
fn failed(error: &anyhow::Error) -> Answer {
    let said = match error.downcast_ref::<Ruling>() {
        Some(ruling) => json!({"error": ruling.text, "verdict": ruling.verdict}),
        None => json!({"error": format!("{error:#}")}),
    };
    whole(StatusCode::UNPROCESSABLE_ENTITY, "application/json", said.to_string())
}

/// Another address to look at.
#[must_use]
pub fn see_other(path: &str) -> Answer {
    let mut response = whole(StatusCode::SEE_OTHER, "text/plain", Bytes::new());
    if let Ok(path) = path.parse() {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}

fn statics(name: &str) -> Option<Answer> {
    let (_, kind, text) = STATIC.iter().find(|(known, ..)| *known == name)?;
    Some(whole(StatusCode::OK, kind, *text))
}
