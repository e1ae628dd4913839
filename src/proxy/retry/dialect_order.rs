//! Which dialect an upstream is asked in, and when the next one is worth a try.
//!
//! The client's own dialect comes first wherever the platform accepts it: only then nothing has to be converted. That
//! holds for legacy completions, too, which no upstream is asked for on behalf of a client of another dialect. The others
//! follow in the platform's order. A refusal that is about the dialect moves on to the next one and is remembered
//! ([`DialectMemory`]); any other failure is the channel's. So is a 5xx that does not mention the dialect: the same site
//! would be asked three times for what another channel can do at once.
//!
//! A refusal is remembered once another dialect has answered the same request: until then the request itself may
//! be wrong, and no client's mistake decides how the others are served. It holds for requests of the same
//! [`kind`](RequestKind), because many sites refuse a dialect only with tools or with reasoning; nothing is remembered of
//! a request with an attachment. A dialect that is avoided is asked all the same where no other can express the request.
//! When the remaining dialects are refused in their turn, the site has changed, and what is remembered about it is
//! forgotten.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use memchr::memmem;

use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;
use crate::dialect::json::Marks;
use crate::ids::SiteId;
use crate::make_room::make_room;
use crate::platform::{Platform, Profile, names_claude};
use crate::sync::lock;
use crate::time::{DAY, HOUR, Millis};

use crate::proxy::operation::Operation;

/// How long a dialect that worked after another was refused comes first, in milliseconds.
const PREFERRED_MS: Millis = DAY;
/// How long a refused dialect is not tried, in milliseconds.
const BLOCKED_MS: Millis = 6 * HOUR;
const MAX_ENTRIES: usize = 512;
/// The number of characters by which model names are distinguished; longer names are cut.
const MAX_MODEL: usize = 256;

/// The dialects to try, in order. At most as many as can be converted between, so that no request allocates for them.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct DialectOrder {
    room: [Dialect; Dialect::CONVERTIBLE.len()],
    count: usize,
}

impl DialectOrder {
    pub(in crate::proxy) fn none() -> Self {
        Self { room: Dialect::CONVERTIBLE, count: 0 }
    }

    pub(in crate::proxy) fn pop_first(&mut self) -> Option<Dialect> {
        let first = *self.first()?;
        self.keep(|at, _| at > 0);
        Some(first)
    }

    pub(in crate::proxy) fn remove(&mut self, dialect: Dialect) {
        self.keep(|_, own| own != dialect);
    }

    /// Keeps this dialect alone.
    pub(in crate::proxy) fn keep_only(&mut self, dialect: Dialect) {
        self.keep(|_, own| own == dialect);
    }

    pub(in crate::proxy) fn clear(&mut self) {
        self.count = 0;
    }

    /// Moves the dialect at this place to the front.
    pub(in crate::proxy) fn prefer(&mut self, at: usize) {
        self.room[..=at].rotate_right(1);
    }

    fn keep(&mut self, stays: impl Fn(usize, Dialect) -> bool) {
        *self = self.iter().enumerate().filter(|(at, own)| stays(*at, **own)).map(|(_, own)| *own).collect();
    }
}

impl Deref for DialectOrder {
    type Target = [Dialect];

    fn deref(&self) -> &[Dialect] {
        &self.room[..self.count]
    }
}

impl FromIterator<Dialect> for DialectOrder {
    fn from_iter<I: IntoIterator<Item = Dialect>>(dialects: I) -> Self {
        let mut order = Self::none();
        for (room, dialect) in order.room.iter_mut().zip(dialects) {
            *room = dialect;
            order.count += 1;
        }
        order
    }
}

/// Returns the dialects in which a platform is asked for a client of a dialect, when nothing is known about the site yet.
pub(in crate::proxy) fn order(platform: Platform, client: Dialect, model: &str) -> DialectOrder {
    let profile = platform.profile();
    let passed_on = profile.unconverted.contains(&client).then_some(client);
    if !client.is_answerable() {
        let google = (client == Dialect::Embeddings && makes_embeddings(platform)).then_some(Dialect::Gemini);
        return passed_on.into_iter().chain(google).collect();
    }
    let base = (profile.dialects)(client, model);
    let own = base.iter().filter(|dialect| **dialect == client);
    let others = base.iter().filter(|dialect| **dialect != client);
    passed_on.into_iter().chain(own.chain(others).copied()).collect()
}

/// Whether the platform accepts Google's own form of embeddings.
fn makes_embeddings(platform: Platform) -> bool {
    let profile = platform.profile();
    profile.vendor == Vendor::Gemini && profile.code_assist.is_none()
}

