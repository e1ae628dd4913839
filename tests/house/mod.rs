//! The map in `src/lib.rs` holds: no room of `src/` uses one above it, and neither rooms nor the files of a room use each
//! other in a circle. The tables of modules hold, too: they name all modules of their file, and nothing else.
//!
//! A use is a path in the code, in a `use` or in line (`super::Row`, `sites::insert`). It is followed through `use` and
//! `pub use` to the file that has the item, so a `mod.rs` that only re-exports is part of no circle. A file and its child
//! files count as one if a child uses its parent's items, but a room and its files do not. Rooms on one line of the map may
//! use each other in one direction. Test modules may use everything.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::mem;
use std::path::Path;

mod modules;
mod tests;

use modules::Modules;

/// Where the arrows from each node end.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns what breaks the rules, given the line of the map on which each room stands.
fn faults(modules: &Modules, map: &HashMap<String, usize>) -> Vec<String> {
    let mut rooms = BTreeMap::<(&str, String), String>::new();
    let mut files = Vec::new();
    let mut parents = HashMap::new();
    for (from, path) in &modules.uses {
        let Some((to, is_item)) = modules.resolve(from, path, 0) else { continue };
        if from == "crate" || to == "crate" || *from == to {
            continue;
        }
        let (user, used) = (room_of(from), room_of(&to).to_owned());
        let is_room = modules.files[&to].ends_with("/mod.rs") && to == format!("crate::{used}");
        if user != used {
            let place = format!("\n    {}  {path}", modules.files[from]);
            rooms.entry((user, used)).or_default().push_str(&place);
        }
        if is_item && from.starts_with(&format!("{to}::")) && !is_room {
            parents.insert(from.clone(), to);
        } else if is_item {
            files.push((from.clone(), to));
        }
    }
    let mut faults = Vec::new();
    for ((user, used), places) in &rooms {
        match (map.get(*user), map.get(used)) {
            (Some(line), Some(line_below)) if line <= line_below => {}
            (Some(_), Some(_)) => faults.push(format!("upwards: {user} uses {used}{places}")),
            _ => faults.push(format!("not in the map of src/lib.rs: {user} or {used}")),
        }
    }
    let file = |module: &str| modules.files[whole(module, &parents)].clone();
    faults.extend(circles("files of a room", files.iter().map(|(from, to)| (file(from), file(to)))));
    faults.extend(circles("rooms", rooms.keys().map(|(user, used)| ((*user).to_owned(), used.clone()))));
    faults
}

/// Returns the module that this one counts as, given the parents whose items their children use.
fn whole<'m>(module: &'m str, parents: &'m HashMap<String, String>) -> &'m str {
    parents.get(module).map_or(module, |parent| whole(parent, parents))
}

fn room_of(module: &str) -> &str {
    module.split("::").nth(1).unwrap_or("lib")
}

/// Returns a message for each set of nodes that reach each other.
fn circles(nodes: &str, arrows: impl Iterator<Item = (String, String)>) -> BTreeSet<String> {
    let mut graph = Graph::new();
    for (from, to) in arrows.filter(|(from, to)| from != to) {
        graph.entry(from).or_default().insert(to);
    }
    let reached: BTreeMap<_, _> = graph.keys().map(|node| (node.as_str(), reached(node, &graph))).collect();
    let circle = |(node, reached_here): (&&str, &BTreeSet<&str>)| {
        let reaches_back = |to: &&str| reached.get(to).is_some_and(|from_there| from_there.contains(node));
        let members: Vec<_> = reached_here.iter().copied().filter(reaches_back).collect();
        let message = || format!("circle of {} {nodes}:\n    {}", members.len(), members.join("\n    "));
        (!members.is_empty()).then(message)
    };
    reached.iter().filter_map(circle).collect()
}

/// Returns the nodes to which arrows lead from this one, over others too.
fn reached<'g>(node: &'g str, graph: &'g Graph) -> BTreeSet<&'g str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![node]);
    while let Some(node) = next.pop() {
        let ends = graph.get(node).into_iter().flatten().map(String::as_str);
        next.extend(ends.filter(|end| reached.insert(*end)));
    }
    reached
}

/// Reads the map of rooms, in the fenced block of the doc comment: the first words of a line, with commas between them.
/// Returns the line of each.
fn map_of(library: &str) -> HashMap<String, usize> {
    let fenced = library.split("//! ```").nth(1).expect("a map");
    let rooms = fenced.lines().enumerate().flat_map(|(line, text)| {
        let mut is_name = true;
        let words = text.trim_start_matches("//!").split_whitespace();
        let names = words.take_while(move |word| mem::replace(&mut is_name, word.ends_with(',')));
        names.map(move |name| (name.trim_end_matches(',').replace(".rs", ""), line))
    });
    rooms.collect()
}

/// Returns what is wrong with the tables headed `module` in the doc comments of these files.
fn table_faults(files: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (file, code) in files {
        let comment: Vec<&str> = code.lines().filter_map(|line| line.strip_prefix("//!")).collect();
        let from_table = comment.iter().skip_while(|line| !line.starts_with(" | module |"));
        let rows: Vec<&str> = from_table.copied().take_while(|line| line.starts_with(" |")).collect();
        if rows.is_empty() {
            continue;
        }
        let modules = child_modules(code);
        let words = comment.join(" ");
        let named = names_in(&words);
        let in_table = rows.iter().flat_map(|row| names_in(row.split('|').nth(1).unwrap_or_default()));
        let ghosts = in_table.filter(|name| !modules.contains(name));
        faults
            .extend(ghosts.map(|name| format!("{file}: the table names `{name}`, which is no module of it")));
        let forgotten = modules.iter().filter(|module| !named.contains(module));
        faults.extend(forgotten.map(|module| format!("{file}: the table does not name `{module}`")));
    }
    faults
}

/// Returns the modules that a file declares, without those of tests.
fn child_modules(code: &str) -> Vec<&str> {
    let mut is_test = false;
    let declared = code.lines().filter_map(move |line| {
        let is_of_tests = mem::replace(&mut is_test, line == "#[cfg(test)]");
        let (visibility, name) = line.strip_suffix(';')?.split_once("mod ")?;
        (!is_of_tests && (visibility.is_empty() || visibility.starts_with("pub"))).then_some(name)
    });
    declared.collect()
}

/// Returns the first part of each path between backticks.
fn names_in(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.map(|path| path.split("::").next().unwrap_or_default()).collect()
}

fn read(directory: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push((path.to_string_lossy().into_owned(), fs::read_to_string(&path).expect("a file")));
        }
    }
}

#[test]
fn every_use_goes_down_in_the_map_and_none_in_a_circle() {
    let mut files = Vec::new();
    read(Path::new("src"), &mut files);
    let map = map_of(&fs::read_to_string("src/lib.rs").expect("src/lib.rs"));
    let faults = faults(&Modules::of(&files), &map);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_table_of_modules_names_the_modules_of_its_file() {
    let mut files = Vec::new();
    read(Path::new("src"), &mut files);
    let faults = table_faults(&files);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
