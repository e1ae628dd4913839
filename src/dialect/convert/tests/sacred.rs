//! Text is never changed: a client puts together exactly what the upstream sent, unit by unit, for any text, in each
//! pair and direction, however the stream is spelled and cut.
//!
//! Texts are lists of UTF-16 units, as clients in JavaScript have them: a piece may end in the middle of a character,
//! so that half of a surrogate pair is in one event and half in the next. The halves of a stream are put together, and
//! one that stays alone becomes U+FFFD.

use proptest::prelude::*;

use super::*;
use Dialect::{Chat, Gemini, Messages, Responses};

const ALL: [Dialect; 4] = [Chat, Responses, Messages, Gemini];

/// The kind of text in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Text,
    Thinking,
    /// The arguments of a call.
    Input,
}

/// Spells a unit as it may stand in a JSON string.
fn spelled(unit: u16, escaped: bool) -> String {
    match char::from_u32(unit.into()) {
        Some(letter) if !escaped && letter >= ' ' && letter != '"' && letter != '\\' => letter.to_string(),
        Some('\n') if !escaped => "\\n".to_owned(),
        _ => format!("\\u{unit:04x}"),
    }
}

/// Returns the literals of a text's pieces.
fn literals(pieces: &[Vec<(u16, bool)>]) -> Vec<String> {
    let literal =
        |piece: &Vec<(u16, bool)>| piece.iter().map(|(unit, escaped)| spelled(*unit, *escaped)).collect();
    pieces.iter().map(literal).collect()
}

/// Returns the units of a literal.
fn units(literal: &str) -> Vec<u16> {
    let mut units = Vec::new();
    let mut letters = literal.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            units.extend(letter.encode_utf16(&mut [0; 2]).iter());
            continue;
        }
        units.push(match letters.next().expect("an escape") {
            'u' => {
                u16::from_str_radix(&letters.by_ref().take(4).collect::<String>(), 16).expect("four digits")
            }
            'n' => 10,
            'r' => 13,
            't' => 9,
            'b' => 8,
            'f' => 12,
            other => other as u16,
        });
    }
    units
}

/// Returns the data of the events that carry the pieces, in a dialect.
fn events(dialect: Dialect, said: Said, pieces: &[String]) -> Vec<String> {
    let (head, tail): (&[&str], &[&str]);
    let piece: Box<dyn Fn(&String) -> String>;
    match dialect {
        Chat => {
            head = match said {
                Said::Input => &[
                    r#"{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":""}}]}}]}"#,
                ],
                _ => &[r#"{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#],
            };
            piece = Box::new(move |text| match said {
                Said::Text => format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#),
                Said::Thinking => {
                    format!(r#"{{"choices":[{{"index":0,"delta":{{"reasoning_content":"{text}"}}}}]}}"#)
                }
                Said::Input => format!(
                    r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"function":{{"arguments":"{text}"}}}}]}}}}]}}"#
                ),
            });
            tail = &[r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#, "[DONE]"];
        }
        Responses => {
            head = match said {
                Said::Text => &[
                    r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"i","type":"message","content":[]}}"#,
                ],
                Said::Thinking => &[
                    r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"i","type":"reasoning","summary":[]}}"#,
                ],
                Said::Input => &[
                    r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"i","type":"function_call","call_id":"c1","name":"f","arguments":""}}"#,
                ],
            };
            let kind = match said {
                Said::Text => "output_text",
                Said::Thinking => "reasoning_summary_text",
                Said::Input => "function_call_arguments",
            };
            piece = Box::new(move |text| {
                format!(
                    r#"{{"type":"response.{kind}.delta","item_id":"i","output_index":0,"delta":"{text}"}}"#
                )
            });
            tail = &[r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#];
        }
        Messages => {
            head = match said {
                Said::Text => {
                    &[r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#]
                }
                Said::Thinking => &[
                    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
                ],
                Said::Input => &[
                    r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c1","name":"f","input":{}}}"#,
                ],
            };
            let (kind, member) = match said {
                Said::Text => ("text_delta", "text"),
                Said::Thinking => ("thinking_delta", "thinking"),
                Said::Input => ("input_json_delta", "partial_json"),
            };
            piece = Box::new(move |text| {
                format!(
                    r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"{kind}","{member}":"{text}"}}}}"#
                )
            });
            tail = &[
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
                r#"{"type":"message_stop"}"#,
            ];
        }
        _ => {
            head = &[];
            let thought = if said == Said::Thinking { r#","thought":true"# } else { "" };
            piece = Box::new(move |text| {
                format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"{thought}}}]}}}}]}}"#)
            });
            tail = &[r#"{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}"#];
        }
    }
    let own = |all: &[&str]| all.iter().map(|data| (*data).to_owned()).collect::<Vec<_>>();
    [own(head), pieces.iter().map(piece).collect(), own(tail)].concat()
}

