//! Runs the five transfer commands.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::failure::{CANNOT_CREATE, CONFIGURATION, DATA, Failure, NO_INPUT, OTHER, USAGE};
use super::import;
use super::interruption::{self, OnInterruption, on_interruption, remove_on_interruption};
use super::passphrase::PassphraseFrom;
use super::print;
use super::progress::Progress;
use super::transfer::{Import, Migration, Transfer};
use crate::backup::sealed::Sealing;
use crate::backup::{self, BackupScope, Document, ImportError, ImportOptions};
use crate::config::{Config, DatabaseKind, DatabaseTls};
use crate::core::{Core, StartError, store_options};
use crate::store::copies::{self, Counts};
use crate::store::inspect;
use crate::store::relocate::{self, DatabaseAddress};
use crate::store::restore::{self, Restore};
use crate::store::{OpenError, StoreOptions};
use crate::time::now_ms;
use crate::unfinished::{self, DRY_RUN, IMPORT, PartialFile, WorkDirectory};

/// Maximum length of a database address that is read from standard input, in bytes.
const MAX_ADDRESS: u64 = 4096;

/// Runs a command and prints its result on standard output.
///
/// # Errors
/// Says what was not done and why, and with which status the process ends.
pub async fn run(config: Config, transfer: Transfer) -> Result<(), Failure> {
    let progress = Progress::new();
    interruption::listen()
        .map_err(|error| Failure::new(OTHER, format!("cannot listen for signals: {error}")))?;
    let data_dir = config.data_dir.clone();
    let _interruption = on_interruption(move || unfinished::remove_own_directories(&data_dir, IMPORT));
    match transfer {
        Transfer::Help(text) => print(text),
        Transfer::Import(task) => import_file(config, &task, &progress).await,
        Transfer::Export { what, to, seal } => {
            let passphrase = seal.map(|from| from.required(&config)).transpose()?;
            export(config, what, to.as_deref(), passphrase, &progress).await
        }
        Transfer::Backup { to } => back_up(&config, &to, &progress),
        Transfer::Migrate(task) => migrate(config, task, &progress).await,
        Transfer::Restore { from, passphrase } => restore_file(config, &from, &passphrase, &progress).await,
    }
}

async fn import_file(mut config: Config, task: &Import, progress: &Progress) -> Result<(), Failure> {
    let options = store_options(&config);
    // A dry run must not leave a database behind.
    let looks_only = task.dry_run && restore::refuse_used(&options).is_ok();
    let scratch = looks_only.then(|| Scratch::new(&config.data_dir)).transpose()?;
    if let Some(scratch) = &scratch {
        config.data_dir = scratch.directory.path().to_owned();
        config.database.url = String::new();
    }
    // Read before the database is opened and created: a wrong file leaves nothing behind.
    let opened = import::open(&task.file, &task.passphrase, &config, progress)?;
    let core = if task.dry_run { start(config).await? } else { start_on_disk(config).await? };
    let imported = import::run(&core, opened, task, progress).await;
    core.stop().await;
    let (text, is_refused) = imported?;
    print(&text)?;
    if is_refused {
        Err(Failure::new(DATA, "some rows are refused, so the import would be refused, too"))
    } else {
        Ok(())
    }
}

async fn export(
    config: Config,
    what: BackupScope,
    to: Option<&Path>,
    passphrase: Option<String>,
    progress: &Progress,
) -> Result<(), Failure> {
    let is_sealed = passphrase.is_some();
    let output = Output::open(to, is_sealed)?;
    let is_file = matches!(output, Output::File(_));
    let core = start_on_data(config).await?;
    let exported = match output {
        Output::Stream(out) => {
            let written = progress.during("Exporting", write(&core, what, out, passphrase)).await;
            written.map(drop).map_err(Into::into)
        }
        Output::File(target) => export_file(&core, what, &target, passphrase, progress).await,
    };
    core.stop().await;
    exported.map_err(|error| not_written(to, &*error))?;
    if let Some(to) = to.filter(|_| is_file) {
        let advice = if is_sealed {
            "It can be opened only with its passphrase."
        } else {
            "It holds all credentials in clear: keep it as safe as the credentials themselves."
        };
        progress.step(&format!("Written to {}. {advice}", to.display()));
    }
    Ok(())
}

/// The target of an export.
enum Output {
    /// Standard output, a pipe or a device.
    Stream(Box<dyn Write + Send>),
    File(PathBuf),
}

