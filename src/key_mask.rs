//! Masks of keys, as sites list them: the beginning and the end of a key, and asterisks or bullets for the rest.

/// The characters that stand for hidden ones.
const HIDDEN: [char; 2] = ['*', '•'];

/// The parts of a key that a mask shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyMask<'a> {
    head: &'a str,
    tail: &'a str,
}

/// Whether a text is only the mask of a key.
pub fn is_mask(text: &str) -> bool {
    text.contains(HIDDEN)
}

// === impl KeyMask ===

impl<'a> KeyMask<'a> {
    /// Reads a mask; `None` for a text without hidden characters.
    pub fn of(text: &'a str) -> Option<Self> {
        let (first, last) = (text.find(HIDDEN)?, text.rfind(HIDDEN)?);
        Some(Self { head: &text[..first], tail: text[last..].trim_start_matches(HIDDEN) })
    }

    /// Returns the number of bytes that the mask shows.
    pub fn shown(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Whether the key begins and ends with what the mask shows. A mask that shows nothing fits no key.
    pub fn fits(&self, key: &str) -> bool {
        (1..=key.len()).contains(&self.shown()) && key.starts_with(self.head) && key.ends_with(self.tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_fits_the_keys_that_look_like_it() {
        for (mask, key, fits) in [
            ("abc***xyz", "abcdefxyz", true),
            ("abc••xyz", "abcxyz", true),
            ("abc*xyz", "abxyz", false),
            ("ab*c*yz", "abqyz", true),
            ("abc*", "abcd", true),
            ("*", "abc", false),
            ("abc*xyz", "abcdefxyy", false),
        ] {
            assert_eq!(KeyMask::of(mask).unwrap().fits(key), fits, "{mask} {key}");
        }
        assert_eq!(KeyMask::of("abcxyz"), None);
    }
}