/// Writes the events as bytes of a stream with this line end. If `odd`, a byte order mark stands in front, comments
/// stand between events, and a JSON that begins with its type takes two `data` lines.
fn wire(events: &[String], end: &str, odd: bool) -> String {
    let mut wire = if odd { "\u{feff}".to_owned() } else { String::new() };
    for (index, data) in events.iter().enumerate() {
        if odd && index % 2 == 0 {
            wire += &format!(": kept alive{end}id: {index}{end}");
        }
        // Only where no text can be affected: before the second member of the outermost object.
        let lines = if odd && data.starts_with("{\"type\":") {
            data.replacen(",\"", ",\n\"", 1)
        } else {
            data.clone()
        };
        lines.lines().for_each(|line| wire += &format!("data: {line}{end}"));
        wire += end;
    }
    wire
}

/// Returns the units as a client decodes them: a half of a surrogate pair that stands alone becomes U+FFFD.
fn paired(units: &[u16]) -> Vec<u16> {
    String::from_utf16_lossy(units).encode_utf16().collect()
}

/// Returns the text that a client puts together from a stream.
fn accumulated(dialect: Dialect, said: Said, stream: &str) -> Vec<u16> {
    let mut literal = String::new();
    for data in stream.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let Ok(event) = Node::parse(data) else { continue };
        let kind = event.str_at("type");
        let place: Option<&Node<'_>> = match (dialect, said) {
            (Chat, _) => event.items_at("choices").first().and_then(|choice| match said {
                Said::Text => choice.path(&["delta", "content"]),
                Said::Thinking => choice.path(&["delta", "reasoning_content"]),
                Said::Input => {
                    choice.get("delta")?.items_at("tool_calls").first()?.path(&["function", "arguments"])
                }
            }),
            (Responses, _) => {
                let wanted = match said {
                    Said::Text => "response.output_text.delta",
                    Said::Thinking => "response.reasoning_summary_text.delta",
                    Said::Input => "response.function_call_arguments.delta",
                };
                event.get("delta").filter(|_| kind == wanted)
            }
            (Messages, _) => {
                let member = match said {
                    Said::Text => "text",
                    Said::Thinking => "thinking",
                    Said::Input => "partial_json",
                };
                event.path(&["delta", member])
            }
            _ => event.items_at("candidates").first().and_then(|candidate| {
                let part = candidate.path(&["content", "parts"])?.items().first()?;
                let thought = part.get("thought").is_some();
                part.get("text").filter(|_| thought == (said == Said::Thinking))
            }),
        };
        if let Some(text) = place.and_then(Node::text) {
            literal += text.literal();
        }
    }
    units(&literal)
}

/// Generates any UTF-16, mostly letters, with surrogates and the characters that streams are made of.
fn any_text() -> impl Strategy<Value = Vec<Vec<(u16, bool)>>> {
    let unit = prop_oneof![
        4 => 0x20u16..0x7f,
        2 => any::<u16>(),
        1 => 0xd800u16..0xe000,
        2 => prop::sample::select(vec![0u16, 9, 10, 13, 0x22, 0x5c, 0x7f, 0x85, 0x2028, 0xfeff, 0xfffd, 0x3c]),
    ];
    let piece = prop::collection::vec((unit, any::<bool>()), 0..8);
    // The first letter begins no tag of thinking, and is too short to be taken for a snapshot.
    prop::collection::vec(piece, 0..6).prop_map(|pieces| {
        let first = vec![(u16::from(b'a'), false)];
        std::iter::once(first).chain(pieces).collect()
    })
}

/// Returns the units of all pieces. Halves of surrogate pairs can only be escapes: in plain letters a file is valid
/// UTF-8.
fn whole(pieces: &[Vec<(u16, bool)>]) -> Vec<u16> {
    pieces.iter().flatten().map(|(unit, _)| *unit).collect()
}

