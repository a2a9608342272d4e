//! A JSON text for a person: a member per line. The text enters and leaves; not a digit of it changes.

/// JSON with a member per line. Works on the text: numbers and strings stay as they were written.
#[must_use]
pub fn laid_out(text: &str) -> String {
    let (mut out, mut depth, mut quoted, mut escaped) = (String::with_capacity(text.len() * 2), 0usize, false, false);
    let mut characters = text.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    while let Some(c) = characters.next() {
        if quoted {
            out.push(c);
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '"' => {
                quoted = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while characters.next_if(|next| next.is_whitespace()).is_some() {}
                // Nothing inside: closed on the same line.
                match characters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(close) => out.push(close),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::laid_out;
    use crate::domain::json::parse;

    #[test]
    fn json_is_laid_out_without_changing_a_digit() {
        let text = r#"{"a":1.10,"b":[ ],"c":{"d":"x,{\"y\": z","e":[1,2]}}"#;
        let laid = laid_out(text);
        assert_eq!(
            laid,
            "{\n  \"a\": 1.10,\n  \"b\": [],\n  \"c\": {\n    \"d\": \"x,{\\\"y\\\": z\",\n    \"e\": [\n      1,\n      2\n    ]\n  }\n}"
        );
        assert_eq!(parse(text).unwrap(), parse(&laid).unwrap());
    }
}
