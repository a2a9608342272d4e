//! Tokens become a tree. A rule's source and the allowed roots enter; a tree, or the first mistake, leaves.
//! What must never happen: a tree deeper than `DEPTH_MAX`, or a name that only turns out unknown when money moves.

use super::DEPTH_MAX;
use super::error::ParseError;
use super::exact::ROUND_DIGITS_MAX;
use super::lex::{Lexeme, Symbol, Token, lex};
use super::suggest::closest;
use super::tree::{Comparison, Factor, Function, Kind, Node, Sign};

pub(super) type Parsed<T> = Result<T, ParseError>;

/// The tree of `source`, and the roots it reads.
pub(super) fn parse(source: &str, roots: &[&str]) -> Parsed<(Node, Vec<Box<str>>)> {
    let lexemes = lex(source)?;
    let mut parser = Parser { lexemes: &lexemes, at: 0, depth: 0, roots, used: Vec::new() };
    if *parser.peek() == Token::End {
        return Err(ParseError::at(0, "the expression is empty"));
    }
    let tree = parser.expression()?;
    match parser.peek() {
        Token::End => Ok((tree, parser.used)),
        Token::Word(word) => {
            let hint = suggestion(closest(word, ["and", "or", "in", "not"]));
            Err(parser.mistake(format!("unexpected `{word}` after a complete expression{hint}")))
        }
        _ => Err(parser.unexpected("an operator or the end")),
    }
}

