//! What a request through Switchyard costs, beside what it would cost without.
//!
//! One run starts a stub upstream and every target in front of it, and measures them in turn, again and
//! again, so that whatever else the machine does hits all of them alike. Figures are worth reading as
//! ratios within one run; requests/s of different runs or machines are not.
//!
//! ```text
//!               ┌─ direct ────────────────┐
//!               ├─ gateway   (the product)│
//!   load ───────┼─ bare-lazy              ├──────▶ stub
//!               ├─ bare-raw               │
//!               └─ nginx                  ┘
//! ```
//!
//! | target | what it is |
//! |---|---|
//! | `bare-raw` | hyper in, hyper out through a pool, bodies streamed through: the least a hyper proxy can cost |
//! | `bare-lazy` | the same with key check, envelope skim, model splice, usage read and a batched SQLite row: the practical limit |
//! | `nginx` | `proxy_pass` with kept upstream connections, unbuffered answers |
//! | `gateway` | Switchyard with authentication, routing and logging on, one channel |
//! | `managed` | the same with a managed key that has limits, a limit of the site, and bound conversations |
//! | `converted` | the same before a site that speaks messages, asked by clients that speak chat |
//! | `shared` | the same with its state in the database of a server; only with `--database` |
//! | `keeping` | the same with a thousand accounts whose balances it reads; only in a cell of its own |
//!
//! What no client can see is measured by `inside`, which has the gateway's library in itself: what finding a
//! channel costs in a large table, and what converting a large request does.
//!
//! Six are runs of their own: `growth` adds accounts by the admin API and tells what one more costs at each size,
//! `refresh` what requests and changes wait while a hundred accounts are asked for their models, `hostile` what others
//! notice of two hundred requests that cost as much as a request can, `renewals` what requests wait while the tokens of
//! five hundred accounts are renewed, `transfer` what they wait while a backup of 200 MB comes in and goes out, `million`
//! what lists, filters and statistics take with a million rows in the log.
//!
//! All but `direct` put the upstream's key in the place of the client's; the stub refuses any other.
//!
//! Rooms, each using only those below it:
//!
//! | module | what it holds |
//! |---|---|
//! | [`report`] | medians, ratios, the targets, the page |
//! | [`plan`] | the cells of one round and what a cell yields |
//! | [`targets`] | how each target is started, set up and stopped |
//! | [`load`] | the closed-loop load generator |
//! | [`process`] | child processes, their CPU time and memory |
//! | [`yard`] | a gateway that is filled by its admin API |
//! | [`paced`] | small requests at an even pace |
//! | [`wire`] | HTTP/1.1 answers read from the raw socket |
//! | [`serve`], [`pool`], [`usage`], [`journal`] | what the stub and the bare proxies are made of |
//! | [`payload`] | the bytes that travel |
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
