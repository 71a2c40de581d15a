//! A request as a service sees it: whole, its body included.

use super::{head::Version, headers::Headers, target::Target};

/// One whole request. Its bytes are the connection's: what is to outlive the call is to be copied.
#[derive(Debug)]
pub struct Request<'m> {
    /// A token, with regard to case (RFC 9110 section 9.1).
    pub method: &'m str,
    /// What it is for.
    pub target: Target<'m>,
    /// Its version.
    pub version: Version,
    /// Its fields; the trailers of a chunked body are not among them, and are not kept.
    pub headers: Headers<'m>,
    /// Without its framing; may be changed in place.
    pub body: &'m mut [u8],
}

impl<'m> Request<'m> {
    /// The host it is for, with its port if it has one: the target's, else the field's (RFC 9112 section 3.3).
    #[must_use]
    pub fn host(&self) -> Option<&'m str> {
        let field = || std::str::from_utf8(self.headers.get("host")?).ok();
        self.target.authority.or_else(field)
    }
}
