//! The probability of each token of an answer.
//!
//! | | complete | in a stream |
//! |---|---|---|
//! | chat | `logprobs.content` of a choice | the same, for the text of the chunk |
//! | responses | `logprobs` of an `output_text` | the same, for the delta |
//! | gemini | `logprobsResult` of a candidate | the same, for the chunk |
//!
//! Messages has none: a request for them is not sent there.

use super::literal::{Json, Text};
use super::tree::Node;
use super::writer::Writer;

/// A token, and others that might have stood in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Token<'a> {
    pub text: Text<'a>,
    pub logprob: Json<'a>,
    /// Its bytes, as a list of numbers: a token may be a piece of a letter.
    pub bytes: Option<Json<'a>>,
    /// The most probable tokens at this place.
    pub others: Vec<Token<'a>>,
}

/// Reads a list as OpenAI writes it.
pub fn read<'a>(list: &[Node<'a>]) -> Vec<Token<'a>> {
    list.iter().filter_map(Token::read).collect()
}

/// Writes a list as OpenAI does.
pub fn put(o: &mut Writer, key: &str, tokens: &[Token<'_>]) {
    o.array(key, |a| {
        for token in tokens {
            a.object(|o| {
                token.put(o);
                o.array("top_logprobs", |a| token.others.iter().for_each(|other| a.object(|o| other.put(o))));
            });
        }
    });
}

impl<'a> Token<'a> {
    fn read(node: &Node<'a>) -> Option<Self> {
        Some(Self {
            text: node.text_at("token")?,
            logprob: node.get("logprob").filter(|logprob| logprob.f64().is_some())?.json(),
            bytes: node.get("bytes").filter(|bytes| bytes.is_array()).map(Node::json),
            others: read(node.items_at("top_logprobs")),
        })
    }

    fn put(&self, o: &mut Writer) {
        o.field("token", &self.text);
        o.field("logprob", &self.logprob);
        match &self.bytes {
            Some(bytes) => o.field("bytes", bytes),
            None => o.array("bytes", |a| self.text.decode().bytes().for_each(|it| a.item(u64::from(it)))),
        }
    }

    pub fn into_owned(self) -> Token<'static> {
        Token {
            text: self.text.into_owned(),
            logprob: self.logprob.into_owned(),
            bytes: self.bytes.map(Json::into_owned),
            others: self.others.into_iter().map(Token::into_owned).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_need_is_made_up_and_the_rest_left_out() {
        let list = r#"[{"token":"é","logprob":-0.50,"bytes":null},{"token":"a","logprob":0,"bytes":[97],
            "top_logprobs":[{"token":"b","logprob":-1e-3},{"token":"c"}]},{"logprob":1},5,{"token":"x","logprob":"y"}]"#;
        let tokens = read(Node::parse(list).unwrap().items());
        let mut json = Writer::new();
        json.object(|o| put(o, "logprobs", &tokens));
        let wanted = concat!(
            r#"{"logprobs":[{"token":"é","logprob":-0.50,"bytes":[195,169],"top_logprobs":[]},"#,
            r#"{"token":"a","logprob":0,"bytes":[97],"top_logprobs":[{"token":"b","logprob":-1e-3,"bytes":[98]}]}]}"#
        );
        assert_eq!(json.into_string(), wanted);
    }
}
