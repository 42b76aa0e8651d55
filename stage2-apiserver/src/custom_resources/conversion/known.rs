//! Known: what a program made of objects, and what it is being asked right now.
//!
//! *Steps 1 and 6 of a custom object's journey.* Before: somebody wants objects in another version. After: the program was asked about
//! those that nobody knew.
//!
//! A thousand watchers of one object want one conversion at the same moment. The first asks; the others find its question and wait for
//! the same answer. A question is a future that whoever waits drives on: if the first one's client goes away, the others still get their
//! answer, and if all go away, the question ends and is asked anew by the next.
//!
//! Memory is bounded: what was made first is forgotten first. So nobody may rely on finding here a moment later what is here now;
//! whoever serves objects holds what was made of them ([`Prepared`]) until its answer is built.
//!
//! # Invariants
//! 1. What was made of an object is found only for exactly this object.
//! 2. What is held stays, whatever is forgotten or redefined meanwhile.
//! 3. No object's failure is another one's.
//!
//! # In Kubernetes
//! `customresource_handler.go` in `apiextensions-apiserver`: each served version has a storage, whose watch cache holds objects converted.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

/// What is kept of one definition's objects, by the length of their JSON.
const MAX_KNOWN_BYTES: usize = 32 * 1024 * 1024;
/// Objects that one question is about, at most: its answer is bounded, too.
pub const MAX_QUESTION_OBJECTS: usize = 256;
/// Their JSON, at most; an object that is longer is asked about by itself. Leaves room for the program to make it four times as long.
pub const MAX_QUESTION_BYTES: usize = 4 * 1024 * 1024;

/// What an object was, and the version that was asked for.
type Key = ([u8; 32], Arc<str>);
/// What was made of an object.
type Made = (Key, usize, Arc<Object>);
/// An answer: what was made, or why nothing was and of how many objects.
type Answer = Result<Arc<Vec<Made>>, (Status, usize)>;
/// A question that several wait for.
type Question = Shared<BoxFuture<'static, Answer>>;

/// An object that is wanted in another version.
pub struct Wanted<'a> {
    /// As it is.
    pub object: &'a Object,
    key: Key,
    bytes: usize,
}

impl<'a> Wanted<'a> {
    /// Of an object.
    pub fn new(object: &'a Object, desired: &Arc<str>) -> Self {
        let text = object.as_value().to_string();
        Wanted { object, key: (Sha256::digest(&text).into(), desired.clone()), bytes: text.len() }
    }
}

/// What was made of the objects that a request is about to serve or to store.
#[derive(Default)]
pub struct Prepared(HashMap<Key, Arc<Object>>);

impl Prepared {
    /// What was made of an object, if it was prepared.
    pub fn find(&self, object: &Object, desired: &str) -> Option<Arc<Object>> {
        if self.0.is_empty() || object.api_version() == desired {
            return None;
        }
        self.0.get(&Wanted::new(object, &Arc::from(desired)).key).cloned()
    }

    /// Holds what another holds, too.
    pub fn join(&mut self, other: Prepared) {
        self.0.extend(other.0);
    }

    fn hold(&mut self, made: &[Made]) {
        self.0.extend(made.iter().map(|(key, _, made)| (key.clone(), made.clone())));
    }
}

/// What is known of one definition's objects.
#[derive(Default)]
pub struct Known(Mutex<State>);

#[derive(Default)]
struct State {
    made: HashMap<Key, (usize, Arc<Object>)>,
    order: VecDeque<Key>,
    bytes: usize,
    asked: HashMap<Key, WeakShared<BoxFuture<'static, Answer>>>,
}

