//! Makes texts of others safe for a terminal.
//!
//! Messages, names and types come from tasks and from clusters. A terminal executes control sequences in them: they can hide
//! text, change the title or the clipboard, and on some terminals type commands.

use std::borrow::Cow;

/// The text with every control character replaced by its code, such as `\\u001b`. Line breaks and tabs stay. In JSON the
/// result means the same as the text.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_unsafe(letter) {
            safe.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            safe.push(letter);
        }
    }
    Cow::Owned(safe)
}

/// Control characters, and characters that change the order in which others are shown.
fn is_unsafe(letter: char) -> bool {
    (letter.is_control() && letter != '\n' && letter != '\t')
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_by_their_code() {
        for (text, shown) in [
            ("\x1b]52;c;cm0=\x07done", "\\u001b]52;c;cm0=\\u0007done"),
            ("\u{9b}2J", "\\u009b2J"),
            ("failed\rSucceeded", "failed\\u000dSucceeded"),
            ("a\u{202e}b", "a\\u202eb"),
            ("\x08\x7f\0", "\\u0008\\u007f\\u0000"),
        ] {
            assert_eq!(printable(text), shown);
        }
        let harmless = "größer: a\tb\n… 你好 ✓";
        assert!(matches!(printable(harmless), Cow::Borrowed(text) if text == harmless));
    }

    #[test]
    fn in_json_the_meaning_stays() {
        let value = serde_json::json!({"message": "a\u{9b}b\x7f\u{202e}"});
        let shown = printable(&value.to_string()).into_owned();
        assert!(!shown.contains(is_unsafe), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).ok(), Some(value));
    }
}
