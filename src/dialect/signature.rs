//! Signatures of thinking, and how they pass through a client of another dialect.
//!
//! A provider signs or encrypts its model's thinking, and wants it back unchanged with the next request. A client of
//! another dialect has one string to keep it in: there it becomes a tag, `sy1:<provider>:<base64url of JSON>`, and is
//! unpacked on the way back. Nothing of one provider is ever sent to another.

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD};
use base64::{alphabet, engine::DecodePaddingMode};

use super::literal::Text;
use super::tree::Node;
use super::writer::Writer;

/// The beginning of our tags.
const PREFIX: &str = "sy1:";
/// The beginning of our tags in base64, as far as it does not depend on the rest.
pub const PREFIX_IN_BYTES: &str = "c3kxO";
/// The beginnings of tags that other software gave out; the bare signature follows.
const OLD_PREFIXES: [(&str, Provider); 3] = [
    ("metapi:anthropic-signature:", Provider::Anthropic),
    ("metapi:openai-encrypted-reasoning:", Provider::OpenAi),
    ("metapi:gemini-thought-signature:", Provider::Gemini),
];
/// The placeholder for the signature of a call that gemini did not sign (Google's documentation of thought signatures).
pub const NO_GEMINI_SIGNATURE: &str = "skip_thought_signature_validator";
/// Base64 that clients may have padded or not.
const TOLERANT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The provider that signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    Anthropic,
    OpenAi,
    Gemini,
}

impl Provider {
    fn id(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
        }
    }
}

/// The signature of one piece of thinking.
#[derive(Clone, Debug, PartialEq)]
pub enum Signature<'a> {
    /// The `signature` of a thinking block.
    Anthropic(Text<'a>),
    /// The `data` of a redacted_thinking block.
    AnthropicRedacted(Text<'a>),
    /// `encrypted_content` of a reasoning item, with the item's id and the texts of its summary.
    OpenAi { id: Option<Text<'a>>, encrypted: Text<'a>, summary: Vec<Text<'a>> },
    /// The `thoughtSignature` of a part.
    Gemini(Text<'a>),
    /// A string whose provider cannot be told.
    Unknown(Text<'a>),
}

impl Signature<'_> {
    pub fn provider(&self) -> Option<Provider> {
        match self {
            Self::Anthropic(_) | Self::AnthropicRedacted(_) => Some(Provider::Anthropic),
            Self::OpenAi { .. } => Some(Provider::OpenAi),
            Self::Gemini(_) => Some(Provider::Gemini),
            Self::Unknown(_) => None,
        }
    }

    pub fn into_owned(self) -> Signature<'static> {
        match self {
            Self::Anthropic(text) => Signature::Anthropic(text.into_owned()),
            Self::AnthropicRedacted(text) => Signature::AnthropicRedacted(text.into_owned()),
            Self::OpenAi { id, encrypted, summary } => Signature::OpenAi {
                id: id.map(Text::into_owned),
                encrypted: encrypted.into_owned(),
                summary: summary.into_iter().map(Text::into_owned).collect(),
            },
            Self::Gemini(text) => Signature::Gemini(text.into_owned()),
            Self::Unknown(text) => Signature::Unknown(text.into_owned()),
        }
    }
}

/// Builds the tag that carries thinking of one provider: each piece as its text and its signature. `None` when no
/// signature has a known provider. If there are several providers, only the first one's pieces are kept.
pub fn tag(pieces: &[(Text<'_>, Signature<'_>)]) -> Option<Text<'static>> {
    let provider = pieces.iter().find_map(|(_, signature)| signature.provider())?;
    let mut json = Writer::new();
    let mut of_provider = pieces.iter().filter(|(_, signature)| signature.provider() == Some(provider));
    match provider {
        Provider::Anthropic => json.list(|list| of_provider.for_each(|piece| put(list, piece))),
        // A single item stands alone, several make a list.
        _ => match (of_provider.next(), of_provider.next()) {
            (Some(first), Some(second)) => json.list(|list| {
                [first, second].into_iter().chain(of_provider).for_each(|piece| put(list, piece));
            }),
            (only, _) => only.into_iter().for_each(|piece| put(&mut json, piece)),
        },
    }
    let packed = URL_SAFE_NO_PAD.encode(json.as_str());
    Some(Text::of(&format!("{PREFIX}{}:{packed}", provider.id())))
}

fn put(json: &mut Writer, (text, signature): &(Text<'_>, Signature<'_>)) {
    json.object(|o| match signature {
        Signature::Anthropic(proof) => {
            o.field("t", text);
            o.field("s", proof);
        }
        Signature::AnthropicRedacted(data) => o.field("r", data),
        Signature::OpenAi { id, encrypted, summary } => {
            o.field_if("id", id.as_ref());
            o.field("e", encrypted);
            o.array("sum", |a| summary.iter().for_each(|text| a.item(text)));
        }
        Signature::Gemini(proof) => o.field("s", proof),
        Signature::Unknown(_) => {}
    });
}

/// Builds the tag for clients of gemini: their signatures are bytes in base64, which SDKs decode and encode again.
pub fn tag_in_bytes(pieces: &[(Text<'_>, Signature<'_>)]) -> Option<Text<'static>> {
    tag(pieces).map(|tag| Text::of(&STANDARD.encode(tag.literal())))
}

