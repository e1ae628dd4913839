//! Feeds every parser of outside bytes with input that nobody would send.
//!
//! A target is a check that must hold for any input. Each run mutates seeds, which are real bodies of every dialect, with a
//! random generator of its own, so a run can be repeated by its number, and the stable toolchain suffices. `make test` does
//! a few hundred runs of each target; `make fuzz` does as many as fit into `FUZZ_SECONDS` (20 by default, 600 for a long
//! night) per target.
//!
//! An input that breaks a check is written to `target/tmp`, and the number of its run is printed: `FUZZ_RUN=<number> cargo
//! test --test fuzz <target>` repeats it.

mod answers;
mod bodies;
mod dialects;
mod mutate;
mod readers;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

pub use mutate::Random;

/// The runs of a target if no time is given.
const RUNS: u64 = 300;

/// Runs `check` on mutations of the seeds.
pub fn fuzz(target: &str, seeds: &[&str], words: &[&str], check: impl Fn(&[u8], &mut Random)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let run = |number: u64| {
        let mut random = Random::new(number);
        let input = mutate::mutated(seeds, words, &mut random);
        let outcome = catch_unwind(AssertUnwindSafe(|| check(&input, &mut random)));
        if let Err(panic) = outcome {
            let place =
                std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{target}-{number}"));
            let saved = std::fs::write(&place, &input).map(|()| place.display().to_string());
            eprintln!("run {number} of {target} broke ({saved:?}):\n{}", input.escape_ascii());
            resume_unwind(panic);
        }
    };
    if let Some(only) = number("FUZZ_RUN") {
        return run(only);
    }
    let Some(seconds) = number("FUZZ_SECONDS") else { return (0..RUNS).for_each(run) };
    // Another night may begin at another number.
    let first = number("FUZZ_FIRST").unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut done = 0;
    while Instant::now() < end {
        run(first + done);
        done += 1;
    }
    eprintln!("{target}: {done} runs, all well");
}

/// Cuts bytes into pieces at random places.
pub fn pieces<'b>(bytes: &'b [u8], random: &mut Random) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    let longest = [1, 2, 7, 64, 4096][random.below(5)];
    while !rest.is_empty() {
        let (piece, after) = rest.split_at((1 + random.below(longest)).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
