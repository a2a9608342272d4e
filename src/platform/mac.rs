//! Message authentication codes: the parts of a statement enter, a text leaves that only whoever has the secret can make
//! (HMAC-SHA256). The secret never leaves this file.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

/// A secret, made ready for many codes.
pub struct MacKey(hmac::Key);

impl MacKey {
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    #[must_use]
    pub fn code(&self, parts: &[&str]) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, &netstrings(parts)))
    }

    /// Tells whether this key made the code of these very parts, in a time that does not depend on where they differ.
    #[must_use]
    pub fn made(&self, parts: &[&str], code: &str) -> bool {
        let Ok(code) = URL_SAFE_NO_PAD.decode(code) else { return false };
        hmac::verify(&self.0, &netstrings(parts), &code).is_ok()
    }
}

/// Every part with its length before it: no two lists of parts have the same bytes.
fn netstrings(parts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        bytes.extend_from_slice(part.len().to_string().as_bytes());
        bytes.push(b':');
        bytes.extend_from_slice(part.as_bytes());
        bytes.push(b',');
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_holds_for_its_parts_and_its_key_alone() {
        let key = MacKey::new(b"Jefe");
        let code = key.code(&["what do ya want ", "for nothing?"]);
        assert!(key.made(&["what do ya want ", "for nothing?"], &code));
        for parts in [&["what do ya want", " for nothing?"][..], &["what do ya want for nothing?"], &[]] {
            assert!(!key.made(parts, &code), "{parts:?}");
        }
        assert!(!MacKey::new(b"jefe").made(&["what do ya want ", "for nothing?"], &code));
        for wrong in ["", "=", &code[1..], &code.to_lowercase()] {
            assert!(!key.made(&["what do ya want ", "for nothing?"], wrong), "{wrong}");
        }
    }

    /// RFC 4231, test case 2, behind the parts' own form.
    #[test]
    fn the_code_is_hmac_sha256() {
        assert_eq!(netstrings(&["ab", ""]), b"2:ab,0:,");
        let known = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex::encode(hmac::sign(&MacKey::new(b"Jefe").0, b"what do ya want for nothing?")), known);
    }
}