/// Unpacks a tag that a client of gemini sends back, in either alphabet of base64. `None` when it is not a tag: then it
/// is gemini's own signature.
pub fn untag_bytes(proof: &Text<'_>) -> Option<Vec<(Text<'static>, Signature<'static>)>> {
    let proof = proof.decode();
    if !proof.starts_with(PREFIX_IN_BYTES) {
        return None;
    }
    let url_safe = proof.replace('+', "-").replace('/', "_");
    let plain = TOLERANT.decode(url_safe).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    Some(plain.and_then(|plain| untag(&Text::of(&plain))).unwrap_or_default())
}

/// Unpacks a tag into pieces of thinking with their signatures. `None` when the string is not a tag. A damaged tag of
/// ours gives no pieces.
pub fn untag(tag: &Text<'_>) -> Option<Vec<(Text<'static>, Signature<'static>)>> {
    let tag = tag.decode();
    for (prefix, provider) in OLD_PREFIXES {
        if let Some(proof) = tag.strip_prefix(prefix) {
            let proof = Text::of(proof);
            let signature = match provider {
                Provider::Anthropic => Signature::Anthropic(proof),
                Provider::OpenAi => Signature::OpenAi { id: None, encrypted: proof, summary: Vec::new() },
                Provider::Gemini => Signature::Gemini(proof),
            };
            return Some(vec![(Text::EMPTY, signature)]);
        }
    }
    // Clients that join the pieces of a stream's unknown members join tags, too. The last one repeats the others.
    let last = tag.rfind(PREFIX).filter(|_| tag.starts_with(PREFIX))?;
    let (provider, packed) = tag[last + PREFIX.len()..].split_once(':')?;
    let unpacked = TOLERANT.decode(packed).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let node = unpacked.as_deref().and_then(|text| Node::parse(text).ok());
    Some(node.map(|node| unpack(provider, &node)).unwrap_or_default())
}

