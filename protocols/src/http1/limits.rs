//! What one message may cost: bounds on heads, bodies, chunk extensions and trailers, for both roles.

/// The most header fields any [`Limits`] may allow: their places are on the stack.
pub const MOST_HEADERS: usize = 256;

/// Bytes of a request line besides its target: the method, the version, two spaces and the end of the line.
pub(super) const REQUEST_LINE_EXTRA_BYTES: usize = 64;

/// Bounds of one message as it is received. Beyond each of them a server answers with the status named here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes from the first line to the empty line, inclusive (431; 414 while the request line has not ended).
    pub head_bytes: usize,
    /// Header fields, at most [`MOST_HEADERS`] (431).
    pub headers: usize,
    /// Bytes of the request target (414).
    pub target_bytes: usize,
    /// Bytes of the body, without its framing (413).
    pub body_bytes: usize,
    /// Bytes of chunk extensions, over all chunks of a body (413).
    pub extension_bytes: usize,
    /// Bytes of the trailer section (431).
    pub trailer_bytes: usize,
    /// Trailer fields (431).
    pub trailers: usize,
}

impl Limits {
    /// What [`Default`] gives.
    pub const DEFAULT: Self = Self {
        head_bytes: 16 * 1024,
        headers: 100,
        target_bytes: 8 * 1024,
        body_bytes: 1024 * 1024,
        extension_bytes: 16 * 1024,
        trailer_bytes: 16 * 1024,
        trailers: 64,
    };

    /// Whether a machine can keep to them.
    pub(super) fn assert(&self) {
        assert!(
            self.headers <= MOST_HEADERS,
            "at most {MOST_HEADERS} header fields have a place"
        );
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