impl Known {
    /// Holds what is known; the rest of what is wanted is given back.
    pub fn hold<'a, 'b>(&self, wanted: &'b [Wanted<'a>], prepared: &mut Prepared) -> Vec<&'b Wanted<'a>> {
        let state = self.0.lock();
        let mut missing = Vec::new();
        for one in wanted {
            match state.made.get(&one.key) {
                Some((_, made)) => drop(prepared.0.insert(one.key.clone(), made.clone())),
                None => missing.push(one),
            }
        }
        missing
    }

    /// Holds what is made of some objects, at most [`MAX_QUESTION_OBJECTS`]: what is known, what somebody is asking for anyway, and
    /// what `ask` makes of the rest, in the same order.
    ///
    /// # Errors
    /// Those of `ask`.
    pub async fn learn(
        self: &Arc<Self>,
        wanted: &[&Wanted<'_>],
        prepared: &mut Prepared,
        ask: impl Fn(&[&Object]) -> BoxFuture<'static, Result<Vec<Object>, Status>>,
    ) -> Result<(), Status> {
        let (own, others) = self.questions(wanted, prepared, &ask);
        if let Some(own) = own {
            prepared.hold(&own.await.map_err(|(why, _)| why)?);
        }
        for other in others {
            match other.await {
                Ok(made) => prepared.hold(&made),
                // It was about the one object that is wanted here.
                Err((why, 1)) => return Err(why),
                Err(_) => {}
            }
        }
        // Somebody else's question failed, perhaps for another object's sake.
        let left: Vec<&Wanted<'_>> =
            wanted.iter().filter(|one| !prepared.0.contains_key(&one.key)).copied().collect();
        if !left.is_empty() {
            let question = self.question(&left, &ask);
            prepared.hold(&question.await.map_err(|(why, _)| why)?);
        }
        Ok(())
    }

    /// The question about what nobody asks yet, and those that others ask; both are decided at one moment.
    fn questions(
        self: &Arc<Self>,
        wanted: &[&Wanted<'_>],
        prepared: &mut Prepared,
        ask: &impl Fn(&[&Object]) -> BoxFuture<'static, Result<Vec<Object>, Status>>,
    ) -> (Option<Question>, Vec<Question>) {
        let (mut free, mut others): (Vec<&Wanted<'_>>, Vec<Question>) = Default::default();
        let mut state = self.0.lock();
        for one in wanted {
            if let Some((_, made)) = state.made.get(&one.key) {
                prepared.0.insert(one.key.clone(), made.clone());
            } else if let Some(asked) = state.asked.get(&one.key).and_then(WeakShared::upgrade) {
                if !others.iter().any(|other| other.ptr_eq(&asked)) {
                    others.push(asked);
                }
            } else {
                free.push(one);
            }
        }
        if free.is_empty() {
            return (None, others);
        }
        let own = self.question(&free, ask);
        for one in free {
            state.asked.extend(own.downgrade().map(|asked| (one.key.clone(), asked)));
        }
        (Some(own), others)
    }

    fn question(
        self: &Arc<Self>,
        wanted: &[&Wanted<'_>],
        ask: &impl Fn(&[&Object]) -> BoxFuture<'static, Result<Vec<Object>, Status>>,
    ) -> Question {
        let keys: Vec<(Key, usize)> = wanted.iter().map(|one| (one.key.clone(), one.bytes)).collect();
        let objects: Vec<&Object> = wanted.iter().map(|one| one.object).collect();
        let asking = Asking { known: self.clone(), keys };
        let answer = ask(&objects);
        let question = async move {
            let made = answer.await.map_err(|why| (why, asking.keys.len()))?;
            let keys = asking.keys.iter().cloned();
            let made = keys.zip(made).map(|((key, bytes), made)| (key, bytes, Arc::new(made))).collect();
            Ok(asking.known.keep(made))
        };
        question.boxed().shared()
    }

    /// Keeps what was made; what was kept first goes first.
    fn keep(&self, made: Vec<Made>) -> Arc<Vec<Made>> {
        let mut state = self.0.lock();
        for (key, bytes, object) in &made {
            if state.made.insert(key.clone(), (*bytes, object.clone())).is_none() {
                state.order.push_back(key.clone());
                state.bytes += bytes;
            }
        }
        while state.bytes > MAX_KNOWN_BYTES {
            let Some(oldest) = state.order.pop_front() else { break };
            let bytes = state.made.remove(&oldest).map_or(0, |(bytes, _)| bytes);
            state.bytes -= bytes;
        }
        Arc::new(made)
    }
}

/// While a question is asked; whether it is answered or given up, it isn't asked any more when this goes.
struct Asking {
    known: Arc<Known>,
    keys: Vec<(Key, usize)>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut state = self.known.0.lock();
        for (key, _) in &self.keys {
            state.asked.remove(key);
        }
    }
}

/// Objects, in questions that are neither about too many nor too long.
pub fn in_questions<'a, 'b>(mut wanted: &'b [&'b Wanted<'a>]) -> Vec<&'b [&'b Wanted<'a>]> {
    let mut questions = Vec::new();
    while !wanted.is_empty() {
        let mut bytes = 0;
        let fits = wanted.iter().take(MAX_QUESTION_OBJECTS).take_while(|one| {
            bytes += one.bytes;
            bytes <= MAX_QUESTION_BYTES
        });
        let (question, rest) = wanted.split_at(fits.count().max(1));
        questions.push(question);
        wanted = rest;
    }
    questions
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future;
    use serde_json::json;
    use tokio::sync::Semaphore;

    use super::*;

    fn object(name: &str, padding: usize) -> Object {
        let spec = json!({ "text": "x".repeat(padding) });
        Object::from_value(
            json!({ "apiVersion": "g/v1", "kind": "W", "metadata": { "name": name }, "spec": spec }),
        )
        .unwrap()
    }

    fn in_v2(objects: &[&Object]) -> Vec<Object> {
        let convert = |object: &&Object| {
            let mut value = object.as_value().clone();
            value["apiVersion"] = json!("g/v2");
            Object::from_value(value).unwrap()
        };
        objects.iter().map(convert).collect()
    }

    /// A program that answers when it may, refuses questions about several objects if it is `strict`, and counts.
    struct Program {
        may: Arc<Semaphore>,
        strict: bool,
        questions: AtomicUsize,
    }

    impl Program {
        fn new(may: usize, strict: bool) -> Self {
            Program { may: Arc::new(Semaphore::new(may)), strict, questions: AtomicUsize::new(0) }
        }

        fn ask(&self, objects: &[&Object]) -> BoxFuture<'static, Result<Vec<Object>, Status>> {
            self.questions.fetch_add(1, Ordering::SeqCst);
            let (made, may, refuses) = (in_v2(objects), self.may.clone(), self.strict && objects.len() > 1);
            let answer = async move {
                let _turn = may.acquire().await.unwrap();
                if refuses { Err(Status::bad_request("one of them is bad")) } else { Ok(made) }
            };
            answer.boxed()
        }
    }

    async fn learn(known: &Arc<Known>, program: &Program, objects: &[&Object]) -> Result<Prepared, Status> {
        let desired: Arc<str> = "g/v2".into();
        let wanted: Vec<Wanted<'_>> = objects.iter().map(|object| Wanted::new(object, &desired)).collect();
        let mut prepared = Prepared::default();
        let missing = known.hold(&wanted, &mut prepared);
        for question in in_questions(&missing) {
            known.learn(question, &mut prepared, |objects| program.ask(objects)).await?;
        }
        Ok(prepared)
    }

    #[tokio::test]
    async fn who_wants_the_same_at_once_asks_once() {
        let (known, program, a) = (Arc::new(Known::default()), Program::new(0, false), object("a", 0));
        let (one, two, ()) =
            future::join3(learn(&known, &program, &[&a]), learn(&known, &program, &[&a]), async {
                program.may.add_permits(9);
            })
            .await;
        assert_eq!(one.unwrap().find(&a, "g/v2").unwrap().api_version(), "g/v2");
        assert_eq!(two.unwrap().find(&a, "g/v2").unwrap().name(), "a");
        learn(&known, &program, &[&a]).await.unwrap();
        assert_eq!(program.questions.load(Ordering::SeqCst), 1);
        assert!(known.0.lock().asked.is_empty());
    }

    #[tokio::test]
    async fn a_question_that_was_given_up_is_asked_anew() {
        let (known, program, a) = (Arc::new(Known::default()), Program::new(0, false), object("a", 0));
        {
            let wanted = [&a];
            let given_up = learn(&known, &program, &wanted);
            tokio::pin!(given_up);
            assert!(futures::poll!(given_up.as_mut()).is_pending());
        }
        assert!(known.0.lock().asked.is_empty());
        program.may.add_permits(9);
        assert!(learn(&known, &program, &[&a]).await.unwrap().find(&a, "g/v2").is_some());
        assert_eq!(program.questions.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn no_objects_failure_is_anothers() {
        let (known, program) = (Arc::new(Known::default()), Program::new(0, true));
        let (a, b) = (object("a", 0), object("b", 0));
        let both = [&a, &b];
        let (list, get, ()) =
            future::join3(learn(&known, &program, &both), learn(&known, &program, &[&b]), async {
                program.may.add_permits(9);
            })
            .await;
        assert!(list.is_err());
        assert!(get.unwrap().find(&b, "g/v2").is_some());
    }

    #[tokio::test]
    async fn what_is_held_stays_when_it_is_forgotten() {
        let (known, program) = (Arc::new(Known::default()), Program::new(9, false));
        let objects: Vec<Object> = (0..70).map(|at| object(&format!("o{at}"), 512 * 1024)).collect();
        let all: Vec<&Object> = objects.iter().collect();
        let prepared = learn(&known, &program, &all).await.unwrap();
        assert!(all.iter().all(|object| prepared.find(object, "g/v2").is_some()));
        let state = known.0.lock();
        assert!(state.bytes <= MAX_KNOWN_BYTES && state.made.len() < 70, "{}", state.made.len());
        assert_eq!(state.made.len(), state.order.len());
        // Of 4 MiB seven such objects fit.
        assert_eq!(program.questions.load(Ordering::SeqCst), 10);
    }

    #[test]
    fn a_question_is_about_256_objects_at_most() {
        let desired: Arc<str> = "g/v2".into();
        let (small, large) = (object("a", 0), object("b", MAX_QUESTION_BYTES));
        let small = Wanted::new(&small, &desired);
        let large = Wanted::new(&large, &desired);
        let mut wanted = vec![&small; 300];
        wanted.push(&large);
        let sizes: Vec<usize> = in_questions(&wanted).iter().map(|question| question.len()).collect();
        assert_eq!(sizes, [256, 44, 1]);
    }
}
