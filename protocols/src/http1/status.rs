//! Status codes (RFC 9110 section 15).

use std::fmt;

/// A status code of three digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(u16);

/// Names statuses, and gives each its constant and its reason phrase.
macro_rules! statuses {
    ($($name:ident, $code:literal, $reason:literal;)*) => {
        impl Status {
            $(
                #[doc = concat!("`", stringify!($code), " ", $reason, "`.")]
                pub const $name: Self = Self($code);
            )*

            /// The usual reason phrase; empty for a code without a name here.
            #[must_use]
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }
        }
    };
}

statuses! {
    CONTINUE, 100, "Continue";
    OK, 200, "OK";
    CREATED, 201, "Created";
    ACCEPTED, 202, "Accepted";
    NO_CONTENT, 204, "No Content";
    RESET_CONTENT, 205, "Reset Content";
    PARTIAL_CONTENT, 206, "Partial Content";
    MOVED_PERMANENTLY, 301, "Moved Permanently";
    FOUND, 302, "Found";
    SEE_OTHER, 303, "See Other";
    NOT_MODIFIED, 304, "Not Modified";
    TEMPORARY_REDIRECT, 307, "Temporary Redirect";
    PERMANENT_REDIRECT, 308, "Permanent Redirect";
    BAD_REQUEST, 400, "Bad Request";
    UNAUTHORIZED, 401, "Unauthorized";
    FORBIDDEN, 403, "Forbidden";
    NOT_FOUND, 404, "Not Found";
    METHOD_NOT_ALLOWED, 405, "Method Not Allowed";
    REQUEST_TIMEOUT, 408, "Request Timeout";
    CONFLICT, 409, "Conflict";
    GONE, 410, "Gone";
    PRECONDITION_FAILED, 412, "Precondition Failed";
    CONTENT_TOO_LARGE, 413, "Content Too Large";
    URI_TOO_LONG, 414, "URI Too Long";
    UNSUPPORTED_MEDIA_TYPE, 415, "Unsupported Media Type";
    EXPECTATION_FAILED, 417, "Expectation Failed";
    UNPROCESSABLE_CONTENT, 422, "Unprocessable Content";
    TOO_MANY_REQUESTS, 429, "Too Many Requests";
    HEADER_FIELDS_TOO_LARGE, 431, "Request Header Fields Too Large";
    INTERNAL_SERVER_ERROR, 500, "Internal Server Error";
    NOT_IMPLEMENTED, 501, "Not Implemented";
    BAD_GATEWAY, 502, "Bad Gateway";
    SERVICE_UNAVAILABLE, 503, "Service Unavailable";
    GATEWAY_TIMEOUT, 504, "Gateway Timeout";
    VERSION_NOT_SUPPORTED, 505, "HTTP Version Not Supported";
}

impl Status {
    /// A status by number; `None` outside 100 to 599.
    #[must_use]
    pub const fn new(code: u16) -> Option<Self> {
        match code {
            100..=599 => Some(Self(code)),
            _ => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Whether another response to the same request follows (1xx).
    #[must_use]
    pub const fn is_interim(self) -> bool {
        self.0 < 200
    }

    /// Whether a response with it has neither body nor length (RFC 9110 section 6.4.1): 1xx, 204, 304.
    #[must_use]
    pub const fn is_bodiless(self) -> bool {
        self.is_interim() || matches!(self.0, 204 | 304)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({})", self.0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.reason())
    }
}
