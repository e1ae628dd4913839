//! Long operations that an operator started: what runs, what ran, and how it ended
//! (admin-ops-2.md 20).
//!
//! ```text
//! start ─▶ pending ─▶ running ─▶ succeeded | failed      kept 6 h after the end, then forgotten
//!            └ at most PARALLEL run at once
//! ```
//!
//! In memory only: a restart forgets them, as the contract says. A start whose dedupe key belongs to
//! a task that has not ended gives that task. What has not ended is never dropped; of what has, the
//! newest [`MAX_ENDED`] stay. Each start and end is told to the listener, which writes an event; the
//! end before the task shows it, so that who sees a task ended finds its event.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::crew::{Crew, contain, lock};
use crate::time::{self, Millis};

/// How long an ended task can be read.
const KEPT: Duration = Duration::from_secs(6 * 3600);
/// How many ended tasks can be read.
const MAX_ENDED: usize = 1000;
/// Lines kept of each task's log.
const MAX_LOG: usize = 200;
/// How many tasks run at once; the others wait as `pending`.
const PARALLEL: usize = 8;

/// The registry and runner of tasks. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Tasks {
    inner: Arc<Inner>,
}

struct Inner {
    crew: Arc<Crew>,
    /// Newest last.
    tasks: Mutex<VecDeque<Entry>>,
    slots: Semaphore,
    listener: Listener,
}

type Listener = Box<dyn Fn(Notice) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

struct Entry {
    task: Task,
    /// The retention counts from here.
    ended: Option<Instant>,
}

/// What a start asks for.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The task's type as the contract names it (`route`, `model`, …).
    pub kind: &'static str,
    pub title: String,
    /// While a task with this key has not ended, another start gives that task.
    pub dedupe_key: Option<String>,
}

/// How the work of a task ended.
pub type Outcome = Result<Done, String>;

/// A task that succeeded: a line for people and the result for programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    pub message: String,
    pub result: Value,
}

/// What a start gives: a new task, or the one that runs already.
#[derive(Debug, Clone)]
pub struct Started {
    pub id: String,
    pub reused: bool,
    pub status: Status,
    pub message: String,
}

/// The states of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// A task as `/api/tasks` shows it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub title: String,
    pub status: Status,
    pub message: String,
    pub error: Option<String>,
    pub result: Option<Value>,
    pub dedupe_key: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
    /// When the task is forgotten; moves on as long as it has not ended.
    pub expires_at_ms: Millis,
    pub logs: VecDeque<LogLine>,
}

/// One line of a task's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// Counts from 1; early lines of a long log are dropped.
    pub seq: u64,
    pub message: String,
    pub created_at: String,
}

/// A start or an end, for the event list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub title: String,
    pub message: String,
    pub failed: bool,
}

/// The running work's way to say how far it is.
#[derive(Clone)]
pub struct Progress {
    inner: Arc<Inner>,
    id: String,
}

impl Tasks {
    /// An empty registry whose work runs on `crew`. `listener` hears of each start and end.
    pub fn new<F>(crew: Arc<Crew>, listener: impl Fn(Notice) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self {
            inner: Arc::new(Inner {
                crew,
                tasks: Mutex::default(),
                slots: Semaphore::new(PARALLEL),
                listener: Box::new(move |notice| Box::pin(listener(notice))),
            }),
        }
    }

    /// Starts `work` in the background, or gives the unended task with the same dedupe key.
    pub fn start<F>(&self, spec: Spec, work: impl FnOnce(Progress) -> F) -> Started
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let mut tasks = lock(&self.inner.tasks);
        sweep(&mut tasks);
        if let Some(key) = &spec.dedupe_key
            && let Some(entry) = tasks
                .iter()
                .find(|entry| entry.ended.is_none() && entry.task.dedupe_key.as_ref() == Some(key))
        {
            return Started::of(&entry.task, true);
        }
        let task = Task::pending(spec);
        let started = Started::of(&task, false);
        let (id, title) = (task.id.clone(), task.title.clone());
        tasks.push_back(Entry { task, ended: None });
        drop(tasks);