impl Output {
    fn open(to: Option<&Path>, is_sealed: bool) -> Result<Self, Failure> {
        let Some(path) = to else {
            refuse_terminal(&io::stdout(), is_sealed)?;
            return Ok(Self::Stream(Box::new(io::stdout())));
        };
        // The target of a link is replaced, not the link. What is no file (`/dev/stdout`, a pipe) is written to.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if !import::is_stream(&target) {
            return Ok(Self::File(target));
        }
        let stream = OpenOptions::new().write(true).open(&target).map_err(|error| not_written(to, &error))?;
        refuse_terminal(&stream, is_sealed)?;
        Ok(Self::Stream(Box::new(stream)))
    }
}

fn refuse_terminal(output: &impl IsTerminal, is_sealed: bool) -> Result<(), Failure> {
    if !output.is_terminal() {
        return Ok(());
    }
    let why =
        if is_sealed { "a sealed backup is not text" } else { "a backup holds all credentials in clear" };
    let message = format!("{why} and is not written to a terminal: use -o FILE, or redirect the output");
    Err(Failure::new(USAGE, message))
}

fn not_written(to: Option<&Path>, error: &dyn Error) -> Failure {
    let place = to.map(|to| format!("{}: ", to.display())).unwrap_or_default();
    Failure::new(CANNOT_CREATE, format!("{place}{error}"))
}

/// Exports into a file, which is complete when it has its name.
async fn export_file(
    core: &Arc<Core>,
    what: BackupScope,
    target: &Path,
    passphrase: Option<String>,
    progress: &Progress,
) -> Result<(), Box<dyn Error>> {
    remove_left_parts(target);
    let mut partial = PartialFile::of(target);
    let _interruption = remove_on_interruption(partial.path().to_owned());
    let out = partial.create()?;
    let file = progress.during("Exporting", write(core, what, out, passphrase)).await?;
    file.sync_all()?;
    Ok(partial.finish()?)
}

/// Writes a backup, sealed if there is a passphrase, and returns the flushed writer.
async fn write<W: Write + Send + 'static>(
    core: &Arc<Core>,
    what: BackupScope,
    out: W,
    passphrase: Option<String>,
) -> Result<W, ImportError> {
    let mut out = match passphrase {
        None => backup::export(core, what, out).await?,
        Some(passphrase) => backup::export(core, what, Sealing::new(out, &passphrase)?).await?.finish()?,
    };
    out.flush()?;
    Ok(out)
}

async fn migrate(config: Config, task: Migration, progress: &Progress) -> Result<(), Failure> {
    let mut to = task.to;
    if to == "-" {
        to.clear();
        let read = io::stdin().take(MAX_ADDRESS).read_to_string(&mut to);
        read.map_err(|error| Failure::new(NO_INPUT, format!("standard input: {error}")))?;
    }
    let url = to.trim().to_owned();
    let tls = DatabaseTls { is_required: task.ssl, ..config.database.tls.clone() };
    let kind = DatabaseKind::of_address(&url).ok_or_else(|| {
        let message = "--to must begin with postgres://, mysql:// or sqlite://, or be the path of a file";
        Failure::new(USAGE, message)
    })?;
    let place = DatabaseAddress { kind, url, tls, data_dir: config.data_dir.clone() };
    let core = start_on_data(config).await?;
    if place.is_same_place(&core.database) {
        core.stop().await;
        return Err(Failure::new(USAGE, "--to is the database already in use: name another one"));
    }
    if let Err(error) = core.report_alive().await {
        core.stop().await;
        return Err(Failure::new(OTHER, error.to_string()));
    }
    let (store, shown) = (core.store.clone(), place.masked());
    let work = tokio::task::spawn_blocking(move || relocate::copy(&store, &place, !task.keeps, &|_| {}));
    let copied = progress.during(&format!("Copying into {shown}"), work).await;
    core.stop().await;
    let copied = copied.map_err(|error| Failure::new(OTHER, error.to_string()))?;
    let copied = copied.map_err(|error| Failure::new(CANNOT_CREATE, error.to_string()))?;
    let filled = copied.iter().filter(|copied| copied.rows > 0);
    let lines: String = filled.map(|copied| format!("{:>12}  {}\n", copied.rows, copied.table)).collect();
    print(&lines)
}

