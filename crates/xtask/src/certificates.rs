//! Certificates of a private authority. Every private server speaks TLS too, so that the tests can prove it. Without openssl on
//! the machine there are none, the servers speak no TLS, and those tests say that they are skipped.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::call;
use crate::files;
use crate::place::Place;
use crate::say::Done;

const EXTENSIONS: &str = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n";

/// Made under another name and renamed, so that a half-made authority is never used.
pub fn make(place: &Place) -> Done {
    if place.has_tls() || call::find("openssl").is_none() {
        return Ok(());
    }
    let (tls, new) = (place.dir.join("tls"), place.dir.join("tls.new"));
    files::remove(&tls)?;
    files::remove(&new)?;
    files::make_folder(&new)?;
    files::write(&new.join("server.ext"), EXTENSIONS)?;
    if sign(&new) { files::rename(&new, &tls) } else { files::remove(&new) }
}

fn sign(folder: &Path) -> bool {
    let openssl = |words: &str, subject: &[&str]| {
        call::succeeds(Command::new("openssl").args(words.split(' ')).args(subject).current_dir(folder))
    };
    let made = openssl(
        "req -x509 -newkey rsa:2048 -nodes -days 3650 -keyout ca.key -out ca.pem",
        &["-subj", "/CN=fis private authority"],
    ) && openssl(
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr",
        &["-subj", "/CN=localhost"],
    ) && openssl(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -extfile server.ext -out server.pem",
        &[],
    );
    // Redis and RabbitMQ read the key where it is, RabbitMQ also from another root.
    made && std::fs::set_permissions(folder.join("server.key"), PermissionsExt::from_mode(0o644)).is_ok()
}
