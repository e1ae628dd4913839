//! The parts of the service, built in order and stopped in reverse.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::admin::{self, Admin};
use crate::config::Config;
use crate::core::{Core, StartError};
use crate::jobs::{self, Jobs};
use crate::proxy::{self, Proxy};
use crate::service::Service;

/// How long a stop gives back what this instance holds in a database that others use too.
const LEAVING: Duration = Duration::from_secs(5);

/// The running parts that the process deals with; they keep the others.
pub struct App {
    pub(crate) core: Arc<Core>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) service: Arc<Service>,
}

impl App {
    /// Opens the store and builds all other parts on it.
    pub async fn start(config: Arc<Config>) -> Result<Self, StartError> {
        let core = Core::start(config).await?;
        let jobs = Jobs::new(&core);
        let proxy = Proxy::new(&core, &jobs, proxy::routes());
        proxy::watch_background_responses(&proxy);
        proxy::watch_batches(&proxy);
        proxy.follow_session_limit();
        let admin = Admin::new(&core, &jobs, &proxy, admin::table_of_routes());
        admin.read_former_statistics().await;
        let service = Arc::new(Service::new(&core, &proxy, &admin));
        Ok(Self { core, jobs, service })
    }

    /// Stops background work and closes the store after committing everything that was handed to it. A database server that
    /// does not answer is not waited for much longer than `LEAVING`.
    pub async fn stop(&self) {
        let leave = async {
            jobs::stop(&self.jobs).await;
            self.core.leave().await;
        };
        if !self.core.store.database().is_shared() {
            leave.await;
        } else if timeout(LEAVING, leave).await.is_err() {
            log::warn!(
                "the database took too long to take back what this instance held there: leases last until they \
                 expire, and reserved requests of downstream keys stay counted"
            );
        }
        self.core.close().await;
    }
}
