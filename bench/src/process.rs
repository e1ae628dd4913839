//! Child processes, and their cost according to the kernel.
//!
//! A [`Process`] is stopped when it is dropped. If this process dies without dropping anything, the kernel sends its
//! children a SIGTERM (`setpriv --pdeathsig`, if Debian's util-linux is installed).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Clock ticks per second in `/proc/PID/stat`: USER_HZ, 100 on every Linux that Rust runs on.
const TICKS: u64 = 100;
/// The time between SIGTERM and SIGKILL.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const SETPRIV: &str = "/usr/bin/setpriv";

/// A child process.
pub struct Process {
    child: Child,
    /// The file of its output, for the message when it dies.
    log: PathBuf,
}

/// A program to run, without our environment.
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(&'static str, String)>,
    pub log: PathBuf,
}

impl Program {
    /// Starts the program so that it does not outlive this process.
    pub fn start(&self) -> io::Result<Process> {
        if !Path::new(SETPRIV).exists() {
            return self.start_plainly();
        }
        let mut command = self.command(SETPRIV)?;
        command.args(["--pdeathsig", "TERM", "--"]).arg(&self.path).args(&self.arguments);
        self.spawn(command)
    }

    /// Starts the program directly, for a cold start that is timed.
    pub fn start_plainly(&self) -> io::Result<Process> {
        let mut command = self.command(&self.path)?;
        command.args(&self.arguments);
        self.spawn(command)
    }

    fn command(&self, program: impl AsRef<OsStr>) -> io::Result<Command> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }

    fn spawn(&self, mut command: Command) -> io::Result<Process> {
        let named = |failed| io::Error::other(format!("starting {}: {failed}", self.path.display()));
        Ok(Process { child: command.spawn().map_err(named)?, log: self.log.clone() })
    }
}

impl Process {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails with the end of its log if the process no longer runs.
    pub fn check(&mut self) -> io::Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let end: Vec<&str> = log.lines().rev().take(10).collect();
        let end = end.into_iter().rev().collect::<Vec<_>>().join("\n");
        Err(io::Error::other(format!("it ended with {status}:\n{end}")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let family = family(self.id());
        signal("TERM", &family[..1]);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                signal("KILL", &family);
                // The process cannot refuse SIGKILL; this only reads its exit status.
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Sends a signal through the shell, the only way without `unsafe` that needs no crate.
fn signal(name: &str, ids: &[u32]) {
    let ids = ids.iter().map(u32::to_string);
    // It does not matter if the process is gone already.
    let _ = Command::new("sh").args(["-c", r#"kill -s "$@" 2>/dev/null"#, "sh", name]).args(ids).status();
}

/// Returns the process and all its descendants.
fn family(id: u32) -> Vec<u32> {
    let mut ids = vec![id];
    let mut next = 0;
    while let Some(id) = ids.get(next) {
        let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        let children: String =
            threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
        ids.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        next += 1;
    }
    ids
}

/// Returns the user and kernel CPU time of a process and its living descendants, in steps of 10 ms.
pub fn cpu_time(id: u32) -> Duration {
    family(id).into_iter().map(cpu_time_of_one).sum()
}

/// Returns the user and kernel CPU time of a process without its children, in steps of 10 ms.
pub fn cpu_time_of_one(id: u32) -> Duration {
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // Fields are counted after the name, which may contain spaces: utime and stime are the 14th and 15th.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    };
    Duration::from_millis(ticks().unwrap_or(0) * 1000 / TICKS)
}

/// The memory of a process and its living descendants, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub resident: u64,
    pub peak: u64,
}

pub fn memory(id: u32) -> Memory {
    let mut memory = Memory::default();
    for id in family(id) {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        };
        memory.resident += field("VmRSS:").unwrap_or(0) * 1024;
        memory.peak += field("VmHWM:").unwrap_or(0) * 1024;
    }
    memory
}

/// Returns a port on loopback that nobody listens on.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A directory that is removed when this value is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("switchyard-bench-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Creates an empty directory in it.
    pub fn fresh(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        fs::create_dir(&path)?;
        Ok(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(failed) = fs::remove_dir_all(&self.0) {
            eprintln!("{} stays behind: {failed}", self.0.display());
        }
    }
}
