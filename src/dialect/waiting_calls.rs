//! The calls of a conversation, and which of them still wait for their results.
//!
//! Dialects differ in what a result names: the id of its call, its function, or nothing. They share the look-up, which
//! takes the same time however many calls there are: a conversation may have thousands, and every result is looked up
//! among all of them.

use std::collections::HashMap;

use super::literal::Text;

/// The calls so far, in order. A call is identified by its place among them.
#[derive(Debug, Default)]
pub(super) struct WaitingCalls<'a> {
    ids: Vec<Text<'a>>,
    /// Whether the result of each has come.
    answered: Vec<bool>,
    /// The first place at which a call may still wait.
    settled: usize,
    by_id: HashMap<Text<'a>, Places>,
    by_name: HashMap<Text<'a>, Places>,
    /// The places of the calls to which their client gave no id, by the names of their functions.
    unnamed: HashMap<Text<'a>, Places>,
}

/// The places of the calls of one id, or of one function.
#[derive(Debug, Default)]
struct Places {
    all: Vec<usize>,
    /// How many of them, from the first, no longer wait.
    settled: usize,
}

impl<'a> WaitingCalls<'a> {
    /// Adds a waiting call, to be found by its id.
    pub(super) fn push(&mut self, id: Text<'a>) {
        self.by_id.entry(id.clone()).or_default().all.push(self.ids.len());
        self.ids.push(id);
        self.answered.push(false);
    }

    /// Adds a waiting call, to be found by its id or by the name of its function.
    pub(super) fn push_named(&mut self, id: Text<'a>, name: Text<'a>) {
        self.by_name.entry(name).or_default().all.push(self.ids.len());
        self.push(id);
    }

    /// Adds a waiting call to which its client gave no id. Results without an id belong to such calls first.
    pub(super) fn push_unnamed(&mut self, id: Text<'a>, name: Text<'a>) {
        self.unnamed.entry(name.clone()).or_default().all.push(self.ids.len());
        self.push_named(id, name);
    }

    /// Forgets the names of the calls so far: from now on these are found by their ids alone.
    pub(super) fn forget_names(&mut self) {
        self.by_name.clear();
        self.unnamed.clear();
    }

    /// Marks the calls of this id as no longer waiting.
    pub(super) fn abandon(&mut self, id: &Text<'_>) {
        let Some(places) = self.by_id.get_mut(id.literal()) else { return };
        for place in places.all.iter().skip(places.settled) {
            if let Some(answered) = self.answered.get_mut(*place) {
                *answered = true;
            }
        }
        places.settled = places.all.len();
    }

    /// Returns the number of calls.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns the number of calls with this id.
    pub(super) fn count(&self, id: &Text<'_>) -> usize {
        self.by_id.get(id.literal()).map_or(0, |places| places.all.len())
    }

    /// Returns the place of the last call of this id, whether it waits or not.
    pub(super) fn last(&self, id: &Text<'_>) -> Option<usize> {
        self.by_id.get(id.literal())?.all.last().copied()
    }

    /// Answers the first waiting call of this id, which then waits no longer, and returns its place.
    pub(super) fn answer(&mut self, id: &Text<'_>) -> Option<usize> {
        let place = self.by_id.get_mut(id.literal())?.first(&self.answered)?;
        self.settle(place)
    }

    /// Answers the first waiting call of this function, which then waits no longer, and returns its id.
    pub(super) fn answer_named(&mut self, name: &Text<'_>) -> Option<Text<'a>> {
        let waiting = |places: &mut HashMap<Text<'a>, Places>| {
            places.get_mut(name.literal()).and_then(|places| places.first(&self.answered))
        };
        let place = waiting(&mut self.unnamed).or_else(|| waiting(&mut self.by_name))?;
        self.settle(place).and_then(|place| self.ids.get(place)).cloned()
    }

    /// Answers the first of all waiting calls, which then waits no longer, and returns its id.
    pub(super) fn answer_next(&mut self) -> Option<Text<'a>> {
        while self.answered.get(self.settled) == Some(&true) {
            self.settled += 1;
        }
        self.settle(self.settled).and_then(|place| self.ids.get(place)).cloned()
    }

    fn settle(&mut self, place: usize) -> Option<usize> {
        self.answered.get_mut(place).map(|answered| {
            *answered = true;
            place
        })
    }
}

impl Places {
    fn first(&mut self, answered: &[bool]) -> Option<usize> {
        while let Some(&place) = self.all.get(self.settled) {
            if answered.get(place) == Some(&false) {
                return Some(place);
            }
            self.settled += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_finds_the_first_call_that_waits() {
        let mut calls = WaitingCalls::default();
        for (id, name) in [("a", "f"), ("b", "g"), ("a", "g"), ("c", "f")] {
            calls.push_named(Text::plain(id), Text::plain(name));
        }
        let a = Text::plain("a");
        assert_eq!((calls.len(), calls.count(&a), calls.last(&a)), (4, 2, Some(2)));
        assert_eq!(calls.answer_named(&Text::plain("g")), Some(Text::plain("b")));
        assert_eq!(calls.answer(&a), Some(0));
        assert_eq!(calls.answer_named(&Text::plain("f")), Some(Text::plain("c")), "the first has its result");
        assert_eq!(calls.answer_next(), Some(a.clone()));
        assert_eq!((calls.answer(&a), calls.answer_next()), (None, None));
        assert_eq!(calls.answer_named(&Text::plain("h")), None);
    }

    #[test]
    fn a_result_without_an_id_belongs_to_a_call_without_one_first() {
        let mut calls = WaitingCalls::default();
        calls.push_named(Text::plain("a"), Text::plain("f"));
        calls.push_unnamed(Text::plain("b"), Text::plain("f"));
        let f = Text::plain("f");
        assert_eq!(
            [calls.answer_named(&f), calls.answer_named(&f)],
            [Some(Text::plain("b")), Some(Text::plain("a"))]
        );
        calls.push_unnamed(Text::plain("c"), f.clone());
        calls.forget_names();
        assert_eq!((calls.answer_named(&f), calls.answer(&Text::plain("c"))), (None, Some(2)));
    }

    #[test]
    fn a_call_that_is_abandoned_waits_no_longer() {
        let mut calls = WaitingCalls::default();
        let id = Text::plain("a");
        calls.push(id.clone());
        calls.abandon(&id);
        calls.push(id.clone());
        assert_eq!((calls.answer(&id), calls.answer(&id)), (Some(1), None));
    }
}
