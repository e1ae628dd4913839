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
    Migrate {
        to: String,
        /// Whether the connection to the other database must be encrypted.
        ssl: bool,
        /// Whether data in the other database are kept, and then nothing is copied.
        keeps: bool,
    },
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
Copies the whole database, logs and counters included, even while a service runs on it.

Usage: switchyard backup DIRECTORY | FILE

In a directory the copy gets a name with the time. A file that exists is not overwritten. The copy is checked after it
is written. Its credentials stay sealed: to restore it, the same ACCOUNT_CREDENTIAL_SECRET is needed.

Options:
  -h, --help             Print this help

Exit status: 0 done; 64 wrong usage; 73 the copy cannot be written; 78 a mistake in the configuration; 1 anything else.
";

const RESTORE_HELP: &str = "\
Fills an empty data directory from a copy made by `backup`, or from a document made by `export`.

Usage: switchyard restore FILE [OPTIONS]

Options:
  --passphrase-file FILE The passphrase of a sealed backup is the first line of this file, or of standard input for -;
                         else it is BACKUP_PASSPHRASE
  -h, --help             Print this help

The whole file is checked before any of it is used, and the restored rows are counted. A copy of a database can be
opened only with the ACCOUNT_CREDENTIAL_SECRET under which it was made. If something goes wrong, the directory stays
empty.

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

Exit status: 0 done; 64 wrong usage; 66 there is no database; 73 the other database cannot be filled; 78 a mistake in the configuration; 1 anything
else.
";

/// Parses the arguments of one of the five commands.
///
/// # Errors
/// Names the argument that is not understood.
pub fn parse(command: &str, arguments: impl Iterator<Item = String>) -> Result<Transfer, String> {
    let help = match command {
        "import" => IMPORT_HELP,
        "export" => EXPORT_HELP,
        "backup" => BACKUP_HELP,
        "migrate" => MIGRATE_HELP,
        _ => RESTORE_HELP,
    };
    let wrong = |what: String| format!("{what}; see switchyard {command} --help");
    let mut path: Option<PathBuf> = None;
    let mut output = None;
    let mut what = BackupScope::All;
    let mut import = Import::default();
    let mut passphrase = PassphraseFrom::default();
    let mut seals = false;
    let (mut to, mut ssl, mut keeps) = (None, false, false);
    let mut arguments = arguments.peekable();
    let mut only_paths = false;
    while let Some(argument) = arguments.next() {
        if only_paths || !argument.starts_with('-') || argument == "-" {
            if command == "export" || command == "migrate" || path.is_some() {
                return Err(wrong(format!("`{argument}` is one argument too many")));
            }
            path = Some(argument.into());
            continue;
        }
        let (name, given) = match argument.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (argument.clone(), None),
        };
        let mut value = || {
            let value = given.clone().or_else(|| arguments.next());
            value.ok_or_else(|| wrong(format!("`{name}` needs a value")))
        };
        match (command, name.as_str()) {
            (_, "-h" | "--help") => return Ok(Transfer::Help(help)),
            (_, "--") => only_paths = true,
            ("import", "--dry-run") if given.is_none() => import.dry_run = true,
            ("import", "--mode") => {
                import.replaces = match value()?.as_str() {
                    "merge" => false,
                    "replace" => true,
                    other => return Err(wrong(format!("`{other}` is not a mode: use merge or replace"))),
                }
            }
            ("import", "--conflict") => {
                import.conflict = match value()?.as_str() {
                    "skip" => Conflict::Skip,
                    "overwrite" => Conflict::Overwrite,
                    "fill" | "fill-empty" => Conflict::Fill,
                    other => {
                        return Err(wrong(format!("`{other}` is not a policy: use skip, overwrite or fill")));
                    }
                }
            }
            ("export", "--type") => {
                let word = value()?;
                what = BackupScope::parse(&word).ok_or_else(|| {
                    wrong(format!("`{word}` is not a type: use all, accounts or preferences"))
                })?;
            }
            ("export", "--seal") if given.is_none() => seals = true,
            ("import" | "restore" | "export", "--passphrase-file") => {
                passphrase = PassphraseFrom::File(value()?.into());
                seals = true;
            }
            ("migrate", "--to") => to = Some(value()?),
            ("migrate", "--ssl") if given.is_none() => ssl = true,
            ("migrate", "--keep") if given.is_none() => keeps = true,
            ("export", "-o" | "--output") => output = Some(PathBuf::from(value()?)),
            _ => return Err(wrong(format!("`{argument}` is not a known option"))),
        }
    }
    if command == "export" {
        let to = output.filter(|path| path.as_os_str() != "-");
        return Ok(Transfer::Export { what, to, seal: seals.then_some(passphrase) });
    }
    if command == "migrate" {
        let to = to.ok_or_else(|| wrong("--to is missing".to_owned()))?;
        return Ok(Transfer::Migrate { to, ssl, keeps });
    }
    let path = path.ok_or_else(|| wrong("the argument FILE is missing".to_owned()))?;
    Ok(match command {
        "import" => Transfer::Import(Import { file: path, passphrase, ..import }),
        "backup" => Transfer::Backup { to: path },
        _ => Transfer::Restore { from: path, passphrase },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stand_before_and_behind_the_file() {
        let parse = |text: &str| {
            let mut words = text.split_whitespace().map(str::to_owned);
            let command = words.next().expect("a command");
            parse(&command, words)
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
