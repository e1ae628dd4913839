//! Videos that clients had made (proxy.md 14.6, data.md A.3): under which name a client knows one, and how
//! it is reached where it is made.
//!
//! The way there is kept as references, to the account and the token, so that a key that was changed
//! since is used as it is now. The address and the key of that day, sealed, are for when the account is gone.

use super::owner::Owner;
use super::sql::{Row, Statement, Value, marks};
use super::{Result, Secret, Store, prune};
use crate::time::Millis;

const TABLE: &str = "proxy_video_tasks";

/// A video that an upstream has begun to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVideo {
    /// What its client is told.
    pub public_id: String,
    pub upstream_id: String,
    pub made_at: MadeAt,
    /// The key it was asked for with.
    pub token: Option<Secret>,
    pub requested_model: String,
    pub actual_model: String,
    pub snapshot: Snapshot,
    pub created_at: Millis,
}

/// Who makes a video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeAt {
    pub site_id: i64,
    pub account_id: i64,
    /// `None` where it was asked for with the account's own key.
    pub token_id: Option<i64>,
    pub channel_id: i64,
    /// The address that was asked; may hold a key.
    pub url: String,
    /// It was asked through an outbound proxy: nothing goes around one.
    pub through_proxy: bool,
}

/// How a video was when its upstream last spoke of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The HTTP status; `None` where there was no answer.
    pub upstream_status: Option<u16>,
    /// What it said of the video, as JSON; `None` where it said nothing.
    pub status: Option<String>,
}

/// A stored video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoRow {
    pub id: i64,
    pub public_id: String,
    pub upstream_id: String,
    pub made_at: MadeAt,
    pub token: Option<Secret>,
    pub requested_model: String,
    pub snapshot: Snapshot,
    pub last_polled_at: Option<Millis>,
}

/// Keeps a video; once this has answered, its name outlives the process.
pub async fn insert(store: &Store, owner: &Owner, video: NewVideo) -> Result<()> {
    let token = store.sealer().seal_opt(TABLE, "token_value", video.token.as_ref())?;
    let [owner_kind, owner_id] = owner.args();
    let MadeAt { site_id, account_id, token_id, channel_id, url, through_proxy } = video.made_at;
    let args: Vec<Value> = vec![
        video.public_id.into(),
        owner_kind,
        owner_id,
        video.upstream_id.into(),
        site_id.into(),
        account_id.into(),
        token_id.into(),
        channel_id.into(),
        url.into(),
        through_proxy.into(),
        token.into(),
        video.requested_model.into(),
        video.actual_model.into(),
        video.snapshot.status.into(),
        video.snapshot.upstream_status.map(i64::from).into(),
        video.created_at.into(),
        video.created_at.into(),
    ];
    let sql = format!(
        "INSERT INTO proxy_video_tasks (public_id, owner_type, owner_id, upstream_video_id, site_id, account_id, \
         token_id, channel_id, site_url, through_proxy, token_value, requested_model, actual_model, \
         status_snapshot, last_upstream_status, created_at, updated_at) VALUES ({})",
        marks(args.len())
    );
    store.batch(vec![Statement::new(sql, args)]).await.map(drop)
}

/// A video of this owner.
pub async fn find(store: &Store, owner: &Owner, public_id: &str) -> Result<Option<VideoRow>> {
    let [kind, id] = owner.args();
    let sql = "SELECT id, public_id, upstream_video_id, site_id, account_id, token_id, channel_id, site_url, \
               through_proxy, token_value, requested_model, last_upstream_status, status_snapshot, \
               last_polled_at FROM proxy_video_tasks WHERE public_id = ? AND owner_type = ? AND owner_id = ?";
    let rows = store.query(sql, vec![public_id.into(), kind, id]).await?;
    rows.first().map(|row| read(store, row)).transpose()
}

/// Notes what an upstream said of a video. Where it said nothing of it, what was known stays.
pub async fn note(store: &Store, id: i64, snapshot: &Snapshot, now: Millis) -> Result<()> {
    let note = Statement::new(
        "UPDATE proxy_video_tasks SET status_snapshot = COALESCE(?, status_snapshot), \
         last_upstream_status = ?, last_polled_at = ?, updated_at = ? WHERE id = ?",
        vec![
            snapshot.status.as_deref().into(),
            snapshot.upstream_status.map(i64::from).into(),
            now.into(),
            now.into(),
            id.into(),
        ],
    );
    store.batch(vec![note]).await.map(drop)
}

/// Forgets a video. [`super::Error::NotFound`] when it is forgotten already.
pub async fn delete(store: &Store, id: i64) -> Result<()> {
    let delete = Statement::new("DELETE FROM proxy_video_tasks WHERE id = ?", vec![id.into()]);
    store.batch(vec![delete.must_change()]).await.map(drop)
}

/// Forgets videos that were begun before the cutoff; returns how many went.
pub async fn prune(store: &Store, cutoff: Millis) -> Result<u64> {
    prune::older_than(store, TABLE, cutoff).await
}

fn read(store: &Store, row: &Row) -> Result<VideoRow> {
    let mut row = row.fields();
    Ok(VideoRow {
        id: row.int()?,
        public_id: row.text()?,
        upstream_id: row.text()?,
        made_at: MadeAt {
            site_id: row.int()?,
            account_id: row.int()?,
            token_id: row.opt_int()?,
            channel_id: row.int()?,
            url: row.text()?,
            through_proxy: row.bool()?,
        },
        token: store.sealer().open_column(TABLE, "token_value", row.opt_str()?),
        requested_model: row.text()?,
        snapshot: Snapshot {
            upstream_status: row.opt_int()?.and_then(|status| u16::try_from(status).ok()),
            status: row.opt_text()?,
        },
        last_polled_at: row.opt_int()?,
    })
}
