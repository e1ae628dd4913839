//! The gateway as a child process, with a directory and tokens of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};

use crate::hex;

/// The longest time that the gateway may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A running gateway. Dropping it ends the process and removes the directory.
pub(super) struct Gateway {
    child: Child,
    address: SocketAddr,
    directory: Directory,
    admin_token: String,
    proxy_token: String,
}

impl Gateway {
    pub(super) fn start() -> Result<Self, String> {
        let program = std::env::current_exe()
            .map_err(|error| format!("cannot find the path of this program: {error}"))?;
        let port = free_port().map_err(|error| format!("cannot find a free port: {error}"))?;
        let directory = Directory::create()?;
        let (admin_token, proxy_token) = (format!("demo-{}", random()?), format!("sk-demo-{}", random()?));
        let child = Command::new(program)
            .arg("serve")
            .env_clear()
            .env("HOST", Ipv4Addr::LOCALHOST.to_string())
            .env("PORT", port.to_string())
            .env("DATA_DIR", &directory.path)
            .env("AUTH_TOKEN", &admin_token)
            .env("PROXY_TOKEN", &proxy_token)
            .env("ACCOUNT_CREDENTIAL_SECRET", random()?)
            .env("LOG_LEVEL", "warn")
            // A .env file in the directory where the demo is started must not apply.
            .current_dir(&directory.path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("the gateway did not start: {error}"))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Self { child, address, directory, admin_token, proxy_token })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn admin_token(&self) -> &str {
        &self.admin_token
    }

    pub(super) fn proxy_token(&self) -> &str {
        &self.proxy_token
    }

    /// Returns the command line with which an operator would have started it.
    pub(super) fn command_line(&self) -> String {
        let directory = self.directory.path.display();
        format!(
            "HOST={} PORT={} DATA_DIR={directory} AUTH_TOKEN=… PROXY_TOKEN=… switchyard serve",
            self.address.ip(),
            self.address.port()
        )
    }

    /// Fails if the process has ended by itself.
    pub(super) fn check_it_runs(&mut self) -> Result<(), String> {
        self.ended().map_or(Ok(()), |status| Err(format!("the gateway ended by itself with {status}")))
    }

    /// Ends the process as a service manager does, and waits for it.
    pub(super) async fn stop(mut self) -> Result<(), String> {
        self.terminate();
        let deadline = Instant::now() + GRACE;
        loop {
            match self.ended() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("the gateway ended with {status}")),
                None if Instant::now() > deadline => return Err("the gateway did not end".to_owned()),
                None => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends SIGTERM with `kill`, since the standard library cannot; kills the process if that fails.
    fn terminate(&mut self) {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).stderr(Stdio::null()).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        self.terminate();
        let deadline = Instant::now() + GRACE;
        while self.ended().is_none() {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// A new directory that only this user can access; removed when dropped.
struct Directory {
    path: PathBuf,
}

impl Directory {
    fn create() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("switchyard-demo-{}", random()?));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("cannot create the temporary directory {}: {error}", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("demo: {} could not be removed: {error}", self.path.display());
        }
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Returns 96 random bits in hex.
fn random() -> Result<String, String> {
    let mut bytes = [0; 12];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| "the operating system provides no random numbers".to_owned())?;
    Ok(hex::encode(&bytes))
}