/// Returns the dialects for operations other than an answer: the client's own, and for embeddings OpenAI's.
pub(in crate::proxy) fn order_of_others(
    platform: Platform,
    client: Dialect,
    operation: Operation,
) -> DialectOrder {
    let own = order(platform, client, "").iter().copied().find(|dialect| *dialect == client);
    let has_openai = operation.is_embedding()
        && !makes_embeddings(platform)
        && platform.profile().unconverted.contains(&Dialect::Embeddings);
    own.into_iter().chain(has_openai.then_some(Dialect::Embeddings)).collect()
}

/// Moves the dialects that are likely to accept a document before the others, after the client's own. A dialect that
/// cannot carry it at all drops out when the body is written.
pub(in crate::proxy) fn order_for_document(
    dialects: &mut DialectOrder,
    platform: Platform,
    client: Dialect,
    model: &str,
    body: &[u8],
) {
    let Some(order) = (platform.profile().document_dialects)(client, model) else { return };
    if dialects.len() > 1 && has_document(body) {
        let place = |dialect: &Dialect| order.iter().position(|own| own == dialect && *own != client);
        dialects.room[..dialects.count].sort_by_key(place);
    }
}

/// Moves the first dialect that a site's price list names for a model to the front, unless the list names the client's
/// own too. A list that names nothing known changes nothing, and no list mentions legacy completions.
pub(in crate::proxy) fn prefer_listed(
    dialects: &mut DialectOrder,
    platform: Platform,
    client: Dialect,
    models: [&str; 2],
    listed: &[String],
) {
    let lists_claude = platform.profile().lists_claude_dialects && client == Dialect::Responses;
    let is_claude = models.into_iter().any(names_claude);
    if is_claude && !lists_claude || !client.is_convertible() {
        return;
    }
    let named = listed.iter().flat_map(|label| dialects_of(label)).copied();
    let known: Vec<Dialect> = named.filter(|dialect| dialects.contains(dialect)).collect();
    if let Some(first) = known.first().filter(|_| !known.contains(&client)) {
        prefer(dialects, *first);
    }
}

/// Moves a dialect to the front, if it is among them.
pub(in crate::proxy) fn prefer(dialects: &mut DialectOrder, dialect: Dialect) {
    if let Some(at) = dialects.iter().position(|own| *own == dialect) {
        dialects.prefer(at);
    }
}

/// Keeps only the responses dialect for a responses request with a document given by its address: an upstream of that
/// dialect fetches it, hardly any other does. Changes nothing if the platform does not have that dialect.
pub(in crate::proxy) fn keep_address(
    dialects: &mut DialectOrder,
    platform: Platform,
    client: Dialect,
    marks: Marks,
    body: &[u8],
) {
    if dialects.contains(&Dialect::Responses) && needs_responses(platform, client, marks, body) {
        dialects.keep(|_, dialect| dialect == Dialect::Responses);
    }
}

/// Whether a request has a document given by its address, and the platform may fetch it in the responses dialect alone.
pub(in crate::proxy) fn needs_responses(
    platform: Platform,
    client: Dialect,
    marks: Marks,
    body: &[u8],
) -> bool {
    client == Dialect::Responses
        && marks.file_urls
        && !platform.profile().fetches_files
        && names_an_address(body)
}

/// Whether a member holds the address of a file. A parameter of a tool may have the same name, but its
/// schema is not a string.
fn names_an_address(body: &[u8]) -> bool {
    const NAME: &[u8] = b"\"file_url\"";
    memmem::find_iter(body, NAME).any(|at| {
        let value = body[at + NAME.len()..].trim_ascii_start().strip_prefix(b":");
        value.is_some_and(|value| value.trim_ascii_start().starts_with(b"\""))
    })
}

/// Returns the dialects that a label of a price list means.
fn dialects_of(label: &str) -> &'static [Dialect] {
    let label = label.trim().to_lowercase();
    let has = |word: &str| label.contains(word);
    if has("/v1/messages") || has("anthropic") || has("claude") || label == "messages" {
        &[Dialect::Messages]
    } else if has("response") {
        &[Dialect::Responses]
    } else if has("chat") || label == "completions" {
        &[Dialect::Chat]
    } else if has("openai") {
        &[Dialect::Chat, Dialect::Responses]
    } else {
        &[]
    }
}

/// Whether a platform can serve a client of a dialect at all. Among the operations other than an answer, only embeddings
/// are converted.
pub(in crate::proxy) fn is_served(platform: Platform, client: Dialect, operation: Operation) -> bool {
    if operation != Operation::Answer {
        return !lacks_operation(platform.profile(), client, operation)
            && !order_of_others(platform, client, operation).is_empty();
    }
    !order(platform, client, "").is_empty()
}

