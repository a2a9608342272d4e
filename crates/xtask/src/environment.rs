//! The environment of the programs that we start, and the file `STATE/env`. A caller's password never enters a file, and an
//! address of a private server never passes for one that the caller gave.

use std::process::Command;

use crate::addresses::{self, FROM, NAMES};
use crate::files;
use crate::place::Place;
use crate::say::Done;

/// Everything there is to say about the addresses of a place.
pub fn lines(place: &Place) -> Vec<(&'static str, String)> {
    addresses::lines(&place.ports, &place.given, &place.dir, place.has_tls())
}

/// Writes `STATE/env`: what is ours, for the caller's passwords do not belong into a file.
pub fn write_file(place: &Place) -> Done {
    let mut lines = lines(place);
    lines.retain(|(name, _)| place.given.get(name).is_none());
    files::replace(&place.dir.join("env"), &addresses::text(&lines))
}

/// Takes the private addresses that a caller's environment brought away from a program that we start.
pub fn forget(place: &Place, command: &mut Command) {
    for name in NAMES.into_iter().filter(|name| place.given.get(name).is_none()) {
        command.env_remove(name);
    }
    command.env_remove(FROM);
}

/// Gives a program that we start the addresses of the servers.
pub fn export(place: &Place, command: &mut Command) {
    forget(place, command);
    command.envs(lines(place)).env(FROM, &place.dir);
}
