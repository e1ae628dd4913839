//! Long operations that an operator started: those that run, those that have ended, and how they ended.
//!
//! ```text
//! start ─▶ pending ─▶ running ─▶ succeeded | failed      kept 6 h after the end, then forgotten
//!            └ at most PARALLEL run at once
//! ```
//!
//! Tasks are in memory only: a restart forgets them. Starting a task whose dedupe key belongs to an unfinished one returns
//! that one. A reset stops all unfinished tasks; so does the stop of the service, after waiting a while. Of the ended tasks
//! the newest stay, up to [`MAX_ENDED`]; of their results, as many as [`MAX_RESULTS`] allows. The listener writes an event
//! for each start and each end. It hears of the end before the task shows it: whoever sees that a task has ended finds the
//! event.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::background::{Background, BoxedWork, catch_panic};
use crate::sync::lock;
use crate::time::{self, Millis, millis};
use crate::uuid;

/// The time for which an ended task can be read.
const KEPT: Duration = Duration::from_secs(6 * 3600);
/// The number of ended tasks that can be read.
const MAX_ENDED: usize = 1000;
/// The bytes that the results of ended tasks have as JSON, beside that of the last one; in memory they take some five times
/// as much.
const MAX_RESULTS: usize = 4 << 20;
/// The longest wait for a task to be stopped: it stops where it next waits for something.
const STOP: Duration = Duration::from_secs(5);
/// The error of a task that the stop of the service keeps from running.
const STOPPING: &str = "the service is stopping";
/// The number of lines kept of each task's log.
const MAX_LOG: usize = 200;
/// The number of tasks that run at once; the others wait as `pending`.
const PARALLEL: usize = 8;

/// The registry and runner of tasks. Cheap to clone; all clones share the same tasks.
#[derive(Clone)]
pub struct Tasks {
    inner: Arc<Inner>,
}

struct Inner {
    background: Arc<Background>,
    /// The tasks, newest last.
    tasks: Mutex<VecDeque<Entry>>,
    slots: Semaphore,
    listener: Listener,
}

type Listener = Box<dyn Fn(TaskReport) -> BoxedWork<()> + Send + Sync>;

struct Entry {
    task: Task,
    /// When the task ended; its retention counts from here.
    ended: Option<Instant>,
    /// The length of its result as JSON.
    result_bytes: usize,
    /// The running work; `None` once it has ended.
    running: Option<Running>,
}

/// The work of a task that has not ended.
struct Running {
    /// Dropping it stops the work.
    stop: oneshot::Sender<()>,
    /// Resolves once the work is gone.
    gone: oneshot::Receiver<()>,
}

/// The description of a task to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The task's type in answers (`route`, `model`, …).
    pub kind: &'static str,
    pub title: String,
    /// While a task with this key has not ended, another start returns that task.
    pub dedupe_key: Option<String>,
    pub events: TaskEvents,
}

/// What the operator is told of a task's start and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEvents {
    /// They are events; a failure is sent, too.
    Sent,
    /// They are events; a failure is not sent, because the result lists what failed.
    NotSent,
    /// Nothing: whoever started the task waits for its answer.
    None,
}

/// The outcome of a task's work.
pub type Outcome = Result<Done, String>;

/// A task that succeeded: a line for people and the result for programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    pub message: String,
    pub result: Value,
}

/// The result of a start: a new task, or the one that runs already.
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

impl Status {
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
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
    /// When the task is forgotten, in milliseconds since 1970; moves on as long as the task has not ended.
    pub expires_at_ms: Millis,
    pub logs: VecDeque<LogLine>,
}

/// One line of a task's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// The number of the line, from 1; early lines of a long log are dropped.
    pub seq: u64,
    pub message: String,
    pub created_at: String,
}

/// The report of a task's start or end, for the event list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReport {
    pub events: TaskEvents,
    pub title: String,
    pub message: String,
    pub failed: bool,
}

/// Reports the progress of the running work.
#[derive(Clone)]
pub struct TaskProgress {
    inner: Arc<Inner>,
    id: String,
}

impl Tasks {
    /// Creates an empty registry whose work runs in `background`. `listener` is called at each start and end.
    pub fn new<F>(
        background: Arc<Background>,
        listener: impl Fn(TaskReport) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self {
            inner: Arc::new(Inner {
                background,
                tasks: Mutex::default(),
                slots: Semaphore::new(PARALLEL),
                listener: Box::new(move |report| Box::pin(listener(report))),
            }),
        }
    }

