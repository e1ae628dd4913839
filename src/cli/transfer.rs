//! `switchyard import | export | backup | restore | migrate`: moves the configuration in and out of a database.
//!
//! | command | what it does |
//! |---|---|
//! | `import` | imports a backup, or the file of another gateway, into the data directory |
//! | `export` | writes a backup as a JSON document, credentials in clear |
//! | `backup` | copies the whole database, history included, credentials sealed |
//! | `restore` | fills an empty data directory from either |
//! | `migrate` | copies everything into another database, credentials sealed |
//!
//! `import`, `export` and `migrate` open the data directory as the service does, and are refused while one is running
//! there: its admin API offers each of them. `backup` only reads, and can run beside the service.

use std::path::PathBuf;

use super::passphrase::PassphraseFrom;
use crate::backup::{BackupScope, Conflict};

/// A transfer command with its arguments.
#[derive(Debug, PartialEq, Eq)]
pub enum Transfer {
    Import(Import),
    Export {
        what: BackupScope,
        to: Option<PathBuf>,
        /// The passphrase's source, if the backup is to be sealed.
        seal: Option<PassphraseFrom>,
    },
    Backup {
        to: PathBuf,
    },
    Restore {
        from: PathBuf,
        passphrase: PassphraseFrom,
    },
    Migrate(Migration),
    /// The text that `--help` of a command prints.
    Help(&'static str),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Import {
    pub file: PathBuf,
    pub passphrase: PassphraseFrom,
    pub dry_run: bool,
    /// Whether stored rows that the file does not have are deleted.
    pub replaces: bool,
    pub conflict: Conflict,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// The address of the other database.
    pub to: String,
    /// Whether the connection to it must be encrypted.
    pub ssl: bool,
    /// Whether data in it are kept, and then nothing is copied.
    pub keeps: bool,
}

const IMPORT_HELP: &str = "\
Takes a backup, or the file of another gateway, into the data directory.

Usage: switchyard import FILE [OPTIONS]

FILE, or standard input for -, is recognised by its content:
  a backup of Switchyard                  JSON, from `export` or the admin API, sealed or not
  a backup or the database of metapi      JSON; hub.db
  an export of All API Hub                JSON, versions 1.0 to 4.0
  a database of new-api or one-api        SQLite, one-api.db
  accounts of sub2api                     JSON, type sub2api-data
  a configuration of CLIProxyAPI          config.yaml: its keys; logins come in through POST /api/oauth/import
  a configuration of LiteLLM              config.yaml: its model_list

Options:
  --dry-run              Print row by row what would be done, and change nothing
  --mode MODE            merge (the default): nothing is deleted; replace: rows that the file does not have are deleted
  --conflict POLICY      What to do with existing rows: overwrite (the default), skip, or fill only empty fields
  --passphrase-file FILE The passphrase of a sealed backup is the first line of this file, or of standard input for -;
                         else it is BACKUP_PASSPHRASE
  -h, --help             Print this help

The file is only read, and no site is asked. Everything is imported, or nothing. What cannot be imported is listed
with the reason. To decrypt passwords in files of metapi, set IMPORT_CREDENTIAL_SECRET to that instance's
ACCOUNT_CREDENTIAL_SECRET, or if it has none, to its AUTH_TOKEN.

A service that runs on the data directory must be stopped first, or asked: POST /api/settings/backup/import.

Exit status: 0 done; 64 wrong usage; 65 the file cannot be imported, or a dry run refused rows; 66 no such file;
78 a mistake in the configuration; 1 anything else.
";

const EXPORT_HELP: &str = "\
Writes the configuration in the data directory as a backup: a JSON document with a checksum.

Usage: switchyard export [OPTIONS]

Options:
  --type TYPE            all (the default), accounts or preferences
  -o, --output FILE      Write to this file, for its owner only, instead of standard output; an existing one is replaced
  --seal                 Encrypt it with the passphrase in BACKUP_PASSPHRASE; `import` and `restore` need the same one
  --passphrase-file FILE Encrypt it with the first line of this file, or of standard input for -
  -h, --help             Print this help

Unless it is sealed, the document holds all credentials in clear, so that it can be imported anywhere: keep it as safe
as the credentials. It is not written to a terminal. Logs and counters are not in it: `switchyard backup` copies those,
too.

A service that runs on the data directory must be stopped first, or asked: GET /api/settings/backup/export.

Exit status: 0 done; 64 wrong usage; 66 there is no database; 73 the file cannot be written; 78 a mistake in the
configuration; 1 anything else.
";

const BACKUP_HELP: &str = "\
Copies the whole database in use, logs and counters included, even while a service runs on it.

Usage: switchyard backup DIRECTORY | FILE

In a directory the copy gets a name with the time. A file that exists is not overwritten. The copy is checked after it
is written. Its credentials stay sealed: to restore it, the same ACCOUNT_CREDENTIAL_SECRET is needed.

Options:
  -h, --help             Print this help

Exit status: 0 done; 64 wrong usage; 66 there is no database; 73 the copy cannot be written; 78 a mistake in the
configuration; 1 anything else.
";

const RESTORE_HELP: &str = "\
Fills an empty data directory from a copy made by `backup`, or from a document made by `export`.

Usage: switchyard restore FILE [OPTIONS]

Options:
  --passphrase-file FILE The passphrase of a sealed backup is the first line of this file, or of standard input for -;
                         else it is BACKUP_PASSPHRASE
  -h, --help             Print this help

The whole file is checked before any of it is used, and the restored rows are counted. A copy of a database can be
opened only with the ACCOUNT_CREDENTIAL_SECRET under which it was made. The address of another database in its settings
is removed. If something goes wrong, the directory stays empty.

Exit status: 0 done; 64 wrong usage; 65 the file is damaged or something else; 66 no such file; 73 the data directory
is not empty; 78 a mistake in the configuration, or another secret; 1 anything else.
";

const MIGRATE_HELP: &str = "\
Copies everything into another database that is not in use.

Usage: switchyard migrate --to ADDRESS [OPTIONS]

ADDRESS is postgres://user:password@host:port/database, mysql://user:password@host:port/database, or the path of an
SQLite file. A database on a server must exist already; its tables are created.

Options:
  --to ADDRESS           The target; - reads the address, which may hold a password, from standard input
  --keep                 Refuse a database that holds any row, instead of emptying it first
  --ssl                  Encrypt the connection to the server, as DB_SSL does
  -h, --help             Print this help

The database in use is only read. Every table is read back and compared before anything is kept, and the copied rows are
counted. Afterwards set DB_TYPE and DB_URL to the new database; keep the same ACCOUNT_CREDENTIAL_SECRET.

A service that runs on the data directory must be stopped first, or asked: POST /api/settings/database/migrate.

Exit status: 0 done; 64 wrong usage; 66 there is no database; 73 the other database cannot be filled; 78 a mistake in
the configuration; 1 anything else.
";

/// A command that copies data in, out or to another database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    Import,
    Export,
    Backup,
    Restore,
    Migrate,
}