fn back_up(config: &Config, to: &Path, progress: &Progress) -> Result<(), Failure> {
    let is_named = !to.is_dir();
    let to = if is_named { to.to_owned() } else { to.join(copy_name()) };
    if is_named && to.exists() {
        return Err(exists_already(&to));
    }
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    if to.as_os_str().as_bytes().ends_with(b"/") || parent.is_some_and(|parent| !parent.is_dir()) {
        let message = format!("{}: the directory does not exist; create it first", to.display());
        return Err(Failure::new(CANNOT_CREATE, message));
    }
    let options = inspect::in_use(store_options(config)).map_err(|error| refused(&error))?;
    let database = copies::file_of(&options).map_err(|error| refused(&error))?;
    require_data(&options)?;
    progress.step(&format!("Copying {}", database.display()));
    remove_left_parts(&to);
    let partial = PartialFile::of(&to);
    let _interruption = remove_on_interruption(partial.path().to_owned());
    let counts = copies::save(&options, partial.path()).map_err(|error| Failure {
        code: if error.exit_code() == OTHER { CANNOT_CREATE } else { error.exit_code() },
        ..refused(&error)
    })?;
    let to = name_copy(&partial, to, is_named)?;
    print(&format!("{}\n\n{}", to.display(), table(&counts)))
}

/// Gives a finished copy its name, and returns that. Another copy may have been given the name in the meantime: unless an
/// operator gave it, the next one that is free is used.
fn name_copy(partial: &PartialFile, target: PathBuf, is_named: bool) -> Result<PathBuf, Failure> {
    let mut name = target.clone();
    for number in 2.. {
        match partial.name_new(&name) {
            Ok(()) => break,
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(not_written(Some(&name), &error));
            }
            Err(_) if is_named => return Err(exists_already(&name)),
            Err(_) => name = target.with_extension(format!("{number}.db")),
        }
    }
    Ok(name)
}

fn exists_already(target: &Path) -> Failure {
    let message = format!("{} exists already and is not overwritten: give another name", target.display());
    Failure::new(CANNOT_CREATE, message)
}

/// Deletes the unfinished files that killed commands with such a target have left beside it.
fn remove_left_parts(target: &Path) {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    // Each copy of the database has a name of its own.
    let is_copy = |name: &str| name.starts_with("switchyard-") && name.ends_with(".db");
    let is_such = |other: &str| other == name || is_copy(other) && is_copy(&name);
    unfinished::remove_left_files(directory.unwrap_or(Path::new(".")), is_such);
}

async fn restore_file(
    config: Config,
    from: &Path,
    passphrase: &PassphraseFrom,
    progress: &Progress,
) -> Result<(), Failure> {
    let options = store_options(&config);
    restore::refuse_used(&options).map_err(|error| Failure { code: CANNOT_CREATE, ..refused(&error) })?;
    // A pipe can be read only once.
    let copy = import::is_stream(from).then(|| copy_of_pipe(from, &config.data_dir)).transpose()?;
    let copied = copy.as_ref().map(|copy| copy.path().join(PIPED));
    let given = from.display().to_string();
    let from = copied.as_deref().unwrap_or(from);
    let document = read_backup(&config, from, passphrase, progress).map_err(|failure| Failure {
        // Names what the operator named, not the copy of a pipe.
        message: failure.message.replace(&from.display().to_string(), &given),
        ..failure
    })?;
    let restore = Restore::begin(&options).map_err(|error| refused(&error))?;
    let undone = store_options(&config);
    let interruption = on_interruption(move || restore::remove(&undone));
    let filled = fill(config, &restore, from, document, progress).await;
    let finished = filled.and_then(|()| restore.finish().map_err(|error| refused(&error)));
    finished.inspect_err(|_| restore::remove(&options))?;
    // From now on it is kept.
    drop(interruption);
    let counts = copies::counts(&options).map_err(|error| refused(&error))?;
    print(&format!("Restored into {}\n\n{}", options.data_dir.display(), table(&counts)))
}

/// The name of the copy of a pipe.
const PIPED: &str = "piped";

/// Copies what a pipe sends into a file in a directory of its own.
fn copy_of_pipe(from: &Path, data_dir: &Path) -> Result<WorkDirectory, Failure> {
    let failed = |error: io::Error| Failure::new(NO_INPUT, format!("{}: {error}", from.display()));
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir);
    let directory = made.and_then(|()| WorkDirectory::create(data_dir, IMPORT)).map_err(failed)?;
    let copied = File::open(from)
        .and_then(|mut pipe| io::copy(&mut pipe, &mut File::create(directory.path().join(PIPED))?));
    copied.map(|_| directory).map_err(failed)
}