    /// Starts `work` in the background, or returns the unended task with the same dedupe key.
    pub fn start<F>(&self, spec: Spec, work: impl FnOnce(TaskProgress) -> F) -> Started
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let mut tasks = lock(&self.inner.tasks);
        sweep(&mut tasks);
        if let Some(key) = &spec.dedupe_key
            && let Some(entry) = unended(&tasks, key)
        {
            return Started::reused(&entry.task);
        }
        let events = spec.events;
        let task = Task::pending(spec);
        let started = Started::anew(&task);
        let (id, title) = (task.id.clone(), task.title.clone());
        let (stop, stopped) = oneshot::channel();
        let (at_work, gone) = oneshot::channel::<()>();
        tasks.push_back(Entry { task, ended: None, result_bytes: 0, running: Some(Running { stop, gone }) });
        drop(tasks);

        let progress = TaskProgress { inner: self.inner.clone(), id };
        // Boxed, because each step that it is handed through would otherwise have room for it twice.
        let work = Box::pin(work(progress.clone()));
        let run = progress.clone();
        let supervised = async move {
            let _at_work = at_work;
            let work = async {
                let outcome = run.run_in_slot(events, &title, work).await;
                run.inner.notify(TaskReport::of_end(events, &title, &outcome)).await;
                run.finish(outcome);
            };
            tokio::select! {
                () = work => {}
                _ = stopped => {}
            }
        };
        if !self.inner.background.spawn("a background task", supervised) {
            progress.finish(Err(STOPPING.to_owned()));
        }
        started
    }

    /// Returns the task with this dedupe key that has not ended.
    pub fn running(&self, dedupe_key: &str) -> Option<Started> {
        let tasks = lock(&self.inner.tasks);
        unended(&tasks, dedupe_key).map(|entry| Started::reused(&entry.task))
    }

    /// Begins no further task and waits for those that run; at the deadline, stops them.
    pub async fn finish(&self, deadline: Instant) {
        self.inner.slots.close();
        let take = |entry: &mut Entry| Some((entry.task.title.clone(), entry.running.take()?));
        let running: Vec<_> = lock(&self.inner.tasks).iter_mut().filter_map(take).collect();
        for (title, Running { stop, gone }) in running {
            if timeout_at(deadline, gone).await.is_err() {
                log::warn!("task \"{title}\" was stopped before its end");
            }
            drop(stop);
        }
    }

    /// Stops and forgets every task. Their ends are not reported, and once this returns they change nothing more.
    pub async fn stop_all(&self) {
        let entries = std::mem::take(&mut *lock(&self.inner.tasks)).into_iter();
        let running = entries.filter_map(|entry| Some((entry.task.title, entry.running?)));
        let (stops, mut ends): (Vec<_>, Vec<_>) =
            running.map(|(title, work)| (work.stop, (title, work.gone))).unzip();
        drop(stops);
        let all_gone = async {
            for (_, end) in &mut ends {
                // The work has dropped the other side.
                let _ = end.await;
            }
        };
        if timeout(STOP, all_gone).await.is_err() {
            let still_running = |end: &mut oneshot::Receiver<()>| end.try_recv() == Err(TryRecvError::Empty);
            let titles =
                ends.iter_mut().filter_map(|(title, end)| still_running(end).then_some(title.as_str()));
            let titles = titles.collect::<Vec<_>>().join(", ");
            log::warn!("tasks could not be stopped within {} s: {titles}", STOP.as_secs());
        }
    }

    /// Returns the newest `limit` tasks, newest first.
    pub fn list(&self, limit: usize) -> Vec<Task> {
        let mut tasks = lock(&self.inner.tasks);
        sweep(&mut tasks);
        tasks.iter().rev().take(limit).map(Entry::view).collect()
    }

    /// Returns one task, unless it is unknown or forgotten.
    pub fn get(&self, id: &str) -> Option<Task> {
        let mut tasks = lock(&self.inner.tasks);
        sweep(&mut tasks);
        tasks.iter().find(|entry| entry.task.id == id).map(Entry::view)
    }
}

impl TaskProgress {
    /// Adds a line to the task's log and shows it as its message.
    pub fn log(&self, message: impl Into<String>) {
        self.change(|entry, now| entry.task.log(message.into(), now));
    }

    /// Shows a line as the task's message, in place of the last one; the log stays as it is.
    pub fn show(&self, message: impl Into<String>) {
        self.change(|entry, _| entry.task.message = message.into());
    }