impl TransferKind {
    /// Returns the command of this name.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Import, Self::Export, Self::Backup, Self::Restore, Self::Migrate];
        all.into_iter().find(|command| command.as_str() == name)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::Export => "export",
            Self::Backup => "backup",
            Self::Restore => "restore",
            Self::Migrate => "migrate",
        }
    }

    /// Returns the transfer that prints how the command is used.
    pub fn help(self) -> Transfer {
        Transfer::Help(match self {
            Self::Import => IMPORT_HELP,
            Self::Export => EXPORT_HELP,
            Self::Backup => BACKUP_HELP,
            Self::Restore => RESTORE_HELP,
            Self::Migrate => MIGRATE_HELP,
        })
    }

    fn takes_file(self) -> bool {
        matches!(self, Self::Import | Self::Backup | Self::Restore)
    }

    /// Returns the options that have a value.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Import => &["--mode", "--conflict", "--passphrase-file"],
            Self::Export => &["--type", "-o", "--output", "--passphrase-file"],
            Self::Backup => &[],
            Self::Restore => &["--passphrase-file"],
            Self::Migrate => &["--to"],
        }
    }
}

/// Parses the arguments of a command.
///
/// # Errors
/// Names the argument that is not understood.
pub fn parse(command: TransferKind, arguments: impl Iterator<Item = String>) -> Result<Transfer, String> {
    read(command, arguments).map_err(|wrong| format!("{wrong}; see switchyard {} --help", command.as_str()))
}

fn read(command: TransferKind, mut arguments: impl Iterator<Item = String>) -> Result<Transfer, String> {
    let mut options = Options::default();
    let mut only_paths = false;
    while let Some(argument) = arguments.next() {
        if only_paths || !argument.starts_with('-') || argument == "-" {
            if !command.takes_file() || options.path.is_some() {
                return Err(format!("`{argument}` is one argument too many"));
            }
            options.path = Some(argument.into());
            continue;
        }
        let (name, given) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        match name {
            "-h" | "--help" => return Ok(command.help()),
            "--" => only_paths = true,
            _ if given.is_none() && options.raise(command, name) => {}
            _ if command.options().contains(&name) => {
                let value = given.or_else(|| arguments.next());
                options.set(name, value.ok_or_else(|| format!("`{name}` needs a value"))?)?;
            }
            _ => return Err(format!("`{argument}` is not a known option")),
        }
    }
    options.of(command)
}

/// The arguments of any of the commands.
#[derive(Default)]
struct Options {
    path: Option<PathBuf>,
    import: Import,
    passphrase: PassphraseFrom,
    seals: bool,
    what: Option<BackupScope>,
    output: Option<PathBuf>,
    to: Option<String>,
    migration: Migration,
}

