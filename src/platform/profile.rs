//! The facts that a platform must state. Nothing has a default: a new platform states every fact. A fork names the
//! platform that it was forked from, and states only what differs.

use hyper::HeaderMap;
use serde_json::Value;

use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;

/// One kind of upstream.
pub struct Profile {
    /// The only spelling that is stored and shown.
    pub id: &'static str,
    /// Other names that operators and other programs give it, in lower case.
    pub aliases: &'static [&'static str],

    // How it is recognised
    /// Whether an address is its vendor's own, or the one on which it listens by default.
    pub is_official: fn(&Address<'_>) -> bool,
    /// Words in the host names of its sites.
    pub host_words: &'static [&'static str],
    /// The title of its pages.
    pub title: Option<Title>,
    /// Whether `data` of an `/api/status` has members that only it sends.
    pub status: Option<fn(&Value) -> bool>,
    /// Pages that only it has.
    pub own_pages: Option<OwnPages>,
    /// Endings of a site's address that belong to the data plane only, and that management calls go without. The
    /// first one that fits is removed.
    pub data_paths: &'static [&'static str],

    // How it is asked for answers
    /// The vendor whose models it has, where they are one vendor's.
    pub vendor: Vendor,
    /// The dialects that it accepts, for a client's dialect and a model's name, the best first.
    pub dialects: fn(Dialect, &str) -> &'static [Dialect],
    /// The dialects that it may accept and that are passed on but never converted to.
    pub unconverted: &'static [Dialect],
    /// The order of dialects for a request with a document; `None` where documents change nothing.
    pub document_dialects: fn(Dialect, &str) -> Option<[Dialect; 3]>,
    /// Whether it fetches a file that a responses request names by its address, also when asked in another dialect.
    pub fetches_files: bool,
    /// Whether its price list may name the dialect for Claude's models to a client of responses.
    pub lists_claude_dialects: bool,
    /// Whether it has editing of pictures, videos and searches.
    pub has_extras: bool,
    /// The path for a dialect, below a site's address.
    pub path: fn(Dialect) -> &'static str,
    /// The path at which it compacts a conversation of the responses dialect.
    pub compaction_path: &'static str,
    /// Whether it answers requests of the responses dialect only with a stream, stores none of its answers, and
    /// requires requests to say so.
    pub streams_responses_only: bool,
    /// Whether it also accepts requests of the responses dialect over a WebSocket, in the way of Codex.
    pub has_websocket: bool,
    /// Whether it keeps threads of the messages dialect.
    pub keeps_threads: bool,
    /// How requests of the gemini dialect are sent to it, where it is Google's Code Assist API.
    pub code_assist: Option<CodeAssist>,
    /// The changes that it requires in bodies.
    pub body_edit: Option<BodyEdit>,
    /// The headers that requests with the token of a login carry in addition; `None` where there are none.
    pub login_headers: Option<LoginHeaders>,
    /// Headers that its own clients send in the responses dialect, and that no other upstream knows.
    pub own_headers: &'static [&'static str],
    /// Whether an operator may set what it is told of its callers (`codexHeaderDefaults`).
    pub has_header_defaults: bool,
    /// Whether it passes requests of the responses dialect on to Codex: it needs the headers of the client's session,
    /// and reads all members of the dialect.
    pub relays_codex: bool,

    // What its sites are asked for besides answers
    pub model_list: ModelList,
    /// The interface for accounts; `None` where there are only API keys or OAuth sign-ins.
    pub management: Option<Management>,
    pub prices: Option<PriceList>,
    pub usage_log: Option<UsageLog>,
    /// The number of tokens for one US dollar, where no price is known.
    pub tokens_per_usd: f64,
}

/// The headers in which an interface of the messages dialect takes a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagesCredential {
    /// `x-api-key`: the vendor itself takes keys in its own header alone.
    Key,
    /// `Authorization`: the vendor itself takes the token of a login as a bearer alone.
    Bearer,
    /// Aggregators take either header.
    Both,
}

