//! The `prompt_cache_key` of a conversation whose client has no word for one.
//!
//! OpenAI finds what it has cached of a prompt by this key, and clients of other dialects cannot send it. A request
//! of theirs that goes there gets one when it names its conversation: made of that name, the caller and the
//! channel under the index key of the database. So it is the same in every turn and after a restart, nobody else's,
//! and tells the upstream nothing.

use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;
use crate::hex;
use crate::ids::{ChannelId, KeyId};
use crate::platform::Platform;
use crate::store::Sealer;

use crate::proxy::call::Call;

/// The member, at chat and responses.
pub(in crate::proxy) const MEMBER: &str = "prompt_cache_key";
/// What the key is for, so that it is no hash of anything stored.
const PURPOSE: &[u8] = b"prompt-cache";
/// Half of the hash.
const KEY_BYTES: usize = 16;

/// The key of a call on its way to a channel in another dialect; `None` where its conversation is not known. What
/// Claude Code says of its user without a session names a device, whose conversations are many.
pub(in crate::proxy) fn of(call: &Call, channel: ChannelId, sealer: &Sealer) -> Option<String> {
    let session = call.client.session.as_deref().or(call.envelope.prompt_cache_key.as_deref())?;
    let caller = call.key_id.unwrap_or(KeyId::ZERO).get().to_be_bytes();
    let named: [&[u8]; 4] = [PURPOSE, &caller, session.as_bytes(), &channel.get().to_be_bytes()];
    Some(hex::encode(&sealer.derive(&named)[..KEY_BYTES]))
}

/// Whether it is OpenAI that is asked, in a dialect that has the member.
pub(super) fn is_known(platform: Platform, format: Dialect) -> bool {
    platform.profile().vendor == Vendor::OpenAi && matches!(format, Dialect::Chat | Dialect::Responses)
}