pub(super) struct Parser<'p> {
    pub(super) lexemes: &'p [Lexeme],
    pub(super) at: usize,
    depth: usize,
    pub(super) roots: &'p [&'p str],
    pub(super) used: Vec<Box<str>>,
}

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Node> {
        self.deeper(Self::any)
    }

    fn any(&mut self) -> Parsed<Node> {
        self.logical("or", Kind::Any, Self::all)
    }

    fn all(&mut self) -> Parsed<Node> {
        self.logical("and", Kind::All, Self::negation)
    }

    /// A chain of conditions joined by one word.
    fn logical(
        &mut self,
        word: &str,
        join: fn(Vec<Node>) -> Kind,
        next: fn(&mut Self) -> Parsed<Node>,
    ) -> Parsed<Node> {
        let start = self.start();
        let first = next(self)?;
        if !self.is_word(word) {
            return Ok(first);
        }
        let mut conditions = vec![first];
        while self.take_word(word) {
            conditions.push(next(self)?);
        }
        Ok(self.node(start, join(conditions)))
    }

    fn negation(&mut self) -> Parsed<Node> {
        let start = self.start();
        if !self.take_word("not") {
            return self.comparison();
        }
        let condition = self.deeper(Self::negation)?;
        Ok(self.node(start, Kind::Not(Box::new(condition))))
    }

    fn comparison(&mut self) -> Parsed<Node> {
        let start = self.start();
        let left = self.sum()?;
        let kind = if let Some(how) = self.take_comparison() {
            Kind::Compare { how, left: Box::new(left), right: Box::new(self.sum()?) }
        } else if self.take_word("in") {
            Kind::Within { negated: false, item: Box::new(left), list: Box::new(self.sum()?) }
        } else if self.is_word("not") && self.word_after_is("in") {
            self.at += 2;
            Kind::Within { negated: true, item: Box::new(left), list: Box::new(self.sum()?) }
        } else {
            return Ok(left);
        };
        let node = self.node(start, kind);
        let next = self.start();
        if self.take_comparison().is_some() || self.is_word("in") {
            return Err(ParseError::at(next, "comparisons cannot be chained; join two of them with `and`"));
        }
        Ok(node)
    }

    fn take_comparison(&mut self) -> Option<Comparison> {
        let how = match self.peek() {
            Token::Symbol(Symbol::Equal) => Comparison::Equal,
            Token::Symbol(Symbol::NotEqual) => Comparison::NotEqual,
            Token::Symbol(Symbol::Less) => Comparison::Less,
            Token::Symbol(Symbol::LessEqual) => Comparison::LessEqual,
            Token::Symbol(Symbol::Greater) => Comparison::Greater,
            Token::Symbol(Symbol::GreaterEqual) => Comparison::GreaterEqual,
            _ => return None,
        };
        self.at += 1;
        Some(how)
    }

    fn sum(&mut self) -> Parsed<Node> {
        let start = self.start();
        let first = self.product()?;
        let mut rest = Vec::new();
        loop {
            let sign = match self.peek() {
                Token::Symbol(Symbol::Plus) => Sign::Plus,
                Token::Symbol(Symbol::Minus) => Sign::Minus,
                _ => break,
            };
            self.at += 1;
            rest.push((sign, self.product()?));
        }
        let first = Box::new(first);
        Ok(if rest.is_empty() { *first } else { self.node(start, Kind::Sum { first, rest }) })
    }

    fn product(&mut self) -> Parsed<Node> {
        let start = self.start();
        let first = self.signed()?;
        let mut rest = Vec::new();
        loop {
            let factor = match self.peek() {
                Token::Symbol(Symbol::Star) => Factor::Times,
                Token::Symbol(Symbol::Slash) => Factor::Over,
                _ => break,
            };
            self.at += 1;
            rest.push((factor, self.signed()?));
        }
        let first = Box::new(first);
        Ok(if rest.is_empty() { *first } else { self.node(start, Kind::Product { first, rest }) })
    }

    fn signed(&mut self) -> Parsed<Node> {
        let start = self.start();
        if !self.take(Symbol::Minus) {
            return self.primary();
        }
        let inner = self.deeper(Self::signed)?;
        let kind = match inner.kind {
            Kind::Number(number) if !number.is_zero() => Kind::Number(-number),
            _ => Kind::Negate(Box::new(inner)),
        };
        Ok(self.node(start, kind))
    }

    fn primary(&mut self) -> Parsed<Node> {
        let start = self.start();
        let kind = match self.peek().clone() {
            Token::Number(number) => self.leaf(Kind::Number(number)),
            Token::Text(text) => self.leaf(Kind::Text(text)),
            Token::Word(word) => return self.word(start, &word),
            Token::Symbol(Symbol::Open) => {
                self.at += 1;
                let inner = self.expression()?;
                self.expect(Symbol::Close, "`)`")?;
                // The node keeps its own place in the source, without the parentheses.
                return Ok(inner);
            }
            Token::Symbol(Symbol::OpenSquare) => {
                self.at += 1;
                Kind::List(self.expressions(Symbol::CloseSquare, "`,` or `]`")?)
            }
            Token::Symbol(_) | Token::End => return Err(self.unexpected("a value")),
        };
        Ok(self.node(start, kind))
    }

    fn word(&mut self, start: usize, word: &str) -> Parsed<Node> {
        self.at += 1;
        if *self.peek() == Token::Symbol(Symbol::Open) {
            return self.call(start, word);
        }
        let kind = match word {
            "true" => Kind::Bool(true),
            "false" => Kind::Bool(false),
            "null" => Kind::Null,
            "and" | "or" | "not" | "in" => {
                return Err(ParseError::at(start, format!("unexpected `{word}`, a value should stand here")));
            }
            name => self.path(start, name)?,
        };
        Ok(self.node(start, kind))
    }

    fn call(&mut self, start: usize, name: &str) -> Parsed<Node> {
        let Some(&(_, function, least, most)) = Function::TABLE.iter().find(|(known, ..)| *known == name) else {
            let hint = suggestion(closest(name, Function::TABLE.iter().map(|&(known, ..)| known)));
            return Err(ParseError::at(start, format!("unknown function `{name}`{hint}")));
        };
        self.at += 1;
        let arguments = self.expressions(Symbol::Close, "`,` or `)`")?;
        let given = arguments.len();
        if given < least || given > most {
            let wanted = match (least, if most == least { "exactly" } else { "at least" }) {
                (1, how) => format!("{how} one value"),
                (count, how) => format!("{how} {count} values"),
            };
            return Err(ParseError::at(start, format!("`{name}` takes {wanted}, {given} given")));
        }
        check_arguments(function, &arguments)?;
        Ok(self.node(start, Kind::Call { function, arguments }))
    }

    /// Expressions between commas, up to and over the closing symbol.
    fn expressions(&mut self, close: Symbol, expected: &str) -> Parsed<Vec<Node>> {
        let mut nodes = Vec::new();
        if self.take(close) {
            return Ok(nodes);
        }
        loop {
            nodes.push(self.expression()?);
            if self.take(close) {
                return Ok(nodes);
            }
            self.expect(Symbol::Comma, expected)?;
        }
    }

    fn deeper(&mut self, inner: fn(&mut Self) -> Parsed<Node>) -> Parsed<Node> {
        if self.depth == DEPTH_MAX {
            return Err(self.mistake(format!("nested deeper than {DEPTH_MAX}")));
        }
        self.depth += 1;
        let node = inner(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn leaf(&mut self, kind: Kind) -> Kind {
        self.at += 1;
        kind
    }

    /// A node that reaches from `start` to the token before the current one.
    fn node(&self, start: usize, kind: Kind) -> Node {
        let before = self.at.checked_sub(1).and_then(|at| self.lexemes.get(at));
        Node { kind, start, end: before.map_or(start, |lexeme| lexeme.end), slot: None }
    }
}

/// Mistakes that need no event to be found.
fn check_arguments(function: Function, arguments: &[Node]) -> Parsed<()> {
    match (function, arguments) {
        (Function::Exists, [argument]) => match argument.kind {
            Kind::Path(_) | Kind::Call { function: Function::Coalesce, .. } => Ok(()),
            _ => Err(ParseError::at(argument.start, "`exists` asks about one member: exists(payload.total)")),
        },
        (Function::Round, [_, Node { kind: Kind::Number(digits), start, .. }])
            if !(digits.is_integer() && (0.into()..=ROUND_DIGITS_MAX.into()).contains(digits)) =>
        {
            Err(ParseError::at(*start, format!("`round` takes 0 to {ROUND_DIGITS_MAX} digits")))
        }
        _ => Ok(()),
    }
}

pub(super) fn suggestion(name: Option<&str>) -> String {
    name.map(|name| format!(", did you mean `{name}`?")).unwrap_or_default()
}
