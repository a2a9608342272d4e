//! Signs, sums, products and quotients. Nodes enter; one exact decimal leaves.
//! What must never happen: a quotient rounded twice. So products and quotients stay one fraction until the end.

use rust_decimal::Decimal;

use super::error::{EvalErrorKind, Fault};
use super::exact;
use super::run::{Ran, Run};
use super::tree::{Factor, Kind, Node, Sign};

/// Numerator over denominator; no denominator is one.
pub(super) struct Fraction {
    pub numerator: Decimal,
    pub denominator: Option<Decimal>,
}

impl<'v> Run<'v, '_> {
    /// The value of a sign, a sum or a product.
    pub(super) fn arithmetic(&mut self, node: &'v Node) -> Ran<Decimal> {
        match &node.kind {
            Kind::Sum { first, rest } => {
                let mut total = self.number(first)?;
                for (sign, part) in rest {
                    let number = self.number(part)?;
                    let next = match sign {
                        Sign::Plus => exact::add(total, number),
                        Sign::Minus => exact::subtract(total, number),
                    };
                    total = next.ok_or_else(|| self.too_long(node))?;
                }
                Ok(total)
            }
            Kind::Negate(inner) => Ok(exact::negate(self.number(inner)?)),
            _ => {
                let fraction = self.fraction(node)?;
                match fraction.denominator {
                    None => Ok(fraction.numerator),
                    Some(divisor) => exact::divide(fraction.numerator, divisor).ok_or_else(|| self.too_long(node)),
                }
            }
        }
    }

    /// A node as a fraction that has not been divided yet. Recursion is bounded by the depth of the tree.
    pub(super) fn fraction(&mut self, node: &'v Node) -> Ran<Fraction> {
        match &node.kind {
            Kind::Product { first, rest } => {
                let mut whole = self.fraction(first)?;
                for (factor, part) in rest {
                    self.factor_steps()?;
                    let other = self.fraction(part)?;
                    whole = match factor {
                        Factor::Times => self.times(node, &whole, &other)?,
                        Factor::Over if other.numerator.is_zero() => {
                            return Err(self.division_by_zero(part));
                        }
                        Factor::Over => self.times(node, &whole, &other.turned())?,
                    };
                }
                Ok(whole)
            }
            Kind::Negate(inner) => {
                let inner = self.fraction(inner)?;
                Ok(Fraction { numerator: exact::negate(inner.numerator), denominator: inner.denominator })
            }
            _ => Ok(Fraction { numerator: self.number(node)?, denominator: None }),
        }
    }

    fn times(&self, node: &Node, one: &Fraction, other: &Fraction) -> Ran<Fraction> {
        let product = |left, right| exact::multiply(left, right).ok_or_else(|| self.too_long(node));
        Ok(Fraction {
            numerator: product(one.numerator, other.numerator)?,
            denominator: match (one.denominator, other.denominator) {
                (None, None) => None,
                (Some(only), None) | (None, Some(only)) => Some(only),
                (Some(left), Some(right)) => Some(product(left, right)?),
            },
        })
    }

    #[cold]
    fn division_by_zero(&self, divisor: &Node) -> Fault {
        self.fault(EvalErrorKind::DivisionByZero, divisor, "is 0, and nothing can be divided by 0")
    }

    #[cold]
    pub(super) fn too_long(&self, node: &Node) -> Fault {
        self.fault(EvalErrorKind::NotExact, node, "needs more than 28 digits; `round` its parts")
    }
}

impl Fraction {
    /// Upside down. The numerator is not zero: the caller has looked.
    fn turned(self) -> Fraction {
        Fraction { numerator: self.denominator.unwrap_or(Decimal::ONE), denominator: Some(self.numerator) }
    }
}