        let progress = Progress { inner: self.inner.clone(), id };
        let work = work(progress.clone());
        let run = progress.clone();
        let supervised = async move {
            let outcome = run.conduct(&title, work).await;
            run.inner.tell(Notice::of_end(&title, &outcome)).await;
            run.finish(outcome);
        };
        if !self.inner.crew.spawn("a background task", supervised) {
            progress.finish(Err("the service is stopping".to_owned()));
        }
        started
    }

    /// The newest `limit` tasks, newest first.
    pub fn list(&self, limit: usize) -> Vec<Task> {
        let mut tasks = lock(&self.inner.tasks);
        sweep(&mut tasks);
        tasks.iter().rev().take(limit).map(Entry::shown).collect()
    }

    /// One task, unless it is unknown or forgotten.
    pub fn get(&self, id: &str) -> Option<Task> {
        let mut tasks = lock(&self.inner.tasks);
        sweep(&mut tasks);
        tasks.iter().find(|entry| entry.task.id == id).map(Entry::shown)
    }
}

impl Progress {
    /// Adds a line to the task's log and shows it as its message.
    pub fn log(&self, message: impl Into<String>) {
        self.change(|entry, now| entry.task.say(message.into(), now));
    }

    async fn conduct(&self, title: &str, work: impl Future<Output = Outcome>) -> Outcome {
        self.inner.tell(Notice::of_start(title)).await;
        let _slot = self.inner.slots.acquire().await;
        self.change(|entry, now| {
            entry.task.status = Status::Running;
            entry.task.started_at = Some(now.to_owned());
        });
        contain(work).await.unwrap_or_else(|panic| {
            log::error!("task \"{title}\" panicked: {panic}");
            Err("internal error; the service log has the details".to_owned())
        })
    }

