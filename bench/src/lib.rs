//! Measures the cost of a request through Switchyard, compared with other proxies and with none.
//!
//! One run starts a stub upstream and every target in front of it, and measures them in turn, again and again, so that
//! whatever else the machine does affects all of them alike. Figures are meaningful as ratios within one run; requests/s of
//! different runs or machines cannot be compared.
//!
//! ```text
//!               ┌─ direct ────────────────┐
//!               ├─ gateway   (the product)│
//!   load ───────┼─ bare-lazy              ├──────▶ stub
//!               ├─ bare-raw               │
//!               └─ nginx                  ┘
//! ```
//!
//! | target | description |
//! |---|---|
//! | `bare-raw` | hyper in, hyper out through a pool, bodies streamed through: the least a hyper proxy can cost |
//! | `bare-lazy` | the same with key check, envelope skim, model splice, usage and a batched SQLite row: the practical limit |
//! | `nginx` | `proxy_pass` with kept upstream connections, unbuffered answers |
//! | `gateway` | Switchyard with authentication, routing and logging on, one channel |
//! | `managed` | the same with a managed key that has limits, a limit of the site, and bound conversations |
//! | `converted` | the same in front of a site that speaks messages, asked by clients that speak chat |
//! | `shared` | the same with its state in a server database; only with `--database` |
//! | `keeping` | the same with a thousand accounts whose balances it reads; only in a cell of its own |
//!
//! `inside` measures what no client can see, using the gateway's library: the cost of finding a channel in a large table
//! and of converting a large request.
//!
//! Programs for runs of their own:
//!
//! | program | measures |
//! |---|---|
//! | `client` | an exchange through our own upstream client and through hyper-util's |
//! | `growth` | one more account, added through the admin API, as the instance grows |
//! | `refresh` | how long requests and changes wait while a hundred accounts are asked for their models |
//! | `hostile` | how two hundred requests, as expensive as a request can be, affect others |
//! | `renewals` | how long requests wait while the tokens of five hundred accounts are renewed |
//! | `transfer` | how long requests wait while a backup of 200 MB is imported and exported |
//! | `million` | how long lists, filters and statistics take with a million rows in the log |
//!
//! All targets but `direct` replace the client's key by the upstream's; the stub refuses any other.
//!
//! The modules, each of which uses only those below it:
//!
//! | module | contents |
//! |---|---|
//! | [`report`] | medians, ratios, the targets, the page |
//! | [`plan`] | the cells of one round and the results of a cell |
//! | [`targets`] | how each target is started, set up and stopped |
//! | [`load`] | the closed-loop load generator |
//! | [`process`] | child processes, their CPU time and memory |
//! | [`yard`] | a gateway that is filled through its admin API |
//! | [`paced`] | small requests at an even pace |
//! | [`wire`] | reads HTTP/1.1 answers from the raw socket |
//! | [`serve`], [`pool`], [`usage`], [`journal`] | the parts of the stub and the bare proxies |
//! | [`payload`] | the bytes of requests and answers |
//! | [`shapes`] | the requests of `hostile` |

#![forbid(unsafe_code)]

pub mod journal;
pub mod load;
pub mod paced;
pub mod payload;
pub mod plan;
pub mod pool;
pub mod process;
pub mod report;
pub mod serve;
pub mod shapes;
pub mod targets;
pub mod usage;
pub mod wire;
pub mod yard;
