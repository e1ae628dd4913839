//! Reads the modules of a library, and where the paths in them lead.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How many re-exports a path may lead through.
const MAX_DEPTH: usize = 12;

/// The modules of `src/`, without tests.
#[derive(Default)]
pub(super) struct Modules {
    /// The file of each module (`crate::store::sites`).
    pub(super) files: BTreeMap<String, String>,
    /// The path behind each name that a `use` brings into a module (`crate::store::Secret`).
    names: HashMap<String, String>,
    /// Each module with a path that its code has.
    pub(super) uses: BTreeSet<(String, String)>,
}

impl Modules {
    pub(super) fn of(files: &[(String, String)]) -> Self {
        let mut modules = Self::default();
        let mut tests = Vec::new();
        for (file, code) in files {
            let module = file.replacen("src", "crate", 1).replace(".rs", "").replace('/', "::");
            let module = module.trim_end_matches("::mod").trim_end_matches("::lib").to_owned();
            let code = without_comments_and_texts(code);
            let (code, test_modules) = without_tests(&code);
            tests.extend(test_modules.iter().map(|test| format!("{module}::{test}")));
            let mut rest = code;
            while let Some((before, is_public, tree, after)) = next_use(rest) {
                modules.read_paths(&module, before);
                modules.read_use(&module, "", tree, is_public);
                rest = after;
            }
            modules.read_paths(&module, rest);
            modules.files.insert(module, file.clone());
        }
        let is_test =
            |module: &str| tests.iter().any(|test| format!("{module}::").starts_with(&format!("{test}::")));
        modules.files.retain(|module, _| !is_test(module));
        modules.uses.retain(|(module, _)| !is_test(module));
        modules
    }

    /// Reads the paths in code without `use`.
    fn read_paths(&mut self, module: &str, code: &str) {
        let words = code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        let paths = words.map(|word| word.trim_matches(':')).filter(|word| word.contains("::"));
        self.uses.extend(paths.map(|path| (module.to_owned(), path.to_owned())));
    }

    /// Reads a use tree.
    fn read_use(&mut self, module: &str, prefix: &str, tree: &str, is_public: bool) {
        for branch in branches(tree) {
            if let Some((stem, inner)) = branch.strip_suffix('}').and_then(|branch| branch.split_once('{')) {
                self.read_use(module, &format!("{prefix}{stem}"), inner, is_public);
                continue;
            }
            let (leaf, alias) = branch.split_once(" as ").unwrap_or((&branch, ""));
            let path = format!("{prefix}{leaf}");
            let path = path.strip_suffix("::self").unwrap_or(&path);
            let name = if alias.is_empty() { path.rsplit("::").next().unwrap_or_default() } else { alias };
            self.names.insert(format!("{module}::{name}"), path.to_owned());
            if !is_public {
                self.uses.insert((module.to_owned(), path.to_owned()));
            }
        }
    }

    /// Returns the module that a path leads to, and whether it names an item there; `None` for a path of another crate.
    pub(super) fn resolve(&self, from: &str, path: &str, depth: usize) -> Option<(String, bool)> {
        let (first, rest) = path.split_once("::").unwrap_or((path, ""));
        let child = format!("{from}::{first}");
        let path = match first {
            "crate" | "switchyard" => format!("crate::{rest}"),
            "super" | "self" => format!("{from}::{path}"),
            _ if self.files.contains_key(&child) || self.names.contains_key(&child) => {
                format!("{from}::{path}")
            }
            _ => return None,
        };
        let mut parts: Vec<&str> = Vec::new();
        for part in path.split("::") {
            match part {
                "self" => {}
                "super" => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let mut module = parts.remove(0).to_owned();
        for (place, part) in parts.iter().enumerate() {
            let child = format!("{module}::{part}");
            if self.files.contains_key(&child) {
                module = child;
                continue;
            }
            let behind = self.names.get(&child).filter(|_| depth < MAX_DEPTH).and_then(|path| {
                let rest: String = parts[place + 1..].iter().map(|part| format!("::{part}")).collect();
                self.resolve(&module, &format!("{path}{rest}"), depth + 1)
            });
            return behind.or(Some((module, true)));
        }
        Some((module, false))
    }
}

/// Leaves out comments, and what is between quotation marks.
fn without_comments_and_texts(code: &str) -> String {
    let (mut kept, mut rest) = (String::new(), code);
    while let Some(at) = rest.find(['/', '"']) {
        kept.push_str(&rest[..at]);
        let length = if rest[at..].starts_with("//") {
            rest[at..].find('\n')
        } else if rest[at..].starts_with('/') || kept.ends_with('\'') || kept.ends_with("'\\") {
            kept.push_str(&rest[at..=at]);
            Some(1)
        } else {
            text_length(&kept, &rest[at..])
        };
        rest = &rest[length.map_or(rest.len(), |length| at + length)..];
    }
    kept + rest
}

/// Returns the length of the text at the start of the code, given what precedes it; `None` if it does not end.
fn text_length(before: &str, code: &str) -> Option<usize> {
    let hashes = before.len() - before.trim_end_matches('#').len();
    if before[..before.len() - hashes].ends_with('r') {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(1 + code[1..].find(&end)? + end.len());
    }
    let mut is_escaped = false;
    let is_end = |c: char| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    };
    Some(1 + code[1..].find(is_end)? + 1)
}

/// Returns the code before its inline module of tests, and the names of the test modules that stand in files.
fn without_tests(code: &str) -> (&str, Vec<&str>) {
    let mut tests = Vec::new();
    for (at, mark) in code.match_indices("#[cfg(test)]") {
        let Some((visibility, module)) = code[at + mark.len()..].split_once("mod ") else { break };
        if visibility.contains(['{', ';']) {
            continue;
        }
        match module.find(['{', ';']) {
            Some(end) if module[end..].starts_with(';') => tests.push(&module[..end]),
            _ => return (&code[..at], tests),
        }
    }
    (code, tests)
}

/// Finds the next `use`: returns the code before it, whether it is public, its tree, and the code after it.
fn next_use(code: &str) -> Option<(&str, bool, &str, &str)> {
    code.match_indices("use ").find_map(|(at, word)| {
        let start = code[..at].rfind('\n').map_or(0, |end_of_line| end_of_line + 1);
        let visibility = code[start..at].trim();
        let (tree, after) = code[at + word.len()..].split_once(';')?;
        let is_use = visibility.is_empty() || visibility.starts_with("pub");
        is_use.then_some((&code[..start], !visibility.is_empty(), tree, after))
    })
}

/// Splits the inside of a list at its commas, not at those of lists within it.
fn branches(list: &str) -> Vec<String> {
    let mut branches = vec![String::new()];
    let mut depth = 0;
    for c in list.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ',' if depth == 0 => branches.push(String::new()),
            _ => branches.last_mut().expect("a branch").push(c),
        }
    }
    branches.iter().map(|branch| branch.trim().to_owned()).filter(|branch| !branch.is_empty()).collect()
}
