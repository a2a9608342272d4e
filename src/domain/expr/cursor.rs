//! The parser's cursor. Questions about the next token enter; answers, and mistakes with their place, leave.
//! What must never happen: reading past the last token. Behind it there is only `End`.

use super::error::ParseError;
use super::lex::{DECIMAL_COMMA, Symbol, Token};
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
        if self.is_decimal_comma() {
            return self.mistake(DECIMAL_COMMA.to_owned());
        }
        let found = match self.peek() {
            Token::Number(number) => format!("unexpected number {number}"),
            Token::Text(_) => "unexpected text".to_owned(),
            Token::Word(word) => format!("unexpected `{word}`"),
            Token::Symbol(symbol) => format!("unexpected `{}`", symbol.text()),
            Token::End => "the expression ends too early".to_owned(),
        };
        self.mistake(format!("{found}, {expected} should stand here"))
    }

    /// Tells whether the next token is the comma of `1,19`.
    fn is_decimal_comma(&self) -> bool {
        let number = |at: Option<usize>| {
            let lexeme = at.and_then(|at| self.lexemes.get(at));
            lexeme.filter(|lexeme| matches!(lexeme.token, Token::Number(_)))
        };
        let (before, after) = (number(self.at.checked_sub(1)), number(self.at.checked_add(1)));
        let touches = |start: usize| {
            before.is_some_and(|number| number.end == start) && after.is_some_and(|number| number.start == start + 1)
        };
        *self.peek() == Token::Symbol(Symbol::Comma) && touches(self.start())
    }

    pub(super) fn mistake(&self, message: String) -> ParseError {
        ParseError::at(self.start(), message)
    }
}
