//! The root certificates of an image: those of Mozilla, in the version that `Cargo.lock` pins.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// The length of lines in PEM (RFC 7468).
const LINE: usize = 64;

/// All certificates in PEM, as the executor reads them from `/etc/ssl/certs/ca-certificates.crt`.
#[must_use]
pub fn root_certificates() -> Vec<u8> {
    let mut text = String::new();
    for certificate in TLS_SERVER_ROOT_CERTS {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for (at, character) in STANDARD.encode(certificate).chars().enumerate() {
            if at > 0 && at % LINE == 0 {
                text.push('\n');
            }
            text.push(character);
        }
        text.push_str("\n-----END CERTIFICATE-----\n");
    }
    text.into_bytes()
}
