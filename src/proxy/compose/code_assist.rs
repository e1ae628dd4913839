//! Requests to Google's Code Assist API: the path, and the envelope around the body.

use bytes::Bytes;

use crate::dialect::canonical::ConversionError;
use crate::dialect::code_assist::{self, Agent, AgentTarget, Envelope};
use crate::platform::{CodeAssist, names_claude};
use crate::routing::Account;
use crate::time::now_ms;
use crate::uuid;

use crate::proxy::failure::Failure;
use crate::proxy::operation::{CODE_ASSIST_COUNT, Operation};

const ANSWER: &str = "/v1internal:generateContent";
const STREAM: &str = "/v1internal:streamGenerateContent?alt=sse";

/// Returns the path and query of a request.
pub(in crate::proxy) fn path(operation: Operation, stream: bool) -> &'static str {
    match operation {
        Operation::CountTokens => CODE_ASSIST_COUNT,
        _ if stream => STREAM,
        _ => ANSWER,
    }
}

/// Returns the failure of an account that lacks the project its platform needs.
pub(in crate::proxy) fn obstacle(account: &Account) -> Option<Failure> {
    let api = account.site.platform.profile().code_assist.as_ref()?;
    let lacks_project = api.wants_project && account.oauth_project.is_none();
    lacks_project.then(|| {
        Failure::local(format!("{} oauth project id missing", account.site.platform)).with_status(500)
    })
}

/// Wraps a request to a model of an account in its envelope.
///
/// # Errors
/// A schema that is too large to be converted.
pub(super) fn enveloped(
    api: &CodeAssist,
    operation: Operation,
    account: &Account,
    model: &str,
    request: [Bytes; 3],
) -> Result<[Bytes; 3], ConversionError> {
    let whole = |text: String| [Bytes::from(text), Bytes::new(), Bytes::new()];
    if operation == Operation::CountTokens {
        return counted(api, model, &request.concat()).map(whole);
    }
    let project = account.oauth_project.as_deref();
    let plain = |agent| Envelope { model, project, agent };
    let Some(name) = api.agent else { return Ok(plain(None).seal(request)) };
    let request = request.concat();
    let text = String::from_utf8_lossy(&request);
    let makes_picture = model.to_ascii_lowercase().contains("image");
    let (kind, request_id) = if makes_picture {
        ("image_gen", format!("image_gen/{}/{}/12", now_ms(), uuid::v4()))
    } else {
        ("agent", format!("agent-{}", uuid::v4()))
    };
    let target = AgentTarget {
        is_claude: names_claude(model),
        has_session: !makes_picture,
        random: uuid::random_number(),
    };
    let fit = code_assist::fit(&text, target)?;
    Ok(plain(Some(Agent { name, kind, request_id: &request_id })).seal(whole(fit)))
}

/// Wraps a request whose tokens are to be counted: it names neither a project nor an agent.
fn counted(api: &CodeAssist, model: &str, request: &[u8]) -> Result<String, ConversionError> {
    let text = String::from_utf8_lossy(request);
    let older = match api.agent {
        Some(_) => code_assist::with_plain_schemas(&text)?,
        None => None,
    };
    Ok(code_assist::seal_count(model, older.as_deref().unwrap_or(&text)))
}
