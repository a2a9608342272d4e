//! A part of a list: how many, and how many to leave out first. A page that no answer could hold is refused before the store is asked.

use super::DeskError;

/// The longest page of a list: about as much as one answer can hold in memory.
pub const LIMIT_MAX: i64 = 100_000;

/// A part of a list that is in bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    limit: i64,
    offset: i64,
}

impl Page {
    /// # Errors
    /// A number is negative, or the page is longer than [`LIMIT_MAX`].
    pub fn new(limit: i64, offset: i64) -> Result<Self, DeskError> {
        if !(0..=LIMIT_MAX).contains(&limit) {
            return Err(DeskError::Member { member: "limit", why: format!("is a number from 0 to {LIMIT_MAX}") });
        }
        if offset < 0 {
            return Err(DeskError::Member { member: "offset", why: "is not negative".to_owned() });
        }
        Ok(Self { limit, offset })
    }

    pub(super) fn limit(self) -> i64 {
        self.limit
    }

    pub(super) fn offset(self) -> i64 {
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_bounds_whoever_asks() {
        assert!(Page::new(0, 0).is_ok());
        assert!(Page::new(LIMIT_MAX, i64::MAX).is_ok());
        for (limit, offset) in [(-1, 0), (LIMIT_MAX + 1, 0), (1, -1)] {
            assert!(Page::new(limit, offset).is_err(), "{limit} {offset}");
        }
    }
}
