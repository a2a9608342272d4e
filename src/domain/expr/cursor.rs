//! The parser's cursor. Questions about the next token enter; answers, and mistakes with their place, leave.
//! What must never happen: reading past the last token. Behind it there is only `End`.

use super::error::ParseError;
use super::lex::{Symbol, Token};
use super::parse::{Parsed, Parser};

impl Parser<'_> {
    pub(super) fn peek(&self) -> &Token {
        self.lexemes.get(self.at).map_or(&Token::End, |lexeme| &lexeme.token)
    }

    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    pub(super) fn start(&self) -> usize {
        self.lexemes.get(self.at).or(self.lexemes.last()).map_or(0, |lexeme| lexeme.start)
    }

    pub(super) fn take(&mut self, symbol: Symbol) -> bool {
        let found = *self.peek() == Token::Symbol(symbol);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, symbol: Symbol, expected: &str) -> Parsed<()> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    pub(super) fn is_word(&self, wanted: &str) -> bool {
        matches!(self.peek(), Token::Word(word) if **word == *wanted)
    }

    pub(super) fn word_after_is(&self, wanted: &str) -> bool {
        matches!(self.lexemes.get(self.at + 1).map(|lexeme| &lexeme.token), Some(Token::Word(word)) if **word == *wanted)
    }

    pub(super) fn take_word(&mut self, wanted: &str) -> bool {
        let found = self.is_word(wanted);
        self.at += usize::from(found);
        found
    }

    pub(super) fn unexpected(&self, expected: &str) -> ParseError {
        let found = match self.peek() {
            Token::Number(number) => format!("unexpected number {number}"),
            Token::Text(_) => "unexpected text".to_owned(),
            Token::Word(word) => format!("unexpected `{word}`"),
            Token::Symbol(symbol) => format!("unexpected `{}`", symbol.text()),
            Token::End => "the expression ends too early".to_owned(),
        };
        self.mistake(format!("{found}, {expected} should stand here"))
    }

    pub(super) fn mistake(&self, message: String) -> ParseError {
        ParseError::at(self.start(), message)
    }
}
