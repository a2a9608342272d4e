//! Ed25519 signatures with a key from the configuration. The key never leaves this file.

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::config::Secret;

/// Why nothing can be signed or checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    #[error("setting `audit.signing_key` is empty; make one with `openssl rand -hex 32` and keep it as a secret")]
    NoKey,
    #[error("setting `audit.signing_key` must be 64 hexadecimal digits")]
    BadKey,
    #[error("a public key is 64 hexadecimal digits, as a checkpoint names it in `publicKey`")]
    BadPublicKey,
    #[error(
        "there is no key to check a checkpoint with: name its signer's public key (--public-key), which you did not take from the checkpoint itself"
    )]
    NothingToCheckWith,
}

/// The public half of a key. Whoever has it can check signatures, and make none.
pub struct Verifier(Vec<u8>);

impl Verifier {
    /// # Errors
    /// It is no public key.
    pub fn parse(text: &str) -> Result<Self, SigningError> {
        let bytes = hex::decode(text.trim()).ok().filter(|bytes| bytes.len() == 32);
        bytes.map(Self).ok_or(SigningError::BadPublicKey)
    }

    /// Tells whether the key made the signature.
    #[must_use]
    pub fn made(&self, text: &str, signature: &str) -> bool {
        let Ok(signature) = hex::decode(signature) else { return false };
        UnparsedPublicKey::new(&ED25519, &self.0).verify(text.as_bytes(), &signature).is_ok()
    }
}

pub struct Signer(Ed25519KeyPair);

impl Signer {
    /// # Errors
    /// There is no key, or it is no key.
    pub fn new(key: &Secret) -> Result<Self, SigningError> {
        if key.expose().is_empty() {
            return Err(SigningError::NoKey);
        }
        let seed = hex::decode(key.expose()).map_err(|_| SigningError::BadKey)?;
        Ed25519KeyPair::from_seed_unchecked(&seed).map(Self).map_err(|_| SigningError::BadKey)
    }

    #[must_use]
    pub fn public_key(&self) -> String {
        hex::encode(self.0.public_key())
    }

    #[must_use]
    pub fn sign(&self, text: &str) -> String {
        hex::encode(self.0.sign(text.as_bytes()))
    }

    #[must_use]
    pub fn verifier(&self) -> Verifier {
        Verifier(self.0.public_key().as_ref().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_text_and_its_key_alone() {
        // RFC 8032, section 7.1, test 1: the empty message.
        let key = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let signer = Signer::new(&key.into()).unwrap();
        assert_eq!(signer.public_key(), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        let signature = signer.sign("");
        assert!(signature.starts_with("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"));
        for verifier in [signer.verifier(), Verifier::parse(&signer.public_key()).unwrap()] {
            assert!(verifier.made("", &signature));
            assert!(!verifier.made("x", &signature) && !verifier.made("", "00"));
        }
        assert!(!Signer::new(&"00".repeat(32).as_str().into()).unwrap().verifier().made("", &signature));
        assert_eq!(Verifier::parse("d75a98").err(), Some(SigningError::BadPublicKey));
        assert_eq!(Signer::new(&"".into()).err(), Some(SigningError::NoKey));
        assert_eq!(Signer::new(&"xyz".into()).err(), Some(SigningError::BadKey));
    }
}
