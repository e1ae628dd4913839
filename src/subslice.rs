//! The place of a slice in the text that it was cut from, for readers that replace a part of a text and copy the rest.

use std::ops::Range;

/// Returns the range of `part` in `whole`, in bytes; `None` if it is not a slice of it.
pub fn place_in<T: AsRef<[u8]> + ?Sized>(part: &T, whole: &T) -> Option<Range<usize>> {
    let (part, whole) = (part.as_ref(), whole.as_ref());
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (end <= whole.len()).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_slice_of_a_text_has_a_place_in_it() {
        let text = "one, two, three";
        let two = text.split(", ").nth(1).unwrap();
        assert_eq!(place_in(two, text), Some(5..8));
        assert_eq!(place_in(text, text), Some(0..15));
        assert_eq!(place_in(&text[15..], text), Some(15..15));
        assert_eq!(place_in(text, two), None);
        assert_eq!(place_in(&text[..6], two), None);
        assert_eq!(place_in(&text[7..], two), None);
        assert_eq!(place_in("two".to_owned().as_str(), text), None);
    }
}
