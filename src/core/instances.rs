//! The instances that serve from this database.

use std::sync::Arc;

use super::state::Core;
use crate::store::instances::Instance;
use crate::store::{self, instances};
use crate::time::now_ms;

impl Core {
    /// Returns all instances on this database, this one included.
    pub fn all_instances(&self) -> Vec<Instance> {
        let mut all = Vec::clone(&self.instances.load());
        let me = self.as_instance();
        match all.iter_mut().find(|one| one.id == me.id) {
            Some(one) => one.last_seen_at = me.last_seen_at,
            None => all.push(me),
        }
        all
    }

    /// Whether there are other instances on this database, as far as is known.
    pub fn has_others(&self) -> bool {
        self.instances.load().iter().any(|one| one.id != self.instance)
    }

    /// Registers this instance with the others, and reads which there are.
    pub async fn report_alive(&self) -> store::Result<()> {
        let all = instances::report_alive(&self.store, &self.as_instance()).await?;
        self.instances.store(Arc::new(all));
        Ok(())
    }

    fn as_instance(&self) -> Instance {
        Instance {
            id: self.instance.clone(),
            name: format!("{}:{}", machine(), self.config.port),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started,
            last_seen_at: now_ms(),
        }
    }
}

/// Returns the name of the machine, or the container.
fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
