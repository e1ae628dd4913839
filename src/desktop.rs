//! `switchyard desktop`: the service for one person on one machine.
//!
//! It serves on the loopback address only, keeps its data in the platform's directory for program data, and opens the
//! console in the browser. Its port is the usual one, or any free one if another program uses that.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use crate::config::{self, Config, ConfigResult};

/// The configuration of the service and its listener.
pub struct Desktop {
    pub config: Config,
    pub listener: TcpListener,
}

/// Reads the environment; all variables except `HOST` and `PORT` have the same meaning as for `serve`.
pub fn read_configuration() -> ConfigResult {
    let data = data_dir(cfg!(target_os = "macos"), |name| std::env::var_os(name));
    let data = data.and_then(|path| path.into_os_string().into_string().ok());
    let defaults: Vec<_> = data.into_iter().map(|path| ("DATA_DIR", path)).collect();
    config::from_environment_over(&defaults)
}

/// Listens on a port of the loopback address: the configured one, or else the usual one, or else any.
///
/// # Errors
/// Names the port that is not available.
pub fn listen(mut config: Config) -> Result<Desktop, String> {
    let on = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = match config.desktop_port {
        Some(port) => on(port).map_err(|error| {
            format!("SWITCHYARD_DESKTOP_SERVER_PORT: cannot listen on 127.0.0.1 port {port}: {error}")
        })?,
        None => on(config::DEFAULT_PORT)
            .or_else(|_| on(0))
            .map_err(|error| format!("cannot listen on 127.0.0.1: {error}"))?,
    };
    let ready = || -> io::Result<u16> {
        listener.set_nonblocking(true)?;
        Ok(listener.local_addr()?.port())
    };
    config.port = ready().map_err(|error| format!("cannot listen on 127.0.0.1: {error}"))?;
    config.host = Ipv4Addr::LOCALHOST.to_string();
    Ok(Desktop { config, listener })
}

/// Prints the address and opens it in the browser. If that fails, the printed line remains.
pub fn open(config: &Config) {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let address = format!("{scheme}://{}:{}/", config.host, config.port);
    // If standard output is closed, the address is in the log.
    let _ = writeln!(io::stdout(), "Switchyard is at {address}");
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    // Some openers only end with the browser, so a thread of their own waits for them.
    let waiting = thread::Builder::new().name("opener".to_owned()).spawn(move || {
        let quiet = Stdio::null;
        let child =
            Command::new(opener).arg(&address).stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
        match child {
            Ok(status) if status.success() => {}
            Ok(status) => log::warn!("{opener} did not open {address} ({status}): open it in a browser"),
            Err(error) => log::warn!("{opener} cannot be run ({error}): open {address} in a browser"),
        }
    });
    if let Err(error) = waiting {
        log::warn!("no thread for {opener}: {error}");
    }
}

/// Returns the platform's directory for program data; `None` if the user has no home.
fn data_dir(is_mac: bool, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if is_mac {
        return Some(set("HOME")?.join("Library/Application Support/Switchyard"));
    }
    // A relative path is to be ignored (XDG Base Directory Specification).
    let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(set("HOME")?.join(".local/share")))?;
    Some(data.join("switchyard"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_lies_where_the_platform_keeps_that_of_programs() {
        let home = ("HOME", "/people/ada");
        for (is_mac, variables, wanted) in [
            (false, vec![home], Some("/people/ada/.local/share/switchyard")),
            (false, vec![home, ("XDG_DATA_HOME", "/data")], Some("/data/switchyard")),
            (false, vec![home, ("XDG_DATA_HOME", "data")], Some("/people/ada/.local/share/switchyard")),
            (
                true,
                vec![home, ("XDG_DATA_HOME", "/data")],
                Some("/people/ada/Library/Application Support/Switchyard"),
            ),
            (false, vec![("HOME", "")], None),
        ] {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            };
            assert_eq!(data_dir(is_mac, variable), wanted.map(PathBuf::from), "{variables:?}");
        }
    }
}
