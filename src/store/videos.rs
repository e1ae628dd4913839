//! Video tasks: the public id of each video and where it is rendered.
//!
//! The credential is stored as a reference to the account and the token, so that a key rotated since is used in
//! its current form. The base URL and the credential used at creation, the latter sealed, are for the case that
//! the account is deleted.

use super::owner::Owner;
use super::sql::{Fields, Statement};
use super::{Result, Secret, Store, prune};
use crate::ids::{AccountId, ChannelId, SiteId, TokenId, VideoId};
use crate::time::Millis;

const TABLE: &str = "proxy_video_tasks";

/// A video that an upstream has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVideo {
    /// The id that clients use.
    pub public_id: String,
    pub upstream_id: String,
    pub source: VideoSource,
    /// The credential with which it was created.
    pub token: Option<Secret>,
    pub requested_model: String,
    pub actual_model: String,
    pub status: VideoStatus,
    pub created_at: Millis,
}

/// The upstream that renders a video, and the account and channel used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoSource {
    pub site_id: SiteId,
    pub account_id: AccountId,
    /// `None` when the account's own key was used.
    pub token_id: Option<TokenId>,
    pub channel_id: ChannelId,
    /// The base URL it was sent to; may contain a key.
    pub url: String,
    /// Whether it was sent through an outbound proxy, which later calls must not bypass.
    pub through_proxy: bool,
}

/// The state of a video at its last poll, or at its creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoStatus {
    /// The HTTP status of the upstream; `None` when it gave no response.
    pub upstream_status: Option<u16>,
    /// Status, progress and similar values as JSON; `None` when the response had none.
    pub snapshot: Option<String>,
}

/// A stored video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoRow {
    pub id: VideoId,
    pub public_id: String,
    pub upstream_id: String,
    pub source: VideoSource,
    pub token: Option<Secret>,
    pub requested_model: String,
    pub status: VideoStatus,
    pub last_polled_at: Option<Millis>,
}

/// Stores a video; once this has returned, its id survives the process.
pub async fn insert(store: &Store, owner: &Owner, video: NewVideo) -> Result<()> {
    let token = store.sealer().seal_opt(TABLE, "token_value", video.token.as_ref())?;
    let [owner_kind, owner_id] = owner.args();
    let VideoSource { site_id, account_id, token_id, channel_id, url, through_proxy } = video.source;
    let insert = Statement::insert(
        TABLE,
        [
            ("public_id", video.public_id.into()),
            ("owner_type", owner_kind),
            ("owner_id", owner_id),
            ("upstream_video_id", video.upstream_id.into()),
            ("site_id", site_id.into()),
            ("account_id", account_id.into()),
            ("token_id", token_id.into()),
            ("channel_id", channel_id.into()),
            ("site_url", url.into()),
            ("through_proxy", through_proxy.into()),
            ("token_value", token.into()),
            ("requested_model", video.requested_model.into()),
            ("actual_model", video.actual_model.into()),
            ("status_snapshot", video.status.snapshot.into()),
            ("last_upstream_status", video.status.upstream_status.map(i64::from).into()),
            ("created_at", video.created_at.into()),
            ("updated_at", video.created_at.into()),
        ],
    );
    store.batch(vec![insert]).await.map(drop)
}

/// Returns a video of this owner.
pub async fn find(store: &Store, owner: &Owner, public_id: &str) -> Result<Option<VideoRow>> {
    let [kind, id] = owner.args();
    let sql = "SELECT id, public_id, upstream_video_id, site_id, account_id, token_id, channel_id, site_url, \
               through_proxy, token_value, requested_model, last_upstream_status, status_snapshot, \
               last_polled_at FROM proxy_video_tasks WHERE public_id = ? AND owner_type = ? AND owner_id = ?";
    store.row(sql, vec![public_id.into(), kind, id], |row| read(store, row)).await
}

/// Records the result of a poll. Without a snapshot, the last one stays.
pub async fn record_status(store: &Store, id: VideoId, status: &VideoStatus, now: Millis) -> Result<()> {
    let update = Statement::new(
        "UPDATE proxy_video_tasks SET status_snapshot = COALESCE(?, status_snapshot), \
         last_upstream_status = ?, last_polled_at = ?, updated_at = ? WHERE id = ?",
        vec![
            status.snapshot.as_deref().into(),
            status.upstream_status.map(i64::from).into(),
            now.into(),
            now.into(),
            id.into(),
        ],
    );
    store.batch(vec![update]).await.map(drop)
}

/// Deletes a video. Fails with [`super::Error::NotFound`] when it is already deleted.
pub async fn delete(store: &Store, id: VideoId) -> Result<()> {
    let delete = Statement::new("DELETE FROM proxy_video_tasks WHERE id = ?", vec![id.into()]);
    store.batch(vec![delete.must_change()]).await.map(drop)
}

/// Deletes videos created before the cutoff; returns their number.
pub async fn prune(store: &Store, cutoff: Millis) -> Result<u64> {
    prune::older_than(store, TABLE, cutoff).await
}

fn read(store: &Store, row: &mut Fields<'_>) -> Result<VideoRow> {
    Ok(VideoRow {
        id: row.id()?,
        public_id: row.text()?,
        upstream_id: row.text()?,
        source: VideoSource {
            site_id: row.id()?,
            account_id: row.id()?,
            token_id: row.opt_id()?,
            channel_id: row.id()?,
            url: row.text()?,
            through_proxy: row.bool()?,
        },
        token: store.sealer().open_column(TABLE, "token_value", row.opt_str()?),
        requested_model: row.text()?,
        status: VideoStatus {
            upstream_status: row.opt_int()?.and_then(|status| u16::try_from(status).ok()),
            snapshot: row.opt_text()?,
        },
        last_polled_at: row.opt_int()?,
    })
}
