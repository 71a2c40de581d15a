//! Why an HTTP connection cannot go on: one name per refusal, so that a server can count them, and the status that goes with it.

use super::status::Status;
use crate::machine::{Fault, Side};
use std::fmt;

/// Declares the faults in one table: name, status (if the peer gets one), whose fault, and what it says.
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident, $status:expr, $side:ident, $text:literal;)*) => {
        /// Why an HTTP/1.1 connection cannot go on. Both roles use it; statuses are what a server answers with.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Http1Error {
            $($(#[$doc])* $name,)*
        }

        impl Http1Error {
            /// All of them, for a server that counts.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What a server answers with before it closes; `None` if nobody waits for an answer.
            #[must_use]
            pub const fn status(self) -> Option<Status> {
                match self {
                    $(Self::$name => $status,)*
                }
            }

            const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }

        impl Fault for Http1Error {
            fn side(&self) -> Side {
                match self {
                    $(Self::$name => Side::$side,)*
                }
            }
        }
    };
}

const BAD: Option<Status> = Some(Status::BAD_REQUEST);
const LARGE: Option<Status> = Some(Status::CONTENT_TOO_LARGE);
const FIELDS: Option<Status> = Some(Status::HEADER_FIELDS_TOO_LARGE);

faults! {
    /// A line ends with LF alone (RFC 9112 section 2.2).
    BareLineFeed, BAD, Peer, "a line feed without a carriage return";
    /// A CR stands without LF (RFC 9112 section 2.2).
    BareCarriageReturn, BAD, Peer, "a carriage return without a line feed";
    /// NUL or another control character in a head (RFC 9110 section 5.5).
    ControlCharacter, BAD, Peer, "a control character in the head";
    /// A field goes on in another line (RFC 9112 section 5.2), or whitespace stands before the first (section 2.2).
    ObsoleteFold, BAD, Peer, "a header line begins with whitespace";
    /// The first line is not method, target and version with one space between (RFC 9112 section 3).
    InvalidRequestLine, BAD, Peer, "the request line is malformed";
    /// The method is no token (RFC 9110 section 9.1).
    InvalidMethod, BAD, Peer, "the method is no token";
    /// The target has none of the four forms, or not the one its method needs (RFC 9112 section 3.2).
    InvalidTarget, BAD, Peer, "the request target is malformed";
    /// The version is no HTTP version (RFC 9112 section 2.3).
    InvalidVersion, BAD, Peer, "the version is malformed";
    /// A field without a name (RFC 9110 section 5.1).
    EmptyHeaderName, BAD, Peer, "a header without a name";
    /// A field name that is no token (RFC 9110 section 5.1).
    InvalidHeaderName, BAD, Peer, "a header name is no token";
    /// Whitespace between a field name and its colon (RFC 9112 section 5.1).
    WhitespaceBeforeColon, BAD, Peer, "whitespace between a header name and its colon";
    /// A field line without a colon (RFC 9112 section 5).
    MissingColon, BAD, Peer, "a header line without a colon";
    /// A field value with a character that none may have (RFC 9110 section 5.5).
    InvalidHeaderValue, BAD, Peer, "a header value is malformed";
    /// No Host in a request of HTTP/1.1 (RFC 9112 section 3.2).
    MissingHost, BAD, Peer, "no Host";
    /// More than one Host (RFC 9112 section 3.2).
    SeveralHosts, BAD, Peer, "more than one Host";
    /// A Host that is no host and port (RFC 9112 section 3.2).
    InvalidHost, BAD, Peer, "the Host is malformed";
    /// More than one Content-Length, equal ones too (RFC 9112 section 6.3 allows to refuse them).
    SeveralContentLengths, BAD, Peer, "more than one Content-Length";
    /// A Content-Length that is not decimal digits alone (RFC 9110 section 8.6).
    InvalidContentLength, BAD, Peer, "the Content-Length is malformed";
    /// Content-Length beside Transfer-Encoding (RFC 9112 section 6.1).
    LengthAndCoding, BAD, Peer, "both Content-Length and Transfer-Encoding";
    /// Transfer-Encoding in HTTP/1.0 (RFC 9112 section 6.1).
    CodingInOldVersion, BAD, Peer, "Transfer-Encoding in HTTP/1.0";
    /// More than one line of Transfer-Encoding.
    SeveralTransferEncodings, BAD, Peer, "more than one Transfer-Encoding";
    /// Chunked more than once (RFC 9112 section 6.1).
    ChunkedTwice, BAD, Peer, "chunked more than once";
    /// The last coding is not chunked (RFC 9112 section 6.3).
    NotEndingInChunked, BAD, Peer, "the last transfer coding is not chunked";
    /// A chunk size that is not one to sixteen hexadecimal digits (RFC 9112 section 7.1).
    InvalidChunkSize, BAD, Peer, "a chunk size is malformed";
    /// A malformed chunk extension (RFC 9112 section 7.1.1).
    InvalidChunkExtension, BAD, Peer, "a chunk extension is malformed";
    /// A chunk that does not end where its size says (RFC 9112 section 7.1).
    InvalidChunkEnd, BAD, Peer, "a chunk does not end where its size says";
    /// A malformed trailer field (RFC 9112 section 7.1.2).
    InvalidTrailer, BAD, Peer, "a trailer is malformed";
    /// A trailer that frames, routes or authenticates (RFC 9110 section 6.5.1).
    ForbiddenTrailer, BAD, Peer, "a field that may not be a trailer";
    /// The head took longer than allowed.
    HeadTimedOut, Some(Status::REQUEST_TIMEOUT), Peer, "the head took too long";
    /// The body took longer than allowed.
    BodyTimedOut, Some(Status::REQUEST_TIMEOUT), Peer, "the body took too long";
    /// The body is, or will be, over its limit.
    BodyTooLarge, LARGE, Peer, "the body is over its limit";
    /// The chunk extensions of a body are over their limit (RFC 9112 section 7.1.1).
    ExtensionsTooLarge, LARGE, Peer, "the chunk extensions are over their limit";
    /// The request line or its target is over its limit (RFC 9112 section 3).
    TargetTooLong, Some(Status::URI_TOO_LONG), Peer, "the request target is over its limit";
    /// An expectation other than `100-continue` (RFC 9110 section 10.1.1).
    UnknownExpectation, Some(Status::EXPECTATION_FAILED), Peer, "an expectation nobody here can meet";
    /// The head is over its limit (RFC 6585 section 5).
    HeadTooLarge, FIELDS, Peer, "the head is over its limit";
    /// More header fields than allowed.
    TooManyHeaders, FIELDS, Peer, "more headers than allowed";
    /// The trailer section is over its limit.
    TrailersTooLarge, FIELDS, Peer, "the trailers are over their limit";
    /// More trailer fields than allowed.
    TooManyTrailers, FIELDS, Peer, "more trailers than allowed";
    /// A transfer coding nobody here knows, in front of chunked (RFC 9112 section 6.1).
    UnknownCoding, Some(Status::NOT_IMPLEMENTED), Peer, "a transfer coding nobody here knows";
    /// A tunnel is asked for (RFC 9110 section 9.3.6).
    Connect, Some(Status::NOT_IMPLEMENTED), Peer, "CONNECT, and this is no proxy";
    /// A version other than 1.x (RFC 9110 section 15.6.6); the preface of HTTP/2 is one.
    UnsupportedVersion, Some(Status::VERSION_NOT_SUPPORTED), Peer, "a version other than HTTP/1";

    /// The peer closed in the middle of a head.
    TruncatedHead, None, Peer, "the peer closed in the middle of a head";
    /// The peer closed in the middle of a body.
    TruncatedBody, None, Peer, "the peer closed in the middle of a body";
    /// The peer sent more requests than are kept while an answer is deferred.
    InputWhileDeferred, None, Peer, "too much input before a deferred answer";
    /// A response has a malformed status line (RFC 9112 section 4).
    InvalidStatusLine, None, Peer, "the status line is malformed";
    /// A response to no request.
    Unrequested, None, Peer, "a response without a request";
    /// The peer closed, or will, with requests unanswered.
    Unanswered, None, Peer, "the peer closed with requests unanswered";
    /// 101 to a request that did not ask for it.
    UnaskedUpgrade, None, Peer, "another protocol nobody asked for";
    /// A response took longer than allowed.
    ResponseTimedOut, None, Peer, "the response took too long";

    /// A deferred answer took longer than allowed.
    AnswerTimedOut, Some(Status::SERVICE_UNAVAILABLE), Us, "the service's answer took too long";
    /// An answer without a request that waits for it.
    NothingOwed, None, Us, "there is no request to answer";
    /// As many requests are unanswered as may be.
    WindowFull, None, Us, "as many requests are unanswered as may be";
    /// The connection is at its end, or something was done twice.
    OutOfTurn, None, Us, "not possible in this state of the connection";
}

impl fmt::Display for Http1Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Http1Error {}
