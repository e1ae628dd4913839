//! Recognizes the end of a call's input, a JSON object that comes in pieces.

use crate::dialect::literal::Text;

/// What has been read of an input.
#[derive(Debug, Default)]
pub(super) struct InputEnd {
    /// The number of objects and lists that are open.
    depth: usize,
    is_in_string: bool,
    /// Whether the last byte was the backslash of an escape.
    is_in_escape: bool,
    /// Whether the outermost object is closed.
    is_reached: bool,
}

impl InputEnd {
    /// Whether the object is complete: another piece could only spoil it.
    pub(super) fn is_reached(&self) -> bool {
        self.is_reached
    }

    pub(super) fn push(&mut self, piece: &Text<'_>) {
        for byte in piece.decode().bytes() {
            self.push_byte(byte);
        }
    }

    fn push_byte(&mut self, byte: u8) {
        if self.is_in_string {
            let ends = byte == b'"' && !self.is_in_escape;
            self.is_in_escape = byte == b'\\' && !self.is_in_escape;
            self.is_in_string = !ends;
            return;
        }
        match byte {
            b'"' => self.is_in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.is_reached = self.depth == 0;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_whole(pieces: &[&str]) -> bool {
        let mut end = InputEnd::default();
        pieces.iter().for_each(|piece| end.push(&Text::of(piece)));
        end.is_reached()
    }

    #[test]
    fn an_object_ends_with_its_own_brace() {
        for pieces in [
            &["{}"][..],
            &[" {", "\"a\"", ": [1, {\"b\": 2}]", "}\n"],
            &["{\"a\":\"}", "\\", "\"{\"}"],
            &["{\"a\\\\\":\"x\\\\\"}"],
        ] {
            assert!(is_whole(pieces), "{pieces:?}");
        }
        for pieces in
            [&[][..], &["{"], &["{\"a\":{}"], &["{\"a\":\"}"], &["{\"a\":\"\\\"}"], &["12"], &["\"{}\""]]
        {
            assert!(!is_whole(pieces), "{pieces:?}");
        }
    }
}
