//! The limit of open files for this process, and the errors of running out of them.
//!
//! Every connection counts as one, to clients and upstreams alike. A process that spends all of them on clients can
//! reach no upstream, and its database cannot open a file either: half is kept back from clients, since each of them
//! may need an upstream. `ulimit -n` and `LimitNOFILE=` of systemd set the limit; 1024 is usual, too few for a busy
//! gateway.

use std::io;

/// The codes of `ENFILE` and `EMFILE` on Linux.
const NO_FILES: [i32; 2] = [23, 24];
/// The codes of `ENOMEM` and `ENOBUFS` on Linux.
const NO_MEMORY: [i32; 2] = [12, 105];
/// The number of files kept back for the database, the log and the runtime.
const KEPT_BACK: usize = 32;

/// Returns the maximum number of open files; `None` if the system does not report it, or sets no limit.
pub fn limit() -> Option<usize> {
    soft_limit(&std::fs::read_to_string("/proc/self/limits").ok()?)
}

fn soft_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns how many of `limit` open files clients may use: each of them may be waiting for an upstream.
pub fn for_clients(limit: usize) -> usize {
    (limit.saturating_sub(KEPT_BACK) / 2).max(1)
}

/// Whether this process, or its machine, may open no more files.
pub fn are_used_up(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| NO_FILES.contains(&code))
}

/// Whether the operation failed because this process, or its machine, has no file or memory left.
pub fn is_lack(error: &io::Error) -> bool {
    are_used_up(error) || error.raw_os_error().is_some_and(|code| NO_MEMORY.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_read_from_the_table_of_the_kernel() {
        let table = "Limit                     Soft Limit           Hard Limit           Units     \n\
                     Max processes             95992                95992                processes \n\
                     Max open files            1024                 1048576              files     \n";
        assert_eq!(soft_limit(table), Some(1024));
        assert_eq!(soft_limit(&table.replace("1024 ", "unlimited ")), None);
        assert_eq!(soft_limit(""), None);
    }

    #[test]
    fn clients_leave_their_upstreams_as_many_files() {
        for (limit, clients) in [(16, 1), (64, 16), (1024, 496), (40_000, 19_984)] {
            assert_eq!(for_clients(limit), clients, "{limit}");
        }
    }
}