/// An address to be recognised.
#[derive(Clone, Copy, Debug)]
pub struct Address<'a> {
    /// The host, in lower case.
    pub host: &'a str,
    /// The port; `None` for that of the scheme.
    pub port: Option<u16>,
    /// The path: empty, or with a leading slash.
    pub path: &'a str,
}

/// The form of the titles of a platform's pages.
pub struct Title {
    /// A regular expression, for any case.
    pub pattern: &'static str,
    /// Whether a title proves the platform. Forks often keep the title of what they were forked from, which proves
    /// nothing.
    pub is_proof: bool,
}

/// Pages that only one platform has.
pub struct OwnPages {
    /// Whether an address is one at which nothing needs to be asked.
    pub is_known: fn(&Address<'_>) -> bool,
    /// The pages, which are asked in turn until one shows the platform.
    pub pages: &'static [Page],
    /// Whether these pages prove more than a status, which other platforms send as well.
    pub outrank_status: bool,
}

/// A page by which a platform is recognised.
pub struct Page {
    pub path: &'static str,
    pub is_own: fn(&PageAnswer<'_>) -> bool,
}

/// The answer to a request for a page.
pub struct PageAnswer<'a> {
    pub status: u16,
    pub headers: &'a HeaderMap,
    /// The body, where it is JSON.
    pub json: Option<&'a Value>,
}

/// A change to bodies of one dialect.
pub struct BodyEdit {
    pub dialect: Dialect,
    /// Names and values of members to set, as JSON.
    pub set: &'static [(&'static str, &'static str)],
    /// Members that it refuses.
    pub removed: &'static [&'static str],
    /// The instructions, as JSON, for a body without any; `None` where nothing is required. If it requires
    /// instructions and a list of items, system messages become instructions, and an input that is a string becomes a
    /// message.
    pub instructions: Option<&'static str>,
    /// Whether the operator's rules cannot undo it.
    pub outranks_rules: bool,
}

/// The headers that requests with the token of a login carry in addition, because the provider's protocol requires
/// them.
pub struct LoginHeaders {
    /// The beta under which the messages dialect accepts such a token.
    pub beta: Option<&'static str>,
    /// The header that names the account at its provider.
    pub account: Option<&'static str>,
    /// Whether headers tell conversations apart, and conversations are cached under them.
    pub names_conversation: bool,
}

/// How Google's Code Assist API is asked: with the token of a login, and with each request in an envelope.
pub struct CodeAssist {
    /// Whether each request requires a project.
    pub wants_project: bool,
    /// The agent that each request names, and whose rules it has to keep.
    pub agent: Option<&'static str>,
    /// Whether a model, by its name, answers only with a stream.
    pub streams_only: fn(&str) -> bool,
    /// Whether a request goes on to the next address when one has no room.
    pub passes_on: bool,
    /// The addresses to which requests of a site at the vendor's address go, in order; if empty, they go to that
    /// address.
    pub addresses: &'static [&'static str],
}

/// How a platform is asked for the models that a key may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelList {
    /// `/v1/models`, with the key as Bearer.
    OpenAi,
    /// Like `OpenAi`; then the surfaces of other vendors, which have lists of their own.
    PerSurface,
    /// `/v1/models` with `x-api-key`; below `/anthropic` then the parent's list.
    Anthropic,
    /// `/v1beta/models` with `x-goog-api-key`; then, or below `/openai`, in OpenAI's form.
    Google,
    /// Not at all: its models come with an OAuth sign-in, and it has no keys.
    WithSignIn,
}

/// An interface for accounts.
pub enum Management {
    NewApi(NewApiFork),
    Sub2Api,
}

