//! Lists that are objects in JSON: pairs in the order in which people read them enter, `{"name": value}` leaves.

use serde::{Serialize, Serializer};

/// A list of pairs as an object.
pub fn pairs<K: Serialize, V: Serialize, S: Serializer>(pairs: &[(K, V)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// A value by its text.
pub fn text<T: std::fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