fn converted(from: Dialect, to: Dialect, chunks: impl Iterator<Item = Vec<u8>>) -> String {
    let mut converter = StreamConverter::new(from, to, Arc::new(ReplyContext::default()));
    let mut out = String::new();
    chunks.for_each(|chunk| converter.feed(&chunk, &mut out));
    assert!(converter.close(&mut out), "{out}");
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_a_client_puts_together_is_what_was_sent(
        pieces in any_text(),
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        odd in any::<bool>(),
    ) {
        let (wanted, literals) = (paired(&whole(&pieces)), literals(&pieces));
        for from in ALL {
            for said in [Said::Text, Said::Thinking, Said::Input] {
                if said == Said::Input && from == Gemini {
                    continue;
                }
                let sent = wire(&events(from, said, &literals), end, odd);
                for to in ALL {
                    // Gemini has the arguments as an object.
                    if said == Said::Input && to == Gemini {
                        continue;
                    }
                    let out = converted(from, to, sent.bytes().map(|byte| vec![byte]));
                    prop_assert_eq!(accumulated(to, said, &out), wanted.clone(), "{:?} to {:?}: {} {}", from, to, sent, out);
                    // Clients decode each event by itself.
                    let alone = units(&out);
                    prop_assert_eq!(paired(&alone), alone, "{:?} to {:?}: {}", from, to, out);
                    prop_assert_eq!(&converted(from, to, std::iter::once(sent.clone().into_bytes())), &out);
                }
            }
        }
    }

    #[test]
    fn every_cut_of_the_network_gives_the_same(pieces in any_text(), at in any::<prop::sample::Index>()) {
        let literals = literals(&pieces);
        for from in ALL {
            let sent = wire(&events(from, Said::Text, &literals), "\n", false).into_bytes();
            let cut = at.index(sent.len() + 1);
            for to in ALL {
                let out = converted(from, to, [sent[..cut].to_vec(), sent[cut..].to_vec()].into_iter());
                prop_assert_eq!(accumulated(to, Said::Text, &out), paired(&whole(&pieces)));
            }
        }
    }

    #[test]
    fn whole_answers_and_requests_carry_every_unit(pieces in any_text()) {
        let text = literals(&pieces).concat();
        let wanted = whole(&pieces);
        for from in ALL {
            let answer = match from {
                Chat => format!(r#"{{"choices":[{{"message":{{"content":"{text}","reasoning_content":"{text}"}},"finish_reason":"stop"}}]}}"#),
                Responses => format!(r#"{{"status":"completed","output":[{{"type":"reasoning","summary":[{{"type":"summary_text","text":"{text}"}}]}},{{"type":"message","content":[{{"type":"output_text","text":"{text}"}}]}}]}}"#),
                Messages => format!(r#"{{"type":"message","content":[{{"type":"thinking","thinking":"{text}"}},{{"type":"text","text":"{text}"}}],"stop_reason":"end_turn"}}"#),
                _ => format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}","thought":true}},{{"text":"{text}"}}]}},"finishReason":"STOP"}}]}}"#),
            };
            let context = match from {
                Chat => format!(r#"{{"messages":[{{"role":"system","content":"{text}"}},{{"role":"user","content":"{text}"}},{{"role":"assistant","content":"{text}"}},{{"role":"user","content":"x"}}]}}"#),
                Responses => format!(r#"{{"instructions":"{text}","input":[{{"role":"user","content":"{text}"}},{{"role":"assistant","content":"{text}"}},{{"role":"user","content":"x"}}]}}"#),
                Messages => format!(r#"{{"max_tokens":9,"system":"{text}","messages":[{{"role":"user","content":"{text}"}},{{"role":"assistant","content":"{text}"}},{{"role":"user","content":"x"}}]}}"#),
                _ => format!(r#"{{"systemInstruction":{{"parts":[{{"text":"{text}"}}]}},"contents":[{{"role":"user","parts":[{{"text":"{text}"}}]}},{{"role":"model","parts":[{{"text":"{text}"}}]}},{{"role":"user","parts":[{{"text":"x"}}]}}]}}"#),
            };
            for to in ALL {
                let reply = super::super::reply(from, to, &answer, &ReplyContext::default()).unwrap();
                prop_assert_eq!(carried(&reply.body, &wanted), 2, "{:?} to {:?}: {:?}", from, to, reply.body);
                let replayed = super::super::replayed(from, to, &answer, &ReplyContext::default()).unwrap();
                let replayed = std::str::from_utf8(&replayed.body).unwrap();
                prop_assert_eq!(&accumulated(to, Said::Text, replayed), &wanted);
                prop_assert_eq!(&accumulated(to, Said::Thinking, replayed), &wanted);
                let target = Target { model: "m", stream: false, vendor: Vendor::Other };
                let request = super::super::request(from, to, &context, &target).unwrap();
                prop_assert_eq!(carried(&request.body, &wanted), 3, "{:?} to {:?}: {:?}", from, to, request.body);
            }
        }
    }
}

/// Returns how many strings of a body equal this text.
fn carried(body: &[u8], wanted: &[u16]) -> usize {
    fn count(node: &Node<'_>, wanted: &[u16]) -> usize {
        let own = node.text().is_some_and(|text| units(text.literal()) == wanted);
        let items = node.items().iter().map(|item| count(item, wanted)).sum::<usize>();
        let members = node.members().iter().map(|(_, value)| count(value, wanted)).sum::<usize>();
        usize::from(own) + items + members
    }
    count(&Node::parse(std::str::from_utf8(body).unwrap()).unwrap(), wanted)
}
