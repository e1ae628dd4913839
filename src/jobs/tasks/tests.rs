use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::advance;

use super::*;

fn spec(title: &str, dedupe_key: Option<&str>) -> Spec {
    let (title, dedupe_key) = (title.to_owned(), dedupe_key.map(str::to_owned));
    Spec { kind: "route", title, dedupe_key, events: TaskEvents::Sent }
}

/// Builds a registry and the channel of its notices.
fn tasks() -> (Tasks, mpsc::UnboundedReceiver<TaskReport>) {
    let (tell, notices) = mpsc::unbounded_channel();
    let tasks = Tasks::new(Arc::new(Background::default()), move |notice| {
        tell.send(notice).ok();
        std::future::ready(())
    });
    (tasks, notices)
}

/// Waits for the notice of the end of a task, and for the task to show it.
async fn ended(notices: &mut mpsc::UnboundedReceiver<TaskReport>) -> TaskReport {
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
    assert_eq!(lines, [(1, "Queued: Sync"), (2, "half way"), (3, "synced")]);
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
async fn a_stopped_task_goes_no_further_and_nobody_hears_of_its_end() {
    let (tasks, mut notices) = tasks();
    let (release, released) = oneshot::channel::<()>();
    let old = tasks.start(spec("Old", Some("key")), |_| async move {
        released.await.ok();
        Err("ended".to_owned())
    });
    assert_eq!(notices.recv().await.expect("its start").title, "Old");
    tasks.stop_all().await;
    assert!(tasks.get(&old.id).is_none() && tasks.running("key").is_none());
    assert!(release.send(()).is_err(), "it waits no more");
    tasks.start(spec("New", Some("key")), |_| async { Err("ended".to_owned()) });
    assert_eq!(ended(&mut notices).await.title, "New");
}

#[tokio::test(start_paused = true)]
async fn the_stop_waits_for_tasks_that_run_and_begins_none() {
    const SECOND: Duration = Duration::from_secs(1);
    for (takes, waits) in [(SECOND, SECOND), (60 * SECOND, 10 * SECOND)] {
        let (tasks, mut notices) = tasks();
        for _ in 0..PARALLEL {
            tasks.start(spec("Runs", None), |_| async move {
                tokio::time::sleep(takes).await;
                Err("ended".to_owned())
            });
            assert_eq!(notices.recv().await.expect("its start").message, "Runs started");
        }
        tasks.start(spec("Waits", None), |_| async { panic!("must not run") });
        let began = Instant::now();
        tasks.finish(began + 10 * SECOND).await;
        assert_eq!(began.elapsed(), waits);
        let mut ends = Vec::new();
        while let Ok(notice) = notices.try_recv() {
            ends.push(notice.message);
        }
        assert_eq!(ends.iter().filter(|end| *end == "Waits failed: the service is stopping").count(), 1);
        assert_eq!(ends.len(), if takes == waits { PARALLEL + 1 } else { 1 }, "{ends:?}");
    }
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
async fn results_are_kept_as_far_as_there_is_room_and_their_tasks_in_any_case() {
    let (tasks, mut notices) = tasks();
    let mut run = async |length: usize| {
        let result = json!("x".repeat(length - 2));
        let started = tasks
            .start(spec("Long", None), move |_| async { Ok(Done { message: "done".to_owned(), result }) });
        ended(&mut notices).await;
        started.id
    };
    let kept = || {
        let is_kept = |task: Task| task.result.is_some_and(|result| result.is_string());
        tasks.list(usize::MAX).into_iter().map(is_kept).collect::<Vec<_>>()
    };
    let small = run(10).await;
    run(2 * MAX_RESULTS).await;
    assert_eq!(kept(), [true, true], "the newest is kept whatever its length");
    for _ in 0..3 {
        run(MAX_RESULTS / 4).await;
    }
    assert_eq!(kept(), [true, true, true, false, true]);
    run(MAX_RESULTS / 2 + 1).await;
    run(10).await;
    assert_eq!(kept(), [true, true, true, false, false, false, true]);
    assert_eq!(tasks.get(&small).expect("kept").status, Status::Succeeded);
}

#[tokio::test]
async fn the_task_that_ended_last_keeps_its_result_also_if_it_began_earlier() {
    let (tasks, mut notices) = tasks();
    let (release, released) = oneshot::channel::<()>();
    let long = tasks.start(spec("Long", None), |_| async move {
        released.await.ok();
        Ok(Done { message: "done".to_owned(), result: json!("x".repeat(2 * MAX_RESULTS)) })
    });
    tasks.start(spec("Short", None), |_| async { Err("ended early".to_owned()) });
    ended(&mut notices).await;
    release.send(()).expect("the task waits");
    ended(&mut notices).await;
    assert!(tasks.get(&long.id).expect("kept").result.is_some_and(|result| result.is_string()));
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
