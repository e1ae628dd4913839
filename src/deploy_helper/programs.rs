//! helm and kubectl as child processes: a vector of arguments, never a shell, and an end to every wait.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// What is kept of a program's output.
const MAX_OUTPUT: u64 = 4 << 20;
/// How often it is looked whether a program has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Where lines of progress go.
pub(super) type Tell<'t> = &'t (dyn Fn(&str) + Send + Sync);

/// Runs a program to its end and gives what it printed; each line of it is told as it comes.
pub(super) fn run(
    program: &str,
    arguments: &[&str],
    limit: Duration,
    tell: Tell<'_>,
) -> Result<String, String> {
    tell(&format!("$ {program} {}", arguments.join(" ")));
    output(program, arguments, limit, tell)
}

/// Runs a program whose output is JSON, of which nothing is told.
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
    let (printed, complained) = (child.stdout.take(), child.stderr.take());
    let (status, printed, complained) = thread::scope(|scope| {
        let printed = scope.spawn(|| printed.map(|pipe| lines(pipe, tell)).unwrap_or_default());
        let complained = scope.spawn(|| complained.map(|pipe| lines(pipe, tell)).unwrap_or_default());
        let status = wait(&mut child, limit);
        (status, printed.join().unwrap_or_default(), complained.join().unwrap_or_default())
    });
    let what = format!("{program} {}", arguments[0]);
    match status {
        Ok(Some(status)) if status.success() => Ok(printed),
        Ok(Some(status)) => {
            let why = complained.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            Err(format!("{what} failed ({status}): {why}"))
        }
        Ok(None) => Err(format!("{what} did not end within {} s", limit.as_secs())),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

/// How it ended; `None` when it had to be ended.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<std::process::ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

/// Reads to the end, tells each line, and gives all of it.
fn lines(pipe: impl Read, tell: Tell<'_>) -> String {
    let mut all = String::new();
    for line in BufReader::new(pipe.take(MAX_OUTPUT)).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        tell(line.trim_end());
        all.push_str(&line);
        all.push('\n');
    }
    all
}
