//! Runs helm and kubectl as child processes: with a vector of arguments, never a shell, and with a limit to every wait.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Maximum output kept of each pipe of a program, in bytes.
const MAX_OUTPUT: u64 = 4 << 20;
/// The interval at which it is checked whether a program has ended.
const LOOK: Duration = Duration::from_millis(20);
/// The time that the pipes of an ended program may be silent before nothing more is expected from them.
const AFTER_END: Duration = Duration::from_secs(5);
/// Maximum number of lines that wait to be handled.
const MAX_WAITING_LINES: usize = 1024;

/// The stream that a program wrote a line to.
#[derive(Clone, Copy)]
enum Stream {
    Printed,
    Complained,
}

/// The receiver of progress lines.
pub(super) type Tell<'t> = &'t (dyn Fn(&str) + Send + Sync);

/// Runs a program to its end and returns its standard output; each line is passed on as it arrives.
pub(super) fn run(
    program: &str,
    arguments: &[&str],
    limit: Duration,
    tell: Tell<'_>,
) -> Result<String, String> {
    tell(&format!("$ {program} {}", arguments.join(" ")));
    output(program, arguments, limit, tell)
}

/// Runs a program that prints JSON, without passing its lines on.
pub(super) fn json(program: &str, arguments: &[&str], limit: Duration) -> Result<Value, String> {
    let printed = output(program, arguments, limit, &|_| ())?;
    serde_json::from_str(&printed).map_err(|_| format!("{program} {} printed no JSON", arguments[0]))
}

fn output(program: &str, arguments: &[&str], limit: Duration, tell: Tell<'_>) -> Result<String, String> {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|error| format!("{program} cannot be run: {error}"))?;
    let (lines, heard) = mpsc::sync_channel(MAX_WAITING_LINES);
    let pipes: [(Stream, Option<Box<dyn Read + Send>>); 2] = [
        (Stream::Printed, child.stdout.take().map(|pipe| Box::new(pipe) as _)),
        (Stream::Complained, child.stderr.take().map(|pipe| Box::new(pipe) as _)),
    ];
    for (stream, pipe) in pipes {
        let (Some(pipe), lines) = (pipe, lines.clone()) else { continue };
        thread::spawn(move || read(pipe, |line| lines.send((stream, line)).is_ok()));
    }
    drop(lines);
    let (mut printed, mut last_complaint) = (String::new(), String::new());
    let hear = |(stream, line): (Stream, String)| {
        tell(&line);
        match stream {
            Stream::Printed => {
                printed.push_str(&line);
                printed.push('\n');
            }
            Stream::Complained if !line.trim().is_empty() => last_complaint = line,
            Stream::Complained => {}
        }
    };
    let what = format!("{program} {}", arguments[0]);
    match follow(&mut child, &heard, limit, hear) {
        Ok(Some(status)) if status.success() => Ok(printed),
        Ok(Some(status)) => Err(format!("{what} failed ({status}): {last_complaint}")),
        Ok(None) => Err(format!("{what} did not end within {} s", limit.as_secs())),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

/// Reads a program's lines until it has ended and its pipes are closed. Processes that it has started may keep the pipes
/// open longer; they are not waited for. Returns its exit status; `None` if it had to be killed.
fn follow(
    child: &mut Child,
    heard: &Receiver<(Stream, String)>,
    limit: Duration,
    mut hear: impl FnMut((Stream, String)),
) -> io::Result<Option<ExitStatus>> {
    let limit_at = Instant::now() + limit;
    let mut until = limit_at;
    let mut status = None;
    loop {
        let mut has_spoken = false;
        let are_closed = match heard.recv_timeout(LOOK) {
            Ok(line) => {
                hear(line);
                has_spoken = true;
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        let has_ended = status.is_none() && {
            status = child.try_wait()?;
            status.is_some()
        };
        if has_ended || (has_spoken && status.is_some()) {
            until = limit_at.min(Instant::now() + AFTER_END);
        }
        match status {
            Some(_) if are_closed => return Ok(status),
            _ if Instant::now() >= until => break,
            None if are_closed => thread::sleep(LOOK),
            _ => {}
        }
    }
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(status)
}

/// Reads a pipe to its end and passes each line to `give`, until that returns false.
fn read(pipe: impl Read, mut give: impl FnMut(String) -> bool) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    let mut kept = (&mut pipe).take(MAX_OUTPUT);
    while kept.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        if !give(String::from_utf8_lossy(&line).trim_end().to_owned()) {
            return;
        }
        line.clear();
    }
    // A program that cannot write any more would not end, so the rest is read and dropped.
    let _ = io::copy(&mut pipe, &mut io::sink());
}
