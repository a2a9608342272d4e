//! Text becomes tokens. An expression's source enters; numbers, texts, words and symbols leave, each with its place.
//! What must never happen: a literal read as another value than the one written.

use std::iter::Peekable;
use std::str::CharIndices;

use rust_decimal::Decimal;

use super::SOURCE_BYTES_MAX;
use super::error::ParseError;
use super::tree::{continues_word, starts_word};
use crate::domain::json::{NumberError, decimal_from_str};

/// The advice to an author who writes `1,19` or `1,000`.
pub(super) const DECIMAL_COMMA: &str = "a number has a point before its decimals and no comma: write it as 1234.50";

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Number(Decimal),
    Text(Box<str>),
    Word(Box<str>),
    Symbol(Symbol),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Symbol {
    Plus,
    Minus,
    Star,
    Slash,
    Open,
    Close,
    OpenSquare,
    CloseSquare,
    Comma,
    Point,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Debug, Clone)]
pub(super) struct Lexeme {
    pub token: Token,
    pub start: usize,
    pub end: usize,
}

/// All tokens of `source`, the last one being `End`.
pub(super) fn lex(source: &str) -> Result<Vec<Lexeme>, ParseError> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(ParseError::at(0, format!("longer than {SOURCE_BYTES_MAX} bytes")));
    }
    let mut lexer = Lexer { source, characters: source.char_indices().peekable() };
    let mut lexemes = Vec::new();
    while let Some((start, first)) = lexer.characters.next() {
        if first.is_whitespace() {
            continue;
        }
        let token = lexer.token(start, first)?;
        lexemes.push(Lexeme { token, start, end: lexer.position() });
    }
    lexemes.push(Lexeme { token: Token::End, start: source.len(), end: source.len() });
    Ok(lexemes)
}

struct Lexer<'s> {
    source: &'s str,
    characters: Peekable<CharIndices<'s>>,
}

impl Lexer<'_> {
    fn token(&mut self, start: usize, first: char) -> Result<Token, ParseError> {
        match first {
            '0'..='9' => self.number(start),
            '\'' | '"' => self.text(start, first),
            letter if starts_word(letter) => Ok(Token::Word(self.run_from(start, continues_word).into())),
            other => self.symbol(start, other).map(Token::Symbol),
        }
    }

    fn number(&mut self, start: usize) -> Result<Token, ParseError> {
        // `1,05` and `1,000` are not two numbers: the second one would begin with a zero.
        let is_behind_comma = self.source.get(..start).is_some_and(ends_with_digit_and_comma);
        // Letters are taken along, so that `1e5` and `1_000` are one mistake and not two odd tokens.
        let written = self.run_from(start, |character| continues_word(character) || character == '.');
        let problem = match decimal_from_str(written) {
            Ok(number) => return Ok(Token::Number(number)),
            Err(NumberError::NotANumber) if is_behind_comma => {
                return Err(ParseError::at(start.saturating_sub(1), DECIMAL_COMMA));
            }
            Err(NumberError::NotANumber) => "is not a number; write it as 1234.50",
            Err(NumberError::TooManyDigits) => "has more than 28 digits",
            Err(NumberError::TooManyDecimals) => "has more than 28 decimals",
        };
        Err(ParseError::at(start, format!("`{written}` {problem}")))
    }

    fn text(&mut self, start: usize, quote: char) -> Result<Token, ParseError> {
        let mut text = String::new();
        while let Some((at, character)) = self.characters.next() {
            match character {
                '\\' => match self.characters.next() {
                    Some((_, escaped @ ('\\' | '\'' | '"'))) => text.push(escaped),
                    Some(_) | None => {
                        return Err(ParseError::at(at, "a backslash can only stand before a quote or a backslash"));
                    }
                },
                end if end == quote => return Ok(Token::Text(text.into())),
                plain => text.push(plain),
            }
        }
        Err(ParseError::at(start, "this text has no closing quote"))
    }

    fn symbol(&mut self, start: usize, first: char) -> Result<Symbol, ParseError> {
        Ok(match first {
            '+' => Symbol::Plus,
            '-' => Symbol::Minus,
            '*' => Symbol::Star,
            '/' => Symbol::Slash,
            '(' => Symbol::Open,
            ')' => Symbol::Close,
            '[' => Symbol::OpenSquare,
            ']' => Symbol::CloseSquare,
            ',' => Symbol::Comma,
            '.' => Symbol::Point,
            '=' => {
                self.take('=');
                Symbol::Equal
            }
            '!' if self.take('=') => Symbol::NotEqual,
            '<' if self.take('=') => Symbol::LessEqual,
            '<' if self.take('>') => return Err(ParseError::at(start, "write `!=` instead of `<>`")),
            '<' => Symbol::Less,
            '>' if self.take('=') => Symbol::GreaterEqual,
            '>' => Symbol::Greater,
            '!' => return Err(ParseError::at(start, "write `not` instead of `!`")),
            '&' => return Err(ParseError::at(start, "write `and` instead of `&`")),
            '|' => return Err(ParseError::at(start, "write `or` instead of `|`")),
            '‘' | '’' | '“' | '”' | '„' => {
                return Err(ParseError::at(start, "write a straight quote (' or \") instead of a curly one"));
            }
            other if other.is_control() => return Err(ParseError::at(start, "unexpected control character")),
            other => return Err(ParseError::at(start, format!("unexpected `{other}`"))),
        })
    }

    fn take(&mut self, wanted: char) -> bool {
        self.characters.next_if(|&(_, character)| character == wanted).is_some()
    }

    /// The text from `start` over all following characters that belong.
    fn run_from(&mut self, start: usize, belongs: impl Fn(char) -> bool) -> &str {
        while self.characters.next_if(|&(_, character)| belongs(character)).is_some() {}
        let end = self.position();
        self.source.get(start..end).unwrap_or_default()
    }

    fn position(&mut self) -> usize {
        self.characters.peek().map_or(self.source.len(), |&(at, _)| at)
    }
}

fn ends_with_digit_and_comma(text: &str) -> bool {
    text.strip_suffix(',').is_some_and(|number| number.ends_with(|last: char| last.is_ascii_digit()))
}

impl Symbol {
    /// The symbol as it is written.
    pub fn text(self) -> &'static str {
        match self {
            Symbol::Plus => "+",
            Symbol::Minus => "-",
            Symbol::Star => "*",
            Symbol::Slash => "/",
            Symbol::Open => "(",
            Symbol::Close => ")",
            Symbol::OpenSquare => "[",
            Symbol::CloseSquare => "]",
            Symbol::Comma => ",",
            Symbol::Point => ".",
            Symbol::Equal => "==",
            Symbol::NotEqual => "!=",
            Symbol::Less => "<",
            Symbol::LessEqual => "<=",
            Symbol::Greater => ">",
            Symbol::GreaterEqual => ">=",
        }
    }
}