/// Whether a platform answers requests of a client's dialect, but lacks this operation of it.
fn lacks_operation(profile: &Profile, client: Dialect, operation: Operation) -> bool {
    let is_beside_answers = match operation {
        // The Code Assist API has answers and counts of tokens alone.
        Operation::OfGemini(_) => profile.code_assist.is_some(),
        // Codex has no counts of tokens.
        Operation::CountTokens => client == Dialect::Responses && profile.streams_responses_only,
        _ => false,
    };
    is_beside_answers || operation.is_extra() && !profile.has_extras
}

/// Whether, as far as is known, a site accepts the client's own dialect.
pub(in crate::proxy) fn is_native(
    memory: &DialectMemory,
    platform: Platform,
    key: DialectMemoryKey<'_>,
    now: Millis,
) -> bool {
    order(platform, key.client, key.model).contains(&key.client) && !memory.refuses(key, now)
}

// === what is remembered ===

/// Which dialects sites have refused and what worked instead. Kept in memory only.
///
/// Mostly it is empty, and then a request only reads a counter.
#[derive(Default)]
pub struct DialectMemory {
    entries: Mutex<HashMap<Key, Entry>>,
    count: AtomicUsize,
}

/// A dialect that an upstream refused for good.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct RefusedDialect {
    pub(in crate::proxy) dialect: Dialect,
    /// The dialect that the upstream named in its place.
    pub(in crate::proxy) instead: Option<Dialect>,
}

/// The key of an entry: a site that is asked for a model on behalf of a client of a dialect, with a body of some kind.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct DialectMemoryKey<'a> {
    pub(in crate::proxy) site: SiteId,
    pub(in crate::proxy) client: Dialect,
    pub(in crate::proxy) model: &'a str,
    pub(in crate::proxy) body: &'a [u8],
}

/// A key as it is stored: site, dialect, model in lower case, and the kind of the request.
type Key = (SiteId, Dialect, String, RequestKind);

/// What a request has that sites may refuse in one dialect and accept in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RequestKind {
    has_tools: bool,
    has_reasoning: bool,
    continues_stored: bool,
}

#[derive(Default)]
struct Entry {
    preferred: Option<(Dialect, Millis)>,
    blocked: Vec<(Dialect, Millis)>,
    touched: Millis,
}

impl DialectMemory {
    /// Reorders `dialects` by what is remembered, and takes out those that are avoided, which it returns. A request with an
    /// attachment keeps its order: what was learnt from requests without one does not hold for it.
    pub(in crate::proxy) fn apply(
        &self,
        dialects: &mut DialectOrder,
        key: DialectMemoryKey<'_>,
        now: Millis,
    ) -> DialectOrder {
        let mut avoided = DialectOrder::none();
        if dialects.len() < 2 || !self.knows(key) || has_attachment(key.body) {
            return avoided;
        }
        let kept = key.kept();
        let entries = lock(&self.entries);
        let Some(entry) = entries.get(&kept) else { return avoided };
        let is_blocked =
            |dialect: &Dialect| entry.blocked.iter().any(|(own, until)| own == dialect && *until > now);
        let preferred = entry.preferred.filter(|(_, until)| *until > now).map(|(dialect, _)| dialect);
        if !dialects.iter().all(is_blocked) {
            avoided = dialects.iter().copied().filter(is_blocked).collect();
            dialects.keep(|_, dialect| !is_blocked(&dialect));
        }
        if let Some(at) = dialects.iter().position(|dialect| Some(*dialect) == preferred) {
            dialects.prefer(at);
        }
        avoided
    }

    /// Whether something is remembered of the site for clients of this dialect. If not, the body need not be read for the
    /// kind of its request, which is done without the lock.
    fn knows(&self, key: DialectMemoryKey<'_>) -> bool {
        let is_of_it = |kept: &Key| (kept.0, kept.1) == (key.site, key.client);
        self.count.load(Ordering::Relaxed) > 0 && lock(&self.entries).keys().any(is_of_it)
    }

    /// Whether the site has refused the client's own dialect.
    fn refuses(&self, key: DialectMemoryKey<'_>, now: Millis) -> bool {
        if !self.knows(key) {
            return false;
        }
        let kept = key.kept();
        let entries = lock(&self.entries);
        let blocked = entries.get(&kept).map_or(&[][..], |entry| &entry.blocked);
        blocked.iter().any(|(own, until)| *own == key.client && *until > now)
    }

    /// Records that the dialect answered after others had been refused.
    pub(in crate::proxy) fn succeeded(&self, key: DialectMemoryKey<'_>, dialect: Dialect, now: Millis) {
        // The conversion from responses loses something, so no other dialect is preferred for it.
        if key.client == Dialect::Responses && dialect != Dialect::Responses {
            return;
        }
        self.change(key, now, |entry| {
            entry.preferred = Some((dialect, now + PREFERRED_MS));
            entry.blocked.retain(|(own, _)| *own != dialect);
        });
    }

