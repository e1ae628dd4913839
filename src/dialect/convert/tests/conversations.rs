//! Random conversations, as any client may lead them.

use proptest::prelude::*;

/// A step of a conversation, by either side.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Says(String),
    Shows,
    Instructs {
        developer: bool,
        text: String,
    },
    Answers {
        thought: Thought,
        text: Option<String>,
        calls: Vec<Call>,
    },
    /// The result of a call, by its number in the conversation.
    Results {
        call: usize,
        result: Output,
        /// Whether it comes only when the assistant has gone on without it.
        late: bool,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) tool: usize,
    pub(super) number: usize,
}

/// The form in which an answer's thinking comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Thought {
    None,
    Unsigned,
    Anthropic,
    Redacted,
    OpenAi,
    Gemini,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Output {
    Text,
    Empty,
    Error,
    Picture,
}

/// The ids that a client gives to calls.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ids {
    Own,
    /// Ids that messages refuses.
    Odd,
    /// One id for all calls.
    Repeated,
    /// No ids, where the dialect can do without.
    Missing,
    /// No id for every second call.
    Mixed,
}

/// The parts that each request of a conversation repeats.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) instructions: Vec<String>,
    pub(super) tools: usize,
    pub(super) ids: Ids,
    pub(super) effort: Option<&'static str>,
    pub(super) choice: Option<&'static str>,
    pub(super) json: bool,
    /// Whether the client sets cache marks even though its dialect has none.
    pub(super) marked: bool,
    /// Whether the output limit leaves little to think with.
    pub(super) short: bool,
}

pub(super) const TOOLS: [&str; 5] = [
    "add",
    "ns.read file",
    "mcp__a_server_with_a_name_that_is_far_too_long_for_anybody__and_its_tool",
    "mcp__a_server_with_a_name_that_is_far_too_long_for_somebody__and_its_tool",
    // The name that the third becomes where it is too long.
    "mcp__and_its_tool",
];
pub(super) const PICTURE: &str = "iVBORw0K";

impl Head {
    pub(super) fn id(&self, number: usize) -> String {
        match self.ids {
            Ids::Own => format!("toolu_{number}"),
            Ids::Odd => format!("call:{number}|{}", "x".repeat(70)),
            Ids::Repeated => "call_0".to_owned(),
            Ids::Missing => String::new(),
            Ids::Mixed if number.is_multiple_of(2) => String::new(),
            Ids::Mixed => format!("toolu_{number}"),
        }
    }

    /// Whether the tools that may be called change from one request to the next.
    pub(super) fn is_choosing(&self) -> bool {
        self.choice == Some("allowed")
    }

    /// Returns the tools that may be called in a request; they differ in the next.
    pub(super) fn allowed(&self, steps: &[Step]) -> &'static [&'static str] {
        &TOOLS[..1 + steps.len() % self.tools]
    }

    /// Returns the id of a call where the dialect cannot do without.
    pub(super) fn needed_id(&self, number: usize) -> String {
        Some(self.id(number)).filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{number}"))
    }
}

// === conversations ===

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["Add them.", "As JSON, please.", "<system-reminder>Mind.", "Ünï \"q\"\n"])
        .prop_map(str::to_owned)
}

fn thought() -> impl Strategy<Value = Thought> {
    prop::sample::select(vec![
        Thought::None,
        Thought::Unsigned,
        Thought::Anthropic,
        Thought::Redacted,
        Thought::OpenAi,
        Thought::Gemini,
    ])
}

fn instruction() -> impl Strategy<Value = Step> {
    (any::<bool>(), text()).prop_map(|(developer, text)| Step::Instructs { developer, text })
}

/// Generates the beginning of the user's side. A blank text alone would leave nothing in some dialects, and the
/// assistant would continue its own words.
fn asked() -> impl Strategy<Value = Vec<Step>> {
    let step = || prop_oneof![3 => text().prop_map(Step::Says), 1 => Just(Step::Shows), 1 => instruction()];
    let blank = || Just(Step::Says(" ".to_owned()));
    (
        prop::collection::vec(prop_oneof![2 => step(), 1 => blank()], 0..3),
        step(),
        any::<prop::sample::Index>(),
    )
        .prop_map(|(mut steps, step, at)| {
            steps.insert(at.index(steps.len() + 1), step);
            steps
        })
}

