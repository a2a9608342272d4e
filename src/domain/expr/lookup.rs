//! Paths meet events. A path enters; the value at its end, or the place where the way ended, leaves.
//! What must never happen: an absent member taken for a value, or a projection that quietly skips an element.

use super::LIST_ITEMS_MAX;
use super::error::{EvalErrorKind, Fault};
use super::run::{Ran, Run};
use super::scope::Root;
use super::tree::{Path, Step};
use super::value::{Value, number_bytes};
use crate::domain::json::Json;

/// The end of a way that leads nowhere. Text is made of it only when somebody has to read it.
#[derive(Debug)]
pub(super) struct Absent {
    /// Steps up to and including the one that failed.
    steps: usize,
    /// The kind of value that the failing step met: `None` where the member or element is just not there.
    met: Option<&'static str>,
    /// The index of the element that each `[*]` was at, the innermost first.
    indexes: Vec<usize>,
}

pub(super) enum Looked<'v> {
    Found(Found<'v>),
    Absent(Absent),
}

/// The content at the end of a path, not read as a value yet: `exists` may ask about a number of any length.
pub(super) enum Found<'v> {
    Json(&'v Json<'v>),
    Text(&'v str),
    Items(Vec<&'v Json<'v>>),
}

impl Found<'_> {
    /// Present in the sense of `exists`: not null, and for what `[*]` selected, nothing in it null either, so that
    /// `exists` guards a `sum` over the same path.
    pub(super) fn is_there(&self) -> bool {
        match self {
            Found::Json(json) => **json != Json::Null,
            Found::Text(_) => true,
            Found::Items(items) => items.iter().all(|item| **item != Json::Null),
        }
    }
}

enum Stop {
    Absent(Absent),
    Fault(Fault),
}

impl<'v> Run<'v, '_> {
    /// Follows a path to its end.
    pub(super) fn look(&mut self, path: &'v Path) -> Ran<Looked<'v>> {
        let json = match self.scope.look_up(&path.root, path.hint) {
            Some(Root::Json(json)) => json,
            Some(Root::Text(text)) if path.steps.is_empty() => return Ok(Looked::Found(Found::Text(text))),
            Some(Root::Text(_)) => return Ok(Looked::Absent(Absent::new(1, Some("text")))),
            None => return Ok(Looked::Absent(Absent::new(0, None))),
        };
        if path.projects {
            let mut items = Vec::new();
            return match self.project(&path.steps, 0, json, &mut items) {
                Ok(()) => Ok(Looked::Found(Found::Items(items))),
                Err(Stop::Absent(absent)) => Ok(Looked::Absent(absent)),
                Err(Stop::Fault(fault)) => Err(fault),
            };
        }
        let mut here = json;
        for (index, step) in path.steps.iter().enumerate() {
            match self.take_step(here, step)? {
                Ok(next) => here = next,
                Err(met) => return Ok(Looked::Absent(Absent::new(index + 1, met))),
            }
        }
        Ok(Looked::Found(Found::Json(here)))
    }

    /// The value of what was found at the end of `path`.
    pub(super) fn read(&self, path: &Path, found: Found<'v>) -> Ran<Value<'v>> {
        match found {
            Found::Text(text) => Ok(Value::Text(text)),
            Found::Items(items) => Ok(Value::Items(items)),
            Found::Json(json) => {
                self.text_steps(number_bytes(json))?;
                Value::of(json).map_err(|error| {
                    let place = path.describe(usize::MAX, &[]);
                    let message = format!("`{place}` {error}");
                    Fault::new(EvalErrorKind::NotExact, Some(place), message)
                })
            }
        }
    }

    /// Collects everything the steps from `from` on select below `json`. One level of recursion per `[*]` that
    /// meets a list, so the depth limit of the JSON reader bounds it.
    fn project(
        &mut self,
        steps: &[Step],
        from: usize,
        json: &'v Json<'v>,
        items: &mut Vec<&'v Json<'v>>,
    ) -> Result<(), Stop> {
        let mut here = json;
        for (index, step) in steps.iter().enumerate().skip(from) {
            if *step != Step::Each {
                let next = self.take_step(here, step).map_err(Stop::Fault)?;
                here = next.map_err(|met| Stop::Absent(Absent::new(index + 1, met)))?;
                continue;
            }
            let Json::Array(elements) = here else {
                return Err(Stop::Absent(Absent::new(index + 1, Some(here.kind_name()))));
            };
            for (place, element) in elements.iter().enumerate() {
                self.step().map_err(Stop::Fault)?;
                self.project(steps, index + 1, element, items).map_err(|stop| stop.inside(place))?;
            }
            return Ok(());
        }
        if items.len() == LIST_ITEMS_MAX {
            return Err(Stop::Fault(too_many_items()));
        }
        items.push(here);
        Ok(())
    }

    fn take_step(&self, here: &'v Json<'v>, step: &Step) -> Ran<Result<&'v Json<'v>, Option<&'static str>>> {
        let (next, looks) = step_down(here, step);
        self.steps(looks.saturating_add(1)).map(|()| next)
    }

    /// The place in the event of the element at `index` of what `path` selects.
    #[cold]
    pub(super) fn place_of_element(&self, path: &Path, index: usize) -> String {
        if !path.projects {
            return format!("{}[{index}]", path.describe(usize::MAX, &[]));
        }
        let indexes = match self.scope.look_up(&path.root, path.hint) {
            Some(Root::Json(json)) => element_indexes(&path.steps, json, &mut index.clone()),
            Some(Root::Text(_)) | None => None,
        };
        path.describe(usize::MAX, &indexes.unwrap_or_default())
    }
}

