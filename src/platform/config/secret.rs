//! A setting that must not be seen: a password, an address that holds one, a key. It knows where it came from, so that whoever cannot
//! use it can say which setting is to be looked at.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A text that prints as `***`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret {
    text: String,
    /// The file or the variable that gave it; `None`: it is the default.
    #[serde(skip)]
    origin: Option<String>,
}

impl Secret {
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// The file or the variable that gave it; `None`: it is the default, or was made by a program.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    pub(super) fn came_from(&mut self, origin: &str) {
        self.origin = Some(origin.to_owned());
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), origin: None }
    }
}

/// Two secrets are equal where their texts are, wherever they came from.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