/// Generates calls of the assistant, their results, and anything else said before it goes on.
fn looped() -> impl Strategy<Value = Vec<Step>> {
    let output = prop::sample::select(vec![Output::Text, Output::Empty, Output::Error, Output::Picture]);
    let calls = prop::collection::vec((0..TOOLS.len(), output), 1..4);
    let beside = prop::option::of((0usize..4, prop_oneof![instruction(), text().prop_map(Step::Says)]));
    let is_late = prop::bool::weighted(0.2);
    (thought(), prop::option::of(text()), calls, beside, any::<bool>(), is_late).prop_map(
        |(thought, text, calls, beside, reversed, is_late)| {
            let made = calls.iter().map(|(tool, _)| Call { tool: *tool, number: 0 }).collect();
            let mut results: Vec<_> = calls
                .iter()
                .enumerate()
                .map(|(call, (_, result))| Step::Results {
                    call,
                    result: *result,
                    late: is_late && call == 0,
                })
                .collect();
            if reversed {
                results.reverse();
            }
            if let Some((at, step)) = beside {
                results.insert(at.min(results.len()), step);
            }
            std::iter::once(Step::Answers { thought, text, calls: made }).chain(results).collect()
        },
    )
}

fn exchange() -> impl Strategy<Value = Vec<Step>> {
    let ends = (thought(), text()).prop_map(|(thought, text)| Step::Answers {
        thought,
        text: Some(text),
        calls: Vec::new(),
    });
    (asked(), prop::collection::vec(looped(), 0..3), ends).prop_map(|(asked, loops, ends)| {
        asked.into_iter().chain(loops.into_iter().flatten()).chain([ends]).collect()
    })
}

pub(super) fn conversation() -> impl Strategy<Value = Vec<Step>> {
    (any::<bool>(), prop::collection::vec(exchange(), 1..4)).prop_map(|(greeted, exchanges)| {
        let greeting = greeted.then(|| Step::Answers {
            thought: Thought::None,
            text: Some("Hello.".into()),
            calls: Vec::new(),
        });
        let opening = Step::Says("Hi.".to_owned());
        let steps = greeting.into_iter().chain([opening]).chain(exchanges.into_iter().flatten());
        delayed(numbered(steps))
    })
}

/// Numbers the calls through the conversation; a result names one of the answer before it.
fn numbered(steps: impl Iterator<Item = Step>) -> Vec<Step> {
    let (mut made, mut first) = (0, 0);
    let number = |mut step| {
        match &mut step {
            Step::Answers { calls, .. } => {
                first = made;
                for call in calls {
                    call.number = made;
                    made += 1;
                }
            }
            Step::Results { call, .. } => *call += first,
            _ => {}
        }
        step
    };
    steps.map(number).collect()
}

/// Moves late results behind the next answer.
fn delayed(steps: Vec<Step>) -> Vec<Step> {
    let mut delayed = Vec::new();
    let mut late: Option<Step> = None;
    for step in steps {
        match step {
            Step::Results { late: true, .. } => {
                late = Some(step);
                // Otherwise nobody would have spoken between the two answers.
                delayed.push(Step::Says("Go on.".to_owned()));
            }
            Step::Answers { .. } => {
                delayed.push(step);
                delayed.extend(late.take());
            }
            step => delayed.push(step),
        }
    }
    delayed
}

pub(super) fn head() -> impl Strategy<Value = Head> {
    let ids =
        prop::sample::select(vec![Ids::Own, Ids::Own, Ids::Odd, Ids::Repeated, Ids::Missing, Ids::Mixed]);
    let effort = prop::option::of(prop::sample::select(vec!["none", "low", "high"]));
    let choice = prop::option::of(prop::sample::select(vec!["auto", "none", "required", "named", "allowed"]));
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (prop::collection::vec(text(), 0..3), 1..=TOOLS.len(), ids, effort, choice, flags).prop_map(
        |(instructions, tools, ids, effort, choice, (json, short, marked))| Head {
            instructions,
            tools,
            ids,
            effort,
            choice,
            json,
            marked,
            short,
        },
    )
}

/// Returns the beginnings of the conversation that end where the assistant is asked: each of them is a request.
pub(super) fn requests(steps: &[Step]) -> impl Iterator<Item = &[Step]> {
    let is_answer = |step: &Step| matches!(step, Step::Answers { .. });
    let ends = (1..=steps.len())
        .filter(move |end| !is_answer(&steps[end - 1]) && steps.get(*end).is_none_or(is_answer));
    ends.map(|end| &steps[..end])
}