/// Checks a backup. Returns its document, or `None` for the copy of a database.
fn read_backup(
    config: &Config,
    from: &Path,
    passphrase: &PassphraseFrom,
    progress: &Progress,
) -> Result<Option<Document>, Failure> {
    let missing = |error: io::Error| Failure::new(NO_INPUT, format!("{}: {error}", from.display()));
    let mut head = Vec::new();
    File::open(from).and_then(|file| file.take(16).read_to_end(&mut head)).map_err(missing)?;
    if head.starts_with(b"SQLite format 3\0") {
        progress.step("Copying and checking");
        copies::check(from).map_err(|error| Failure { code: DATA, ..refused(&error) })?;
        return Ok(None);
    }
    let opened = import::open(from, passphrase, config, progress)?;
    if opened.taken_over.is_some() {
        let message = format!(
            "{}: this is {}, not a backup of Switchyard; `switchyard import` can read it",
            from.display(),
            opened.name
        );
        return Err(Failure::new(DATA, message));
    }
    Ok(Some(opened.document))
}

/// Fills a database that is being restored with a document, or with a copy.
async fn fill(
    mut config: Config,
    restore: &Restore,
    from: &Path,
    document: Option<Document>,
    progress: &Progress,
) -> Result<(), Failure> {
    config.database.url = restore.address().map_err(|error| refused(&error))?;
    let Some(document) = document else {
        let named_another = restore.copy(from).map_err(|error| refused(&error))?;
        // Its keys must open and its schema must be updated.
        start(config).await?.stop().await;
        if named_another {
            progress.step(
                "The address of another database was removed from the settings: a start uses the restored one",
            );
        }
        return Ok(());
    };
    let core = start(config).await?;
    let how = ImportOptions::default();
    let at = how.progress.clone();
    let restored = progress.following(&at, backup::import(&core, document, how)).await;
    core.stop().await;
    restored.map(drop).map_err(import::failure)
}

/// Starts the core without the server; it opens the store, which only one process at a time may use.
async fn start(config: Config) -> Result<Arc<Core>, Failure> {
    let started = Core::start(config).await;
    started.map_err(|StartError { message, exit_code }| Failure::new(exit_code, message))
}

/// Starts the core like [`start`]; fails if there is no data to read.
async fn start_on_data(config: Config) -> Result<Arc<Core>, Failure> {
    require_data(&store_options(&config))?;
    start_on_disk(config).await
}

/// Refuses a data directory without a database.
fn require_data(options: &StoreOptions) -> Result<(), Failure> {
    copies::require(options).map_err(|error| match error {
        OpenError::Missing(_) => Failure { code: NO_INPUT, ..refused(&error) },
        _ => refused(&error),
    })
}

/// Starts the core like [`start`]; fails if its database is in memory, which is empty and ends with this command.
async fn start_on_disk(config: Config) -> Result<Arc<Core>, Failure> {
    let core = start(config).await?;
    if core.database.is_in_memory() {
        core.stop().await;
        let message = "the database is in memory, and each process has one of its own: ask the running service \
                       through its admin API";
        return Err(Failure::new(CONFIGURATION, message));
    }
    Ok(core)
}

fn refused(error: &OpenError) -> Failure {
    Failure::new(error.exit_code(), error.to_string())
}

/// Returns the name of a copy: `switchyard-20260501-080000.db`, in UTC.
fn copy_name() -> String {
    let time: String =
        crate::time::iso(now_ms()).chars().filter(|c| !matches!(c, '-' | ':')).take(15).collect();
    format!("switchyard-{}.db", time.replace('T', "-"))
}

fn table(counts: &Counts) -> String {
    counts.iter().map(|(table, rows)| format!("{table:<24}{rows:>9}\n")).collect()
}

/// A temporary directory for a dry run, removed when dropped.
struct Scratch {
    directory: WorkDirectory,
    _interruption: OnInterruption,
}

impl Scratch {
    /// Creates it where temporary files go; in a container without such a place, in the data directory.
    fn new(data_dir: &Path) -> Result<Self, Failure> {
        let [usual, last] = [std::env::temp_dir(), data_dir.to_owned()];
        let create = |parent: &Path| {
            WorkDirectory::create(parent, DRY_RUN)
                .map_err(|error| Failure::new(OTHER, format!("{}: {error}", parent.display())))
        };
        for parent in [&usual, &last] {
            unfinished::remove_left_directories(parent, DRY_RUN);
        }
        let directory = create(&usual).or_else(|_| create(&last))?;
        let removed = directory.path().to_owned();
        let interruption = on_interruption(move || drop(fs::remove_dir_all(removed)));
        Ok(Self { directory, _interruption: interruption })
    }
}
