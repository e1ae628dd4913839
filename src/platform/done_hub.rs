//! done-hub: a one-hub with more ways to pay and to sign in.

use serde_json::Value;

use super::one_hub;
use super::profile::{Profile, Title};

pub(super) const PROFILE: Profile = Profile {
    id: "done-hub",
    aliases: &["donehub"],
    host_words: &["donehub", "done-hub"],
    title: Some(Title { pattern: r"\bdone[-_ ]?hub\b", is_proof: true }),
    status: Some(is_own_status),
    ..one_hub::PROFILE
};

fn is_own_status(data: &Value) -> bool {
    const MEMBERS: [&str; 3] = ["linuxDo_oauth", "invite_code_register", "builtin_chat_enabled"];
    data.get("PaymentUSDRate").is_some() && MEMBERS.iter().any(|name| data.get(name).is_some())
}