impl Options {
    /// Sets an option without a value; false if the command has none of this name.
    fn raise(&mut self, command: TransferKind, name: &str) -> bool {
        let flag = match (command, name) {
            (TransferKind::Import, "--dry-run") => &mut self.import.dry_run,
            (TransferKind::Export, "--seal") => &mut self.seals,
            (TransferKind::Migrate, "--ssl") => &mut self.migration.ssl,
            (TransferKind::Migrate, "--keep") => &mut self.migration.keeps,
            _ => return false,
        };
        *flag = true;
        true
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "--mode" => {
                self.import.replaces = match value.as_str() {
                    "merge" => false,
                    "replace" => true,
                    other => return Err(format!("`{other}` is not a mode: use merge or replace")),
                }
            }
            "--conflict" => {
                self.import.conflict = match value.as_str() {
                    "skip" => Conflict::Skip,
                    "overwrite" => Conflict::Overwrite,
                    "fill" | "fill-empty" => Conflict::Fill,
                    other => return Err(format!("`{other}` is not a policy: use skip, overwrite or fill")),
                }
            }
            "--type" => {
                let scope = BackupScope::parse(&value);
                self.what =
                    Some(scope.ok_or_else(|| {
                        format!("`{value}` is not a type: use all, accounts or preferences")
                    })?);
            }
            "--passphrase-file" => {
                self.passphrase = PassphraseFrom::File(value.into());
                self.seals = true;
            }
            "--to" => self.to = Some(value),
            _ => self.output = Some(value.into()),
        }
        Ok(())
    }

    fn of(self, command: TransferKind) -> Result<Transfer, String> {
        let path = self.path.ok_or("the argument FILE is missing");
        Ok(match command {
            TransferKind::Export => Transfer::Export {
                what: self.what.unwrap_or(BackupScope::All),
                to: self.output.filter(|path| path.as_os_str() != "-"),
                seal: self.seals.then_some(self.passphrase),
            },
            TransferKind::Migrate => {
                Transfer::Migrate(Migration { to: self.to.ok_or("--to is missing")?, ..self.migration })
            }
            TransferKind::Import => {
                Transfer::Import(Import { file: path?, passphrase: self.passphrase, ..self.import })
            }
            TransferKind::Backup => Transfer::Backup { to: path? },
            TransferKind::Restore => Transfer::Restore { from: path?, passphrase: self.passphrase },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_help_text_exceeds_120_columns() {
        let texts = [crate::cli::HELP, IMPORT_HELP, EXPORT_HELP, BACKUP_HELP, RESTORE_HELP, MIGRATE_HELP];
        let long = texts.iter().flat_map(|text| text.lines()).find(|line| line.chars().count() > 120);
        assert_eq!(long, None);
    }

    #[test]
    fn options_stand_before_and_behind_the_file() {
        let parse = |text: &str| {
            let mut words = text.split_whitespace().map(str::to_owned);
            let command = words.next().expect("a command");
            parse(TransferKind::parse(&command).expect("a command"), words)
        };
        let file = || PathBuf::from("a.db");
        for text in [
            "import a.db --dry-run --mode replace --conflict=skip",
            "import --conflict skip --mode=replace --dry-run a.db",
        ] {
            let expected = Import {
                file: file(),
                dry_run: true,
                replaces: true,
                conflict: Conflict::Skip,
                ..Import::default()
            };
            assert_eq!(parse(text), Ok(Transfer::Import(expected)), "{text}");
        }
        assert_eq!(
            parse("import -- a.db"),
            Ok(Transfer::Import(Import { file: file(), ..Import::default() }))
        );
        assert_eq!(
            parse("export --type ACCOUNTS -o a.db"),
            Ok(Transfer::Export { what: BackupScope::Accounts, to: Some(file()), seal: None })
        );
        assert_eq!(parse("export"), Ok(Transfer::Export { what: BackupScope::All, to: None, seal: None }));
        for (text, seal) in [
            ("export --seal", PassphraseFrom::Configuration),
            ("export --seal --passphrase-file a.db", PassphraseFrom::File(file())),
            ("export --passphrase-file=a.db", PassphraseFrom::File(file())),
        ] {
            let expected = Transfer::Export { what: BackupScope::All, to: None, seal: Some(seal) };
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        assert_eq!(parse("backup a.db"), Ok(Transfer::Backup { to: file() }));
        let restore = |passphrase| Transfer::Restore { from: file(), passphrase };
        assert_eq!(parse("restore a.db"), Ok(restore(PassphraseFrom::Configuration)));
        let expected = restore(PassphraseFrom::File("-".into()));
        assert_eq!(parse("restore a.db --passphrase-file -"), Ok(expected));
        assert!(matches!(parse("restore -h"), Ok(Transfer::Help(text)) if text.contains("restore FILE")));
        for text in [
            "import",
            "import a b",
            "import a --mode x",
            "import a --mode",
            "export a",
            "backup",
            "backup a --type all",
            "backup a --passphrase-file b",
            "import a --seal",
            "restore a --passphrase-file",
        ] {
            assert!(parse(text).is_err_and(|message| message.contains("--help")), "{text}");
        }
    }
}
