//! The functions. Argument nodes enter; one value leaves.
//! What must never happen: a list element that is skipped because it is not a number.

use rust_decimal::Decimal;

use super::error::{EvalErrorKind, Fault};
use super::exact::{self, ROUND_DIGITS_MAX};
use super::lookup::Looked;
use super::run::{Ran, Run};
use super::tree::{Function, Kind, Node};
use super::value::Value;
use crate::domain::json::{NumberError, decimal_from_str};

impl<'v> Run<'v, '_> {
    /// The parser has checked the number of arguments; the last arm is for what it lets through by mistake.
    pub(super) fn call(&mut self, node: &'v Node, function: Function, arguments: &'v [Node]) -> Ran<Value<'v>> {
        match (function, arguments) {
            (Function::Round, [number, digits]) => self.round(node, number, digits).map(Value::Decimal),
            (Function::Sum, [list]) => self.sum(node, list).map(Value::Decimal),
            (Function::Coalesce, _) => match self.coalesce(arguments)? {
                Some(value) => Ok(value),
                None => {
                    Err(self.fault(EvalErrorKind::Missing, node, "has no value: all of its values are missing or null"))
                }
            },
            (Function::Exists, [argument]) => self.exists(argument).map(Value::Bool),
            (Function::Min, _) => self.extreme(node, arguments, Decimal::min).map(Value::Decimal),
            (Function::Max, _) => self.extreme(node, arguments, Decimal::max).map(Value::Decimal),
            (Function::Abs, [number]) => Ok(Value::Decimal(self.number(number)?.abs())),
            (Function::Count, [list]) => {
                let length = self.list(list)?.list_len().unwrap_or_default();
                Ok(Value::Decimal(Decimal::from(length)))
            }
            (Function::Round | Function::Sum | Function::Exists | Function::Abs | Function::Count, _) => {
                Err(self.fault(EvalErrorKind::WrongKind, node, "has another number of values than it takes"))
            }
        }
    }

    fn exists(&mut self, argument: &'v Node) -> Ran<bool> {
        let Kind::Path(path) = &argument.kind else {
            return Ok(self.optional(argument)?.is_some_and(|value| value != Value::Null));
        };
        self.step()?;
        Ok(match self.look(path)? {
            Looked::Found(found) => found.is_there(),
            Looked::Absent(_) => false,
        })
    }

    /// The first value that is there and not null.
    pub(super) fn coalesce(&mut self, arguments: &'v [Node]) -> Ran<Option<Value<'v>>> {
        for argument in arguments {
            self.step()?;
            match self.optional(argument)? {
                None | Some(Value::Null) => {}
                found => return Ok(found),
            }
        }
        Ok(None)
    }

    /// Half-even to exactly that many decimals; a quotient is rounded here for the first and only time.
    fn round(&mut self, node: &'v Node, number: &'v Node, digits: &'v Node) -> Ran<Decimal> {
        let fraction = self.fraction(number)?;
        let wanted = self.number(digits)?;
        let digits = match u32::try_from(wanted) {
            Ok(count @ 0..=ROUND_DIGITS_MAX) if wanted.is_integer() => count,
            Ok(_) | Err(_) => {
                let problem = format!("must be a whole number from 0 to {ROUND_DIGITS_MAX}");
                return Err(self.fault(EvalErrorKind::BadDigits, digits, &problem));
            }
        };
        let divisor = fraction.denominator.unwrap_or(Decimal::ONE);
        self.factor_steps()?;
        exact::divide_rounded(fraction.numerator, divisor, digits).ok_or_else(|| self.too_long(node))
    }

    fn sum(&mut self, node: &'v Node, list: &'v Node) -> Ran<Decimal> {
        let values = self.list(list)?;
        let mut total = Decimal::ZERO;
        for index in 0..values.list_len().unwrap_or_default() {
            let number = self.element_number(&values, list, index)?;
            total = exact::add(total, number).ok_or_else(|| self.too_long(node))?;
        }
        Ok(total)
    }

    /// The least or greatest: of one list, or of the arguments themselves.
    fn extreme(
        &mut self,
        node: &'v Node,
        arguments: &'v [Node],
        pick: fn(Decimal, Decimal) -> Decimal,
    ) -> Ran<Decimal> {
        let mut best = None;
        if let [list] = arguments {
            let values = self.list(list)?;
            for index in 0..values.list_len().unwrap_or_default() {
                let number = self.element_number(&values, list, index)?;
                best = Some(best.map_or(number, |best| pick(best, number)));
            }
        } else {
            for argument in arguments {
                let number = self.number(argument)?;
                best = Some(best.map_or(number, |best| pick(best, number)));
            }
        }
        best.ok_or_else(|| self.fault(EvalErrorKind::EmptyList, node, "has no value: the list is empty"))
    }

    fn element_number(&mut self, values: &Value<'v>, list: &'v Node, index: usize) -> Ran<Decimal> {
        self.step()?;
        match self.element(values, list, index)? {
            Value::Decimal(number) => Ok(number),
            Value::Text(text) => {
                self.text_steps(text.len())?;
                decimal_from_str(text).map_err(|error| self.bad_text_element(list, index, error))
            }
            other => {
                let problem = format!("is {}, a number is needed", other.kind_name());
                Err(self.bad_element(list, index, EvalErrorKind::WrongKind, &problem))
            }
        }
    }

    #[cold]
    fn bad_text_element(&self, list: &Node, index: usize, error: NumberError) -> Fault {
        match error {
            NumberError::NotANumber => {
                self.bad_element(list, index, EvalErrorKind::WrongKind, "is text that does not spell a number")
            }
            NumberError::TooManyDigits | NumberError::TooManyDecimals => {
                self.bad_element(list, index, EvalErrorKind::NotExact, &error.to_string())
            }
        }
    }
}