    /// Records that a dialect was refused, perhaps in favour of another.
    pub(in crate::proxy) fn refused(&self, key: DialectMemoryKey<'_>, refused: RefusedDialect, now: Millis) {
        let RefusedDialect { dialect, instead } = refused;
        self.change(key, now, |entry| {
            entry.blocked.retain(|(own, _)| *own != dialect && Some(*own) != instead);
            entry.blocked.push((dialect, now + BLOCKED_MS));
            if let Some(instead) = instead {
                entry.preferred = Some((instead, now + PREFERRED_MS));
            }
        });
    }

    /// Forgets a site that now refuses the remaining dialects too: it may accept again what it refused before.
    pub(in crate::proxy) fn forget(&self, key: DialectMemoryKey<'_>) {
        if !self.knows(key) {
            return;
        }
        let kept = key.kept();
        let mut entries = lock(&self.entries);
        entries.remove(&kept);
        self.count.store(entries.len(), Ordering::Relaxed);
    }

    /// Forgets everything; the operator's "clear cache".
    pub fn clear(&self) {
        lock(&self.entries).clear();
        self.count.store(0, Ordering::Relaxed);
    }

    fn change(&self, key: DialectMemoryKey<'_>, now: Millis, change: impl FnOnce(&mut Entry)) {
        if has_attachment(key.body) {
            return;
        }
        let key = key.kept();
        let mut entries = lock(&self.entries);
        make_room(&mut entries, &key, MAX_ENTRIES, |entry| entry.touched);
        let entry = entries.entry(key).or_default();
        entry.touched = now;
        change(entry);
        self.count.store(entries.len(), Ordering::Relaxed);
    }
}

impl DialectMemoryKey<'_> {
    fn kept(self) -> Key {
        let model = self.model.chars().take(MAX_MODEL).collect::<String>().to_lowercase();
        (self.site, self.client, model, RequestKind::of(self.body))
    }
}

impl RequestKind {
    fn of(body: &[u8]) -> Self {
        let has = |members: &[&str]| members.iter().any(|member| is_a_key(body, member));
        Self {
            has_tools: has(&["\"tools\"", "\"functions\""]),
            has_reasoning: has(&[
                "\"reasoning_effort\"",
                "\"reasoning\"",
                "\"thinking\"",
                "\"thinkingConfig\"",
            ]),
            continues_stored: has(&["\"previous_response_id\"", "\"conversation\""]),
        }
    }
}

/// Whether a body carries an image, audio or a file. Only Gemini tells a file by the key.
fn has_attachment(body: &[u8]) -> bool {
    has_file_block(body)
        || ["\"image_url\"", "\"image\"", "\"input_image\"", "\"input_audio\""]
            .into_iter()
            .any(|word| is_a_value(body, word))
        || ["\"inlineData\"", "\"inline_data\"", "\"fileData\""]
            .into_iter()
            .any(|word| memmem::find(body, word.as_bytes()).is_some())
}

/// Whether a body carries a file that is neither image, audio nor video.
fn has_document(body: &[u8]) -> bool {
    let is_other = |value: &[u8]| {
        value.starts_with(b"\"")
            && ![b"\"image/", b"\"audio/", b"\"video/"].iter().any(|it| value.starts_with(*it))
    };
    // Gemini has one kind of block for all media, which names its media type.
    let names_other = |member: &str| {
        memmem::find_iter(body, member.as_bytes()).any(|at| {
            let value = body[at + member.len()..].trim_ascii_start().strip_prefix(b":");
            value.is_some_and(|value| is_other(value.trim_ascii_start()))
        })
    };
    has_file_block(body) || ["\"mimeType\"", "\"mime_type\""].into_iter().any(names_other)
}

fn has_file_block(body: &[u8]) -> bool {
    ["\"file\"", "\"input_file\"", "\"document\""].into_iter().any(|word| is_a_value(body, word))
}

/// Whether a quoted word is a value. Inside a JSON string quotes are escaped, so a quoted word is a key or a whole
/// value, never part of a text; a key with this name may be a parameter of a tool.
fn is_a_value(body: &[u8], word: &str) -> bool {
    memmem::find_iter(body, word.as_bytes()).any(|at| body[..at].trim_ascii_end().ends_with(b":"))
}

/// Whether a quoted word is the key of a member.
fn is_a_key(body: &[u8], word: &str) -> bool {
    memmem::find_iter(body, word.as_bytes())
        .any(|at| body[at + word.len()..].trim_ascii_start().starts_with(b":"))
}

#[cfg(test)]
mod tests;