/// The error an absent member is where a value is needed.
#[cold]
pub(super) fn absent_fault(path: &Path, absent: &Absent) -> Fault {
    let indexes: Vec<usize> = absent.indexes.iter().rev().copied().collect();
    let place = path.describe(absent.steps, &indexes);
    let Some(met) = absent.met else {
        return Fault::new(EvalErrorKind::Missing, Some(place.clone()), format!("`{place}` is missing"));
    };
    let parent = path.describe(absent.steps.saturating_sub(1), &indexes);
    let lacks = match absent.steps.checked_sub(1).and_then(|index| path.steps.get(index)) {
        Some(Step::Member(name)) => format!("so it has no member `{name}`"),
        Some(Step::Index(_) | Step::Each) | None => "where a list is needed".to_owned(),
    };
    Fault::new(EvalErrorKind::Missing, Some(place), format!("`{parent}` is {met}, {lacks}"))
}

/// One step down; the error is what stood in the way, or `None` where there is just nothing. And how many members were looked at.
fn step_down<'v>(here: &'v Json<'v>, step: &Step) -> (Result<&'v Json<'v>, Option<&'static str>>, u32) {
    match (here, step) {
        (Json::Object(members), Step::Member(name)) => {
            let (found, looks) = members.find(name);
            (found.ok_or(None), looks)
        }
        (Json::Array(elements), Step::Index(index)) => (elements.get(*index).ok_or(None), 0),
        (other, Step::Member(_) | Step::Index(_) | Step::Each) => (Err(Some(other.kind_name())), 0),
    }
}

/// Counts `left` down over the elements selected, in the order of `project`; the indexes of the one at zero.
fn element_indexes(steps: &[Step], json: &Json<'_>, left: &mut usize) -> Option<Vec<usize>> {
    let mut here = json;
    for (index, step) in steps.iter().enumerate() {
        if *step != Step::Each {
            here = step_down(here, step).0.ok()?;
            continue;
        }
        let Json::Array(elements) = here else { return None };
        let rest = steps.get(index + 1..)?;
        return elements.iter().enumerate().find_map(|(place, element)| {
            let mut indexes = element_indexes(rest, element, left)?;
            indexes.insert(0, place);
            Some(indexes)
        });
    }
    if *left == 0 {
        return Some(Vec::new());
    }
    *left -= 1;
    None
}

#[cold]
pub(super) fn too_many_items() -> Fault {
    Fault::new(EvalErrorKind::TooLarge, None, format!("a list has more than {LIST_ITEMS_MAX} elements"))
}

impl Absent {
    fn new(steps: usize, met: Option<&'static str>) -> Self {
        Absent { steps, met, indexes: Vec::new() }
    }
}

impl Stop {
    fn inside(self, index: usize) -> Stop {
        match self {
            Stop::Absent(mut absent) => {
                absent.indexes.push(index);
                Stop::Absent(absent)
            }
            Stop::Fault(fault) => Stop::Fault(fault),
        }
    }
}
