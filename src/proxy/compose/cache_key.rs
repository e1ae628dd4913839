//! The `prompt_cache_key` for a conversation whose client's dialect has none.
//!
//! OpenAI finds the cached part of a prompt by this key, and clients of other dialects cannot send it. Their converted
//! request to OpenAI gets one when it names its conversation: derived from that name, the caller and the
//! channel with the index key of the database. So the key is the same in every turn and after a restart, differs between
//! callers, and tells the upstream nothing.

use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;
use crate::hex;
use crate::ids::{ChannelId, KeyId};
use crate::platform::Platform;
use crate::store::Sealer;

use crate::proxy::call::Call;

/// The member's name, in chat and responses.
pub(in crate::proxy) const MEMBER: &str = "prompt_cache_key";
/// The purpose of the derived key, so that it equals no hash of anything stored.
const PURPOSE: &[u8] = b"prompt-cache";
/// The length of the key in bytes, half of the hash.
const KEY_BYTES: usize = 16;

/// Derives the key of a call to a channel in another dialect; `None` where its conversation is not known. The user id
/// that Claude Code sends without a session names a device, which has many conversations, and is not used.
pub(in crate::proxy) fn of(call: &Call, channel: ChannelId, sealer: &Sealer) -> Option<String> {
    let session = call.client.session.as_deref().or(call.envelope.prompt_cache_key.as_deref())?;
    let caller = call.key_id.unwrap_or(KeyId::ZERO).get().to_be_bytes();
    let named: [&[u8]; 4] = [PURPOSE, &caller, session.as_bytes(), &channel.get().to_be_bytes()];
    Some(hex::encode(&sealer.derive(&named)[..KEY_BYTES]))
}

/// Whether the upstream is OpenAI itself, asked in a dialect that has the member.
pub(super) fn is_known(platform: Platform, dialect: Dialect) -> bool {
    platform.profile().vendor == Vendor::OpenAi && matches!(dialect, Dialect::Chat | Dialect::Responses)
}