fn unpack(provider: &str, node: &Node<'_>) -> Vec<(Text<'static>, Signature<'static>)> {
    let pieces = if node.is_array() { node.items() } else { std::slice::from_ref(node) };
    let text = |piece: &Node<'_>, key: &str| piece.text_at(key).map(Text::into_owned);
    let read = |piece: &Node<'_>| match provider {
        "anthropic" => match text(piece, "r") {
            Some(data) => Some((Text::EMPTY, Signature::AnthropicRedacted(data))),
            None => Some((text(piece, "t").unwrap_or_default(), Signature::Anthropic(text(piece, "s")?))),
        },
        "openai" => {
            let summary = piece.items_at("sum").iter().filter_map(Node::text).map(Text::into_owned);
            let summary: Vec<_> = summary.collect();
            let shown = Text::join(&summary, "\\n\\n");
            Some((shown, Signature::OpenAi { id: text(piece, "id"), encrypted: text(piece, "e")?, summary }))
        }
        "gemini" => Some((Text::EMPTY, Signature::Gemini(text(piece, "s")?))),
        _ => None,
    };
    pieces.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_tag_is_made_and_read() {
        let pieces = [(Text::of("Need add.\n"), Signature::Anthropic(Text::of("SIG1")))];
        let made = tag(&pieces).unwrap();
        assert_eq!(made.literal(), "sy1:anthropic:W3sidCI6Ik5lZWQgYWRkLlxuIiwicyI6IlNJRzEifV0");
        assert_eq!(untag(&made).unwrap(), pieces);
    }

    #[test]
    fn every_provider_gets_back_what_it_gave() {
        let openai = Signature::OpenAi {
            id: Some(Text::of("rs_1")),
            encrypted: Text::of("gAAA+/="),
            summary: vec![Text::of("One."), Text::of("Two.\u{1}")],
        };
        for piece in [
            (Text::EMPTY, Signature::AnthropicRedacted(Text::of("EvAF/+=="))),
            (Text::of("One.\n\nTwo.\u{1}"), openai),
            (Text::EMPTY, Signature::Gemini(Text::of("Cq=="))),
        ] {
            let pieces = [piece];
            assert_eq!(untag(&tag(&pieces).unwrap()).unwrap(), pieces);
        }
        let both = ["rs_1", "rs_2"].map(|id| {
            let id = Some(Text::of(id));
            (Text::EMPTY, Signature::OpenAi { id, encrypted: Text::of("e"), summary: Vec::new() })
        });
        assert_eq!(untag(&tag(&both).unwrap()).unwrap(), both);
        let joined = Text::join([&tag(&both[..1]).unwrap(), &tag(&both).unwrap()], "");
        assert_eq!(untag(&joined).unwrap(), both, "a client has joined two deltas");
        assert_eq!(tag(&[(Text::EMPTY, Signature::Unknown(Text::of("x")))]), None);
    }

    #[test]
    fn a_tag_in_bytes_comes_back_in_either_alphabet_of_base64() {
        let pieces = [(Text::of("Need >>>???\n"), Signature::Anthropic(Text::of("SIG/+=")))];
        let made = tag_in_bytes(&pieces).unwrap();
        assert!(made.literal().starts_with(PREFIX_IN_BYTES), "{made:?}");
        let url_safe = made.literal().replace('+', "-").replace('/', "_");
        for sent in [made.literal(), &url_safe, url_safe.trim_end_matches('=')] {
            assert_eq!(untag_bytes(&Text::of(sent)).unwrap(), pieces, "{sent}");
        }
        assert_eq!(untag_bytes(&Text::of("CiQBcsjafA==")), None);
        assert_eq!(untag_bytes(&Text::of("c3kxO!")), Some(Vec::new()));
    }

    #[test]
    fn foreign_and_damaged_strings_carry_nothing() {
        assert_eq!(untag(&Text::of("EqQBCkYIBRgC")), None);
        for damaged in ["sy1:anthropic:!!!", "sy1:anthropic:e30", "sy1:openai:W10", "sy1:other:e30"] {
            assert_eq!(untag(&Text::of(damaged)), Some(Vec::new()), "{damaged}");
        }
        let old = untag(&Text::of("metapi:anthropic-signature:SIG")).unwrap();
        assert_eq!(old, [(Text::EMPTY, Signature::Anthropic(Text::of("SIG")))]);
        let padded = Text::of("sy1:gemini:eyJzIjoiQ3EifQ==");
        assert_eq!(untag(&padded).unwrap().len(), 1);
    }
}