/// The differences between the members of the new-api family.
pub struct NewApiFork {
    /// The path of the models of the session's user.
    pub models: &'static str,
    /// The paths of the groups, tried in turn; none where keys have no groups.
    pub groups: &'static [&'static str],
    /// The path of the daily check-in.
    pub check_in: Option<&'static str>,
    /// The members that tell the reward of a check-in, in the site's units; the first that is there counts.
    pub reward: &'static [&'static str],
    /// The parameter for the page of a list.
    pub page: &'static str,
    /// The parameter for the number of lines on a page.
    pub size: &'static str,
    /// The number of the first page. Sites that count from 1 take 0 for 1.
    pub first_page: u32,
    /// Whether the log of the account tells what it was given.
    pub logs_income: bool,
    /// Whether its sessions may be cookies, which look like tokens.
    pub has_cookie_sessions: bool,
    /// Whether it accepts a session only together with its user's number.
    pub wants_user_id: bool,
    /// The headers that carry the user's number beside a token.
    pub user_id_headers: &'static [&'static str],
    /// The headers that carry it beside a cookie.
    pub cookie_user_id_headers: &'static [&'static str],
    /// Whether a key may have to be deleted at a path with a slash after its number.
    pub deletes_with_slash: bool,
}

/// The form in which a platform publishes its prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceList {
    /// `/api/pricing`: ratios of each model.
    Ratios,
    /// `/api/available_model`: prices of each model; `/api/user_group_map`: the groups' multipliers.
    Hub,
}

/// The log in which an account finds its own requests.
pub struct UsageLog {
    /// The path of the latest lines; `{model}` stands for the model's name.
    pub path: &'static str,
    /// Whether it tells no more than an answer with usage does.
    pub only_without_usage: bool,
}

/// What a session can be used for. Any other use is refused without a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    pub login: bool,
    pub user_info: bool,
    pub check_in: bool,
    pub balance: bool,
    /// API keys of the account: to list, create and delete them.
    pub keys: bool,
    pub groups: bool,
    pub announcements: bool,
    /// Whether a session comes with a token that is exchanged for the next.
    pub refresh: bool,
}

// === impl Profile ===

impl Profile {
    /// Returns what a session can be used for.
    pub fn abilities(&self) -> Abilities {
        let has_sessions = self.management.is_some();
        let (check_in, groups, refresh) = match &self.management {
            None => (false, false, false),
            Some(Management::NewApi(fork)) => (fork.check_in.is_some(), !fork.groups.is_empty(), false),
            Some(Management::Sub2Api) => (false, true, true),
        };
        Abilities {
            login: has_sessions,
            user_info: has_sessions,
            balance: has_sessions,
            keys: has_sessions,
            announcements: has_sessions,
            check_in,
            groups,
            refresh,
        }
    }

    /// Returns the dialect for a plain question: chat where it accepts that. `None` where it accepts no plain
    /// questions.
    pub fn plain_dialect(&self) -> Option<Dialect> {
        // A plain question has no envelope.
        if self.code_assist.is_some() {
            return None;
        }
        let dialects = (self.dialects)(Dialect::Chat, "");
        if dialects.contains(&Dialect::Chat) { Some(Dialect::Chat) } else { dialects.first().copied() }
    }

    /// Returns the headers in which its messages API takes a credential. `is_login` says that it is the token of a login.
    pub fn messages_credential(&self, is_login: bool) -> MessagesCredential {
        match self.vendor {
            Vendor::Anthropic if is_login => MessagesCredential::Bearer,
            Vendor::Anthropic => MessagesCredential::Key,
            _ => MessagesCredential::Both,
        }
    }

    /// Returns the differences of its fork, where it belongs to the new-api family.
    pub fn new_api_fork(&self) -> Option<&NewApiFork> {
        match &self.management {
            Some(Management::NewApi(fork)) => Some(fork),
            Some(Management::Sub2Api) | None => None,
        }
    }
}

// === impl MessagesCredential ===

impl MessagesCredential {
    /// Whether `x-api-key` has the credential.
    pub fn has_key(self) -> bool {
        self != Self::Bearer
    }

    /// Whether `Authorization` has the credential.
    pub fn has_bearer(self) -> bool {
        self != Self::Key
    }
}

// === impl Address ===

impl Address<'_> {
    /// Returns whether the path is `root` or lies below it.
    pub fn is_under(&self, root: &str) -> bool {
        self.path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns whether the host is this domain or one below it.
    pub fn is_in_domain(&self, domain: &str) -> bool {
        self.host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}
