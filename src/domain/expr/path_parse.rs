//! Paths. A root name and the tokens behind it enter; a checked path leaves.
//! What must never happen: a root that is not in the caller's list.

use super::ITEM;
use super::error::ParseError;
use super::lex::{Symbol, Token};
use super::parse::{Parsed, Parser, suggestion};
use super::suggest::closest;
use super::tree::{Function, Kind, Path, Step};

impl Parser<'_> {
    /// A path whose root name has been read already.
    pub(super) fn path(&mut self, start: usize, root: &str) -> Parsed<Kind> {
        let Some(hint) = self.roots.iter().position(|allowed| *allowed == root) else {
            return Err(ParseError::at(start, self.unknown_root(root)));
        };
        if !self.used.iter().any(|used| **used == *root) {
            self.used.push(root.into());
        }
        let mut steps = Vec::new();
        loop {
            if self.take(Symbol::Point) {
                steps.push(self.member()?);
            } else if self.take(Symbol::OpenSquare) {
                steps.push(self.bracket()?);
                self.expect(Symbol::CloseSquare, "`]`")?;
            } else {
                break;
            }
        }
        let projects = steps.contains(&Step::Each);
        Ok(Kind::Path(Path { root: root.into(), hint, steps, projects }))
    }

    fn member(&mut self) -> Parsed<Step> {
        let Token::Word(name) = self.peek() else {
            return Err(self.unexpected("a member name (in ['…'] if it is an odd one)"));
        };
        let step = Step::Member(name.clone());
        self.advance();
        Ok(step)
    }

    fn bracket(&mut self) -> Parsed<Step> {
        let step = match self.peek() {
            Token::Text(name) => Step::Member(name.clone()),
            Token::Symbol(Symbol::Star) => Step::Each,
            Token::Number(number) => match usize::try_from(*number) {
                Ok(index) if number.is_integer() => Step::Index(index),
                Ok(_) | Err(_) => return Err(self.unexpected("a whole number")),
            },
            Token::Word(_) | Token::Symbol(_) | Token::End => {
                return Err(self.unexpected("`*`, a whole number or a quoted name"));
            }
        };
        self.advance();
        Ok(step)
    }

    fn unknown_root(&self, name: &str) -> String {
        if Function::TABLE.iter().any(|(known, ..)| *known == name) {
            return format!("`{name}` is a function: write `{name}(…)`");
        }
        if name == ITEM {
            return format!("unknown name `{name}`; only the lines of a rule with `each` have it");
        }
        let words = ["true", "false", "null", "not"];
        let near = closest(name, self.roots.iter().copied().chain(words));
        let hint = if near.is_some() { suggestion(near) } else { self.meanings(name) };
        format!("unknown name `{name}`{hint}")
    }

    /// The two things that an unknown name is mostly meant for: a member of the event, and a text. The name has been read already.
    fn meanings(&self, name: &str) -> String {
        let member = format!("a member of the event is `payload.{name}`");
        match self.peek() {
            Token::Symbol(Symbol::Point | Symbol::OpenSquare) => format!("; {member}"),
            // The quotes around the whole expression are those of the file: the text needs its own inside them.
            Token::End if self.at == 1 => format!("; a literal is written `\"'{name}'\"`, {member}"),
            _ => format!("; a literal is written `'{name}'`, {member}"),
        }
    }
}
