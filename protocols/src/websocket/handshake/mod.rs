//! The opening handshake (RFC 6455 section 4): an HTTP request of the client's, and the server's answer.
//!
//! The head stays in the input until it is whole and is judged then; what no head can hold is refused at its first byte.

mod head;
mod request;
mod response;

pub use request::{Request, RequestError};
pub use response::ResponseError;

pub(super) use head::Scan;
pub(super) use request::{accept, refuse};
pub(super) use response::{Asked, ask};

use base64::{Engine, prelude::BASE64_STANDARD};
use sha1::{Digest, Sha1};

/// What a key is extended with (section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What answers a `Sec-WebSocket-Key` (section 4.2.2).
fn accept_of(key: &[u8]) -> String {
    let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    BASE64_STANDARD.encode(digest)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_accept_of_the_rfc() {
        let accept = super::accept_of(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
