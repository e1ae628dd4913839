//! Compresses the files of the console, so that the binary holds them as browsers get them. At a start this would take
//! seconds and memory. Writes `console.rs`, which `src/console/assets.rs` includes: every file of the folder, by name.

use std::error::Error;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::{env, fs, io};

use brotli::enc::BrotliEncoderParams;
use brotli::enc::backward_references::BrotliEncoderMode;

const FOLDER: &str = "src/console";
const PAGE: &str = "index.html";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let mut names = Vec::new();
    find(Path::new(FOLDER), &mut names)?;
    names.sort();
    let texts = names.iter().map(|name| fs::read_to_string(Path::new(FOLDER).join(name)));
    let texts: Vec<String> = texts.collect::<io::Result<_>>()?;

    // A digest of all names and contents. The files are ours, so nobody constructs two sets with the same digest.
    let mut hasher = DefaultHasher::new();
    (&names, &texts).hash(&mut hasher);
    let digest = format!("{:016x}", hasher.finish());

    let out = env::var("OUT_DIR")?;
    let (mut page, mut files) = (String::new(), String::new());
    for (name, text) in names.iter().zip(&texts) {
        let path = Path::new(&out).join("console").join(name);
        fs::create_dir_all(path.parent().ok_or("a file without a folder")?)?;
        fs::write(&path, compressed(&text.replace("{digest}", &digest))?)?;
        let asset = format!("Asset::new({name:?}, include_bytes!({path:?}))");
        if name == PAGE { page = asset } else { writeln!(files, "    {asset},")? }
    }
    let count = names.len() - 1;
    let code = format!(
        "/// Names all files as they are.\npub(super) const DIGEST: &str = {digest:?};\n\n\
         /// The page, which names the files below.\npub(super) static PAGE: Asset = {page};\n\n\
         /// What the page is made of.\npub(super) static FILES: [Asset; {count}] = [\n{files}];\n"
    );
    fs::write(Path::new(&out).join("console.rs"), code)?;
    Ok(())
}

/// Collects the names of the files that a browser may request, relative to the console.
fn find(folder: &Path, names: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, names)?;
        } else if path
            .extension()
            .is_some_and(|ending| ["html", "css", "js", "svg"].iter().any(|one| ending == *one))
        {
            let name = path.strip_prefix(FOLDER)?.to_str().ok_or("a name that is no text")?;
            names.push(name.replace('\\', "/"));
        }
    }
    Ok(())
}

fn compressed(text: &str) -> io::Result<Vec<u8>> {
    let params = BrotliEncoderParams {
        quality: 11,
        mode: BrotliEncoderMode::BROTLI_MODE_TEXT,
        size_hint: text.len(),
        ..BrotliEncoderParams::default()
    };
    let mut out = Vec::new();
    brotli::BrotliCompress(&mut text.as_bytes(), &mut out, &params)?;
    Ok(out)
}
