//! The rules on small houses.

use super::*;

/// Returns the faults of a house with these files, whose map has the rooms `top`, then `left` and `right`, then `ground`.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<_> =
        files.iter().map(|(file, code)| (format!("src/{file}"), (*code).to_owned())).collect();
    let map = [("top", 0), ("left", 1), ("right", 1), ("ground", 2)];
    faults(&Modules::of(&files), &map.map(|(room, line)| (room.to_owned(), line)).into())
}

#[test]
fn the_rules_are_kept_in_every_form_of_a_use() {
    let ground = ("ground.rs", "pub struct Earth;");
    let upwards = |path| vec![format!("upwards: ground uses top\n    src/ground.rs  {path}")];
    for (code, expected) in [
        (
            "use crate::top::{self as high, Roof};",
            ["crate::top", "crate::top::Roof"].join("\n    src/ground.rs  "),
        ),
        ("fn f() { crate::top::roof() }", "crate::top::roof".to_owned()),
    ] {
        assert_eq!(found(&[("top.rs", ""), ("ground.rs", code)]), upwards(expected), "{code}");
    }
    for code in [
        "// crate::top::Roof\nconst TEXT: &str = \"\\\"crate::top::Roof\";",
        "#[cfg(test)]\nmod tests { use crate::top::Roof; }",
        "use top::Roof;",
    ] {
        assert_eq!(found(&[("top.rs", ""), ("ground.rs", code)]), Vec::<String>::new(), "{code}");
    }
    assert_eq!(found(&[("top.rs", "use crate::ground::Earth;"), ground]), Vec::<String>::new());
    assert_eq!(
        found(&[("cellar.rs", "use crate::ground::Earth;"), ground]),
        ["not in the map of src/lib.rs: cellar or ground"]
    );
}

#[test]
fn circles_are_found_behind_re_exports_and_a_child_counts_with_its_parent() {
    let rooms = [("left.rs", "use crate::right::R;"), ("right.rs", "use crate::left::L;")];
    let circle = "circle of 2 rooms:\n    left\n    right";
    assert_eq!(found(&rooms), ["circle of 2 files of a room:\n    src/left.rs\n    src/right.rs", circle]);
    let index = ("top/mod.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B;");
    let a = ("top/a.rs", "use super::B;");
    assert_eq!(found(&[index, a, ("top/b.rs", "use super::Other;")]), Vec::<String>::new());
    let circle = "circle of 2 files of a room:\n    src/top/a.rs\n    src/top/b.rs";
    assert_eq!(found(&[index, a, ("top/b.rs", "use crate::top::A;")]), [circle]);
    let child = ("top/b/child.rs", "use super::B;\nuse crate::top::A;");
    assert_eq!(found(&[index, a, ("top/b.rs", "mod child;"), child]), [circle]);
}

#[test]
fn a_table_that_is_not_true_of_its_modules_is_found() {
    let faults_of = |table: &str| {
        let code = format!("//! Words.\n//!\n{table}\nmod a;\npub mod b;\n#[cfg(test)]\nmod tests;\n");
        table_faults(&[("src/x/mod.rs".to_owned(), code)])
    };
    let head = "//! | module | holds |\n//! |---|---|\n";
    assert!(faults_of("//! | file | `c` |").is_empty(), "a table of something else");
    assert!(faults_of(&format!("{head}//! | `a`, [`b`] | both |")).is_empty());
    assert_eq!(
        faults_of(&format!("{head}//! | `a` | `a::f` |")),
        ["src/x/mod.rs: the table does not name `b`"]
    );
    assert_eq!(
        faults_of(&format!("{head}//! | `a`, `b`, `c` | three |")),
        ["src/x/mod.rs: the table names `c`, which is no module of it"]
    );
}