    async fn run_in_slot(
        &self,
        events: TaskEvents,
        title: &str,
        work: impl Future<Output = Outcome>,
    ) -> Outcome {
        let Ok(_slot) = self.inner.slots.acquire().await else { return Err(STOPPING.to_owned()) };
        self.change(|entry, now| {
            entry.task.status = Status::Running;
            entry.task.started_at = Some(now.to_owned());
        });
        self.inner.notify(TaskReport::of_start(events, title)).await;
        catch_panic(work).await.unwrap_or_else(|panic| {
            log::error!("task \"{title}\" panicked: {panic}");
            Err("internal error; the service log has the details".to_owned())
        })
    }

    fn finish(&self, outcome: Outcome) {
        let result_bytes = outcome.as_ref().map_or(0, |done| done.result.to_string().len());
        self.change(|entry, now| {
            let task = &mut entry.task;
            entry.ended = Some(Instant::now());
            entry.result_bytes = result_bytes;
            entry.running = None;
            task.finished_at = Some(now.to_owned());
            task.expires_at_ms = expiry();
            task.log(end_message(&task.title, &outcome), now);
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
    async fn notify(&self, report: TaskReport) {
        (self.listener)(report).await;
    }
}

impl TaskReport {
    fn of_start(events: TaskEvents, title: &str) -> Self {
        Self { events, title: title.to_owned(), message: format!("{title} started"), failed: false }
    }

    fn of_end(events: TaskEvents, title: &str, outcome: &Outcome) -> Self {
        Self {
            events,
            title: title.to_owned(),
            message: end_message(title, outcome),
            failed: outcome.is_err(),
        }
    }
}

fn end_message(title: &str, outcome: &Outcome) -> String {
    match outcome {
        Ok(done) => done.message.clone(),
        Err(error) => format!("{title} failed: {error}"),
    }
}

impl Entry {
    /// Puts a note in place of the result.
    fn forget_result(&mut self) {
        let note = format!("the result, {} bytes of JSON, was too long to be kept", self.result_bytes);
        self.task.result = Some(json!({ "forgotten": note }));
        self.result_bytes = 0;
    }

    fn view(&self) -> Task {
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
            id: uuid::v4(),
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
        task.log(format!("Queued: {}", task.title), &now);
        task
    }

    fn log(&mut self, message: String, now: &str) {
        if self.logs.len() == MAX_LOG {
            self.logs.pop_front();
        }
        let seq = self.logs.back().map_or(1, |line| line.seq + 1);
        self.logs.push_back(LogLine { seq, message: message.clone(), created_at: now.to_owned() });
        self.message = message;
    }
}

impl Started {
    fn anew(task: &Task) -> Self {
        Self { id: task.id.clone(), reused: false, status: task.status, message: task.message.clone() }
    }

    fn reused(task: &Task) -> Self {
        Self { reused: true, ..Self::anew(task) }
    }
}

fn unended<'a>(tasks: &'a VecDeque<Entry>, dedupe_key: &str) -> Option<&'a Entry> {
    tasks.iter().find(|entry| entry.ended.is_none() && entry.task.dedupe_key.as_deref() == Some(dedupe_key))
}

/// Forgets tasks that ended too long ago, then the oldest ended ones beyond [`MAX_ENDED`], then results for which there is no
/// room, from the newest task to the oldest. The one that ended last keeps its result however long it is.
fn sweep(tasks: &mut VecDeque<Entry>) {
    tasks.retain(|entry| entry.ended.is_none_or(|ended| ended.elapsed() < KEPT));
    let ended = tasks.iter().filter(|entry| entry.ended.is_some()).count();
    let mut surplus = ended.saturating_sub(MAX_ENDED);
    tasks.retain(|entry| {
        let dropped = surplus > 0 && entry.ended.is_some();
        surplus -= usize::from(dropped);
        !dropped
    });
    let mut room = MAX_RESULTS;
    let last = tasks.iter().filter_map(|entry| entry.ended).max();
    for entry in tasks.iter_mut().rev().filter(|entry| entry.ended.is_some() && entry.ended != last) {
        match room.checked_sub(entry.result_bytes) {
            Some(left) => room = left,
            None => entry.forget_result(),
        }
    }
}

fn expiry() -> Millis {
    let kept = millis(KEPT);
    time::now_ms().saturating_add(kept)
}

#[cfg(test)]
mod tests;
