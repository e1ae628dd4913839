//! Addresses of sites with a user name or password: release 0.2.0 imported them as they were, and addresses are shown.

use super::new_event::{EventLevel, NewEvent};
use super::sql::Statement;
use super::touches::TouchedKind;
use super::{Error, Result, Store};
use crate::ids::SiteId;
use crate::site_url::without_user_info;
use crate::time::now_ms;

/// A column of addresses: its table and name, and a query of the row's id, the site's id and name, and the address.
struct Column {
    table: &'static str,
    name: &'static str,
    query: &'static str,
}

const COLUMNS: [Column; 3] = [
    Column { table: "sites", name: "url", query: "SELECT id, id, name, url FROM sites WHERE url LIKE '%@%'" },
    Column {
        table: "sites",
        name: "external_checkin_url",
        query: "SELECT id, id, name, external_checkin_url FROM sites WHERE external_checkin_url LIKE '%@%'",
    },
    Column {
        table: "site_api_endpoints",
        name: "url",
        query: "SELECT e.id, s.id, s.name, e.url FROM site_api_endpoints e JOIN sites s ON s.id = e.site_id \
                WHERE e.url LIKE '%@%'",
    },
];

/// Removes user names and passwords from the addresses of sites; an event names each site. An address stays that would
/// then be another site's.
pub async fn drop_user_info(store: &Store) -> Result<()> {
    for Column { table, name, query } in COLUMNS {
        let rows: Vec<(i64, SiteId, String, String)> = store
            .rows(query, Vec::new(), |row| Ok((row.int()?, row.id()?, row.text()?, row.text()?)))
            .await?;
        for (id, site, site_name, address) in rows {
            let Some(address) = without_user_info(&address) else { continue };
            let sql = format!("UPDATE {table} SET {name} = ? WHERE id = ?");
            let update = Statement::new(sql, vec![address.into(), id.into()]);
            let batch = vec![update.touching(TouchedKind::Site, [site.into()]), event(site, &site_name)];
            match store.batch(batch).await {
                Err(Error::Conflict(_)) => log::warn!(
                    "the address of site {site} carries a user name or password, and without them it is that of \
                     another site: delete one of the two"
                ),
                done => drop(done?),
            }
        }
    }
    Ok(())
}

fn event(site: SiteId, name: &str) -> Statement {
    let event = NewEvent {
        kind: "status",
        title: "A password was removed from an address".to_owned(),
        message: Some(format!(
            "An address of site \"{name}\" carried a user name or password, which no request used: a site's \
             credentials belong to its accounts"
        )),
        level: EventLevel::Warning,
        related_id: Some(site.get()),
        related_type: Some("site"),
    };
    event.insert(now_ms())
}