    fn finish(&self, outcome: Outcome) {
        self.change(|entry, now| {
            let task = &mut entry.task;
            entry.ended = Some(Instant::now());
            task.finished_at = Some(now.to_owned());
            task.expires_at_ms = expiry();
            task.say(end_message(&task.title, &outcome), now);
            match outcome {
                Ok(done) => {
                    task.status = Status::Succeeded;
                    task.result = Some(done.result);
                }
                Err(error) => {
                    task.status = Status::Failed;
                    task.error = Some(error);
                }
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Entry, &str)) {
        let now = time::iso(time::now_ms());
        let mut tasks = lock(&self.inner.tasks);
        if let Some(entry) = tasks.iter_mut().find(|entry| entry.task.id == self.id) {
            change(entry, &now);
            entry.task.updated_at = now;
        }
    }
}

impl Inner {
    async fn tell(&self, notice: Notice) {
        (self.listener)(notice).await;
    }
}

impl Notice {
    fn of_start(title: &str) -> Self {
        Self { title: title.to_owned(), message: format!("{title} started"), failed: false }
    }

    fn of_end(title: &str, outcome: &Outcome) -> Self {
        Self { title: title.to_owned(), message: end_message(title, outcome), failed: outcome.is_err() }
    }
}

fn end_message(title: &str, outcome: &Outcome) -> String {
    match outcome {
        Ok(done) => done.message.clone(),
        Err(error) => format!("{title} failed: {error}"),
    }
}

impl Entry {
    fn shown(&self) -> Task {
        let mut task = self.task.clone();
        if self.ended.is_none() {
            task.expires_at_ms = expiry();
        }
        task
    }
}

impl Task {
    fn pending(spec: Spec) -> Self {
        let now = time::iso(time::now_ms());
        let mut task = Self {
            id: uuid(),
            kind: spec.kind,
            message: String::new(),
            title: spec.title,
            status: Status::Pending,
            error: None,
            result: None,
            dedupe_key: spec.dedupe_key,
            created_at: now.clone(),
            updated_at: now.clone(),
            started_at: None,
            finished_at: None,
            expires_at_ms: expiry(),
            logs: VecDeque::new(),
        };
        task.say(format!("{} queued", task.title), &now);
        task
    }

    fn say(&mut self, message: String, now: &str) {
        if self.logs.len() == MAX_LOG {
            self.logs.pop_front();
        }
        let seq = self.logs.back().map_or(1, |line| line.seq + 1);
        self.logs.push_back(LogLine { seq, message: message.clone(), created_at: now.to_owned() });
        self.message = message;
    }
}

impl Started {
    fn of(task: &Task, reused: bool) -> Self {
        Self { id: task.id.clone(), reused, status: task.status, message: task.message.clone() }
    }
}

/// Forgets tasks that ended too long ago, then the oldest ended ones beyond the bound.
fn sweep(tasks: &mut VecDeque<Entry>) {
    tasks.retain(|entry| entry.ended.is_none_or(|ended| ended.elapsed() < KEPT));
    let ended = tasks.iter().filter(|entry| entry.ended.is_some()).count();
    let mut surplus = ended.saturating_sub(MAX_ENDED);
    tasks.retain(|entry| {
        let dropped = surplus > 0 && entry.ended.is_some();
        surplus -= usize::from(dropped);
        !dropped
    });
}

fn expiry() -> Millis {
    let kept = Millis::try_from(KEPT.as_millis()).unwrap_or(Millis::MAX);
    time::now_ms().saturating_add(kept)
}

/// A random UUID (RFC 9562, version 4).
fn uuid() -> String {
    let mut bytes: [u8; 16] = ring::rand::generate(&ring::rand::SystemRandom::new())
        .expect("the operating system gives random bytes")
        .expose();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::{mpsc, oneshot};
    use tokio::time::advance;

    use super::*;

    fn spec(title: &str, dedupe_key: Option<&str>) -> Spec {
        Spec { kind: "route", title: title.to_owned(), dedupe_key: dedupe_key.map(str::to_owned) }
    }

    /// A registry and the notices it gave.
    fn tasks() -> (Tasks, mpsc::UnboundedReceiver<Notice>) {
        let (tell, notices) = mpsc::unbounded_channel();
        let tasks = Tasks::new(Arc::new(Crew::default()), move |notice| {
            tell.send(notice).ok();
            std::future::ready(())
        });
        (tasks, notices)
    }

    /// Waits for the notice of the end of a task, and for the task to show it.
    async fn ended(notices: &mut mpsc::UnboundedReceiver<Notice>) -> Notice {
        loop {
            let notice = notices.recv().await.expect("the registry lives");
            if !notice.message.ends_with(" started") {
                tokio::task::yield_now().await;
                return notice;
            }
        }
    }

    #[tokio::test]
    async fn a_task_goes_from_pending_to_succeeded_and_keeps_its_result() {
        let (tasks, mut notices) = tasks();
        let started = tasks.start(spec("Sync", None), |progress| async move {
            progress.log("half way");
            Ok(Done { message: "synced".to_owned(), result: json!({"models": 2}) })
        });
        assert_eq!((started.reused, started.status), (false, Status::Pending));
        assert!(!ended(&mut notices).await.failed);
        let task = tasks.get(&started.id).expect("the task is kept");
        assert_eq!(task.status, Status::Succeeded);
        assert_eq!((task.message.as_str(), task.result), ("synced", Some(json!({"models": 2}))));
        assert!(task.started_at.is_some() && task.finished_at.is_some());
        let lines: Vec<_> = task.logs.iter().map(|line| (line.seq, line.message.as_str())).collect();
        assert_eq!(lines, [(1, "Sync queued"), (2, "half way"), (3, "synced")]);
    }

    #[tokio::test]
    async fn an_error_and_a_panic_both_end_as_failed() {
        let (tasks, mut notices) = tasks();
        let refused = tasks.start(spec("Sync", None), |_| async { Err("no route".to_owned()) });
        let notice = ended(&mut notices).await;
        assert_eq!((notice.failed, notice.message.as_str()), (true, "Sync failed: no route"));
        assert_eq!(tasks.get(&refused.id).expect("kept").error.as_deref(), Some("no route"));

        let broken = tasks.start(spec("Sync", None), |_| async { panic!("secret detail") });
        assert!(ended(&mut notices).await.failed);
        let task = tasks.get(&broken.id).expect("kept");
        assert_eq!(task.status, Status::Failed);
        assert!(!task.message.contains("secret detail"));
    }

    #[tokio::test]
    async fn a_start_with_the_key_of_an_unended_task_gives_that_task() {
        let (tasks, mut notices) = tasks();
        let (release, released) = oneshot::channel::<()>();
        let first = tasks.start(spec("One", Some("key")), |_| async move {
            released.await.ok();
            Err("released".to_owned())
        });
        let again = tasks.start(spec("Other title", Some("key")), |_| async { panic!("must not run") });
        assert_eq!((again.reused, &again.id), (true, &first.id));
        let other = tasks.start(spec("Two", Some("other")), |_| async { Err("ends".to_owned()) });
        assert!(!other.reused);
        ended(&mut notices).await;
        release.send(()).expect("the task waits");
        ended(&mut notices).await;
        assert!(!tasks.start(spec("One", Some("key")), |_| async { Err(String::new()) }).reused);
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_are_forgotten_six_hours_after_their_end_but_never_while_they_run() {
        let (tasks, mut notices) = tasks();
        let (release, released) = oneshot::channel::<()>();
        let long = tasks.start(spec("Long", None), |_| async move {
            released.await.ok();
            Err("ended late".to_owned())
        });
        let short = tasks.start(spec("Short", None), |_| async { Err("ended early".to_owned()) });
        ended(&mut notices).await;
        advance(KEPT - Duration::from_secs(1)).await;
        assert!(tasks.get(&short.id).is_some());
        advance(Duration::from_secs(1)).await;
        assert!(tasks.get(&short.id).is_none());
        assert_eq!(tasks.get(&long.id).expect("it runs").status, Status::Running);
        release.send(()).expect("the task waits");
        ended(&mut notices).await;
        advance(KEPT - Duration::from_secs(1)).await;
        assert!(tasks.get(&long.id).is_some());
    }

    #[tokio::test]
    async fn the_log_and_the_registry_are_bounded() {
        let (tasks, mut notices) = tasks();
        let wordy = tasks.start(spec("Wordy", None), |progress| async move {
            (0..500).for_each(|line| progress.log(format!("line {line}")));
            Err("done".to_owned())
        });
        ended(&mut notices).await;
        let logs = tasks.get(&wordy.id).expect("kept").logs;
        assert_eq!(logs.len(), MAX_LOG);
        assert_eq!(logs.back().map(|line| line.seq), Some(502));

        for _ in 0..MAX_ENDED {
            tasks.start(spec("Small", None), |_| async { Err(String::new()) });
            ended(&mut notices).await;
        }
        assert_eq!(tasks.list(usize::MAX).len(), MAX_ENDED);
        assert!(tasks.get(&wordy.id).is_none());
    }

    #[tokio::test]
    async fn lists_are_newest_first_and_limited() {
        let (tasks, _notices) = tasks();
        for title in ["a", "b", "c"] {
            tasks.start(spec(title, None), |_| async { Err(String::new()) });
        }
        let titles: Vec<_> = tasks.list(2).into_iter().map(|task| task.title).collect();
        assert_eq!(titles, ["c", "b"]);
    }

    #[test]
    fn ids_are_version_4_uuids() {
        let id = uuid();
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"));
        assert_ne!(id, uuid());
    }
}
