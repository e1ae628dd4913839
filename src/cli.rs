//! The command line: `switchyard [serve] | desktop | health | doctor | demo | deploy-helper | import | export | backup |
//! restore | migrate`.

mod commands;
mod failure;
mod import;
mod interruption;
mod passphrase;
mod progress;
mod transfer;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::config::Config;

pub use commands::run as transfer;
pub use failure::{CONFIGURATION, Failure, OTHER, USAGE};
pub use transfer::Transfer;
use transfer::TransferKind;

/// The text that `--help` prints.
pub const HELP: &str = "\
Switchyard: many upstream AI sites, each with accounts, behind one address.

Usage: switchyard [COMMAND]

Commands:
  serve         Serve requests until told to stop (the default)
  desktop       Serve on this machine only, with its own data directory, and open the console in the browser
  health        Ask the instance on this machine whether it is healthy; exit 0 if it is
  doctor        Check configuration, data and sites, and report problems; exit 1 if there are any (--json: as JSON)
  deploy-helper Deploy releases inside a cluster with helm and kubectl, when a gateway's update center asks for it
  demo          Show the main job end to end with a stub upstream, then clean up
  import        Take a backup, or the file of another gateway, into the data directory
  export        Write a backup as a JSON document
  backup        Copy the whole database, even while it is in use
  restore       Fill an empty data directory from a backup
  migrate       Copy everything into another database

`switchyard help COMMAND` explains import, export, backup, restore and migrate.

Options:
  -h, --help     Print this help
  -V, --version  Print the version

Configuration comes from environment variables and a .env file, for example
PORT, DATA_DIR, AUTH_TOKEN and PROXY_TOKEN; docs/configuration.md lists them all.
";

/// The time limit of `health` for connecting, and for each read.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(3);

/// The command that the process was started with.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Serve,
    Desktop,
    Health,
    Doctor { as_json: bool },
    Demo,
    DeployHelper,
    Transfer(Transfer),
    Help,
    Version,
}

/// Parses the arguments behind the program's name.
///
/// # Errors
/// Names the argument that is not understood.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut command = None;
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if command.is_none()
            && let Some(kind) = TransferKind::parse(&argument)
        {
            return transfer::parse(kind, arguments).map(Command::Transfer);
        }
        let found = match argument.as_str() {
            "--json" if matches!(command, Some(Command::Doctor { .. })) => {
                command = Some(Command::Doctor { as_json: true });
                continue;
            }
            "help" => {
                let topic = arguments.next().and_then(|name| TransferKind::parse(&name));
                return Ok(topic.map_or(Command::Help, |command| Command::Transfer(command.help())));
            }
            "-h" | "--help" => return Ok(Command::Help),
            "-V" | "--version" | "version" => return Ok(Command::Version),
            "serve" => Command::Serve,
            "desktop" => Command::Desktop,
            "health" => Command::Health,
            "doctor" => Command::Doctor { as_json: false },
            "demo" => Command::Demo,
            "deploy-helper" => Command::DeployHelper,
            other => {
                return Err(format!("`{other}` is not a known command or option; see switchyard --help"));
            }
        };
        if command.replace(found).is_some() {
            return Err(format!("`{argument}`: only one command at a time; see switchyard --help"));
        }
    }
    Ok(command.unwrap_or(Command::Serve))
}

/// Prints to standard output. A closed output wants no more (`switchyard --help | head -1`) and is no failure; any
/// other failure, such as a full disk, is reported, because a script that reads the output must notice it.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(failure::IO, format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Requests the health of the instance on this machine, over plain HTTP. If TLS is configured, a completed connection
/// counts as healthy.
///
/// # Errors
/// Says what was tried and how it failed.
pub fn health(config: &Config) -> Result<(), String> {
    let host = match config.host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) if address.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
        Ok(IpAddr::V6(address)) if address.is_unspecified() => Ipv6Addr::LOCALHOST.to_string(),
        _ => config.host.clone(),
    };
    let place = format!("{host} port {}", config.port);
    let tell = |error: std::io::Error| format!("no healthy instance at {place}: {error}");
    let address = (host.as_str(), config.port)
        .to_socket_addrs()
        .map_err(tell)?
        .next()
        .ok_or_else(|| format!("{place} has no address"))?;
    let mut socket = TcpStream::connect_timeout(&address, HEALTH_TIMEOUT).map_err(tell)?;
    if config.tls.is_some() {
        return Ok(());
    }
    socket.set_read_timeout(Some(HEALTH_TIMEOUT)).map_err(tell)?;
    let request = "GET /api/desktop/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).map_err(tell)?;
    let mut answer = Vec::new();
    socket.take(16 * 1024).read_to_end(&mut answer).map_err(tell)?;
    if answer.starts_with(b"HTTP/1.1 200 ") {
        return Ok(());
    }
    let status = String::from_utf8_lossy(&answer);
    Err(format!("the instance at {place} is not healthy: {}", status.lines().next().unwrap_or("no answer")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_commands() {
        let parse = |text: &str| parse(text.split_whitespace().map(str::to_owned));
        assert_eq!(parse(""), Ok(Command::Serve));
        assert_eq!(parse("health"), Ok(Command::Health));
        for general in ["help", "help serve", "help help", "--help", "serve --help"] {
            assert_eq!(parse(general), Ok(Command::Help), "{general}");
        }
        assert_eq!(parse("help import"), parse("import --help"));
        assert_ne!(parse("help import"), Ok(Command::Help));
        assert_eq!(parse("doctor"), Ok(Command::Doctor { as_json: false }));
        assert_eq!(parse("doctor --json"), Ok(Command::Doctor { as_json: true }));
        assert!(parse("--json doctor").is_err() && parse("serve --json").is_err());
        assert!(parse("serve health").is_err());
        assert!(parse("--port 1").unwrap_err().contains("--port"));
    }
}
