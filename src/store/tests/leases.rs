//! Coordination of several instances on one database.

use super::super::leases::{self, LeaseOutcome};
use super::super::{instances, job_runs, settings};
use super::*;
use crate::fence::Fence;

const LONG: i64 = 60_000;

async fn put(store: &Store, name: &str) -> Result<()> {
    settings::put(store, vec![(name.to_owned(), "1".to_owned())]).await
}

#[track_caller]
fn ours(taken: LeaseOutcome) -> Fence {
    match taken {
        LeaseOutcome::Ours(fence) => fence,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_change_under_a_lease_that_another_instance_has_taken_is_refused() {
    let dir = Dir::new();
    let one = dir.open();
    if !database::is_on_server() {
        let taken = leases::take(&one, "job", "one", LONG).await.unwrap();
        assert!(matches!(taken, LeaseOutcome::Alone), "SQLite serves one process");
        return;
    }
    let other = dir.open();
    let mine = ours(leases::take(&one, "job", "one", LONG).await.unwrap());
    assert!(matches!(leases::take(&other, "job", "other", LONG).await, Ok(LeaseOutcome::Elsewhere)));
    assert_eq!(ours(leases::take(&one, "job", "one", LONG).await.unwrap()).token(), mine.token());
    assert_eq!(mine.guard(put(&one, "first")).await, Some(Ok(())));
    assert_eq!(mine.guard(async { one.batch(Vec::new()).await }).await, Some(Ok(Vec::new())));

    // The lease has expired, but nobody has taken it: work done under it still counts.
    assert_eq!(leases::keep(&one, &mine, -1).await, Ok(true));
    assert_eq!(mine.guard(put(&one, "late")).await, Some(Ok(())));
    let theirs = ours(leases::take(&other, "job", "other", LONG).await.unwrap());
    assert_eq!(theirs.token(), mine.token() + 1);
    assert_eq!(mine.guard(put(&one, "refused")).await, Some(Err(Error::Superseded)));
    assert_eq!(mine.guard(put(&one, "never")).await, None, "the work has ended");
    assert_eq!(leases::keep(&one, &mine, LONG).await, Ok(false));
    leases::release(&one, &mine).await.unwrap();
    assert_eq!(theirs.guard(put(&other, "theirs")).await, Some(Ok(())));

    let saved = settings::all(&one).await.unwrap();
    for (name, is_there) in
        [("first", true), ("late", true), ("refused", false), ("never", false), ("theirs", true)]
    {
        assert_eq!(saved.contains_key(name), is_there, "{name}");
    }
    // After a release it is free at once, and the token goes on counting.
    leases::release(&other, &theirs).await.unwrap();
    assert_eq!(ours(leases::take(&one, "job", "one", LONG).await.unwrap()).token(), theirs.token() + 1);
}

#[tokio::test]
async fn a_time_of_a_schedule_is_begun_once_and_known_by_whom() {
    let dir = Dir::new();
    let store = dir.open();
    assert!(job_runs::claim(&store, "summary", 1_000, LONG, "one").await.unwrap());
    assert!(!job_runs::claim(&store, "summary", 1_000, LONG, "other").await.unwrap());
    assert!(job_runs::claim(&store, "summary", 2_000, LONG, "other").await.unwrap());
    assert!(job_runs::is_begun(&store, "summary", 1_000).await.unwrap());
    assert!(!job_runs::is_begun(&store, "summary", 3_000).await.unwrap());
    assert!(job_runs::is_begun_by(&store, "summary", 1_000, "one").await.unwrap());
    assert!(!job_runs::is_begun_by(&store, "summary", 1_000, "other").await.unwrap());
}

#[tokio::test]
async fn instances_are_listed_while_they_say_that_they_are_there() {
    if !database::is_on_server() {
        return; // SQLite serves one process.
    }
    let dir = Dir::new();
    let store = dir.open();
    let instance = |id: &str, started_at| instances::Instance {
        id: id.to_owned(),
        name: format!("machine-{id}:4000"),
        version: "1".to_owned(),
        started_at,
        last_seen_at: 0,
    };
    let listed = async |of: &str, at| {
        let all = instances::report_alive(&store, &instance(of, at)).await.unwrap();
        all.into_iter().map(|one| one.id).collect::<Vec<_>>()
    };
    assert_eq!(listed("b", 2).await, ["b"]);
    assert_eq!(listed("a", 1).await, ["a", "b"]);
    assert_eq!(listed("b", 2).await, ["a", "b"]);
    let long_ago = "UPDATE instances SET last_seen_at = last_seen_at - 31000 WHERE id = 'a'";
    store.batch(vec![Statement::new(long_ago, Vec::new())]).await.unwrap();
    assert_eq!(listed("b", 2).await, ["b"], "one that was killed is gone after a while");
    instances::leave(&store, "b").await.unwrap();
    assert_eq!(listed("c", 3).await, ["c"]);
}
