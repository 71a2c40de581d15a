//! How a service answers a request: one response, whole or in chunks, or later.

use super::{
    head::Version,
    outgoing::{self, BodyWriter, Coding, Field, WriteError},
    status::Status,
};

/// A response as a service gives it. Content-Length and Connection are written by the machine; a date is a field like any other
/// ([`imf_fixdate`](super::imf_fixdate)).
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// A final status.
    pub status: Status,
    /// Names are tokens, values without control characters.
    pub headers: &'a [Field<'a>],
    /// Of an answer to HEAD only the length is sent.
    pub body: &'a [u8],
}

/// What is known of a request that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owed {
    /// It was HEAD.
    pub(super) head_only: bool,
    pub(super) version: Version,
    /// Another request may follow.
    pub(super) keep: bool,
    pub(super) standing: Standing,
    /// A body was begun and not ended.
    pub(super) broken: bool,
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Missing,
    Deferred,
    Given,
}

/// Answers one request. Dropped without an answer, the request is answered with 500.
#[derive(Debug)]
pub struct Reply<'r> {
    pub(super) out: &'r mut Vec<u8>,
    pub(super) owed: &'r mut Owed,
}

impl<'r> Reply<'r> {
    /// Closes the connection after this answer.
    #[must_use]
    pub fn closing(self) -> Self {
        self.owed.keep = false;
        self
    }

    /// Writes a whole response: status line, fields, Content-Length, and the body unless the request was HEAD.
    ///
    /// # Errors
    /// The response is malformed. Nothing was written, and 500 will be, unless the answer was deferred: then it is still owed.
    pub fn respond(mut self, response: &Response<'_>) -> Result<(), WriteError> {
        let Response {
            status,
            headers,
            body,
        } = *response;
        check(status, headers)?;
        let may_have_body = !status.is_bodiless();
        if !body.is_empty() && (!may_have_body || status == Status::RESET_CONTENT) {
            return Err(WriteError::BodyNotAllowed);
        }
        self.out
            .reserve(outgoing::fields_bytes(headers) + body.len());
        outgoing::status_line(self.out, status);
        outgoing::fields(self.out, headers);
        if may_have_body {
            outgoing::content_length(self.out, body.len());
        }
        self.end_of_head();
        if !self.owed.head_only {
            self.out.extend_from_slice(body);
        }
        Ok(())
    }

    /// Writes a response without fields and body.
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn empty(self, status: Status) -> Result<(), WriteError> {
        self.respond(&Response {
            status,
            headers: &[],
            body: &[],
        })
    }

    /// Begins a response whose length is not known: chunked (RFC 9112 section 7.1), or to HTTP/1.0 until the connection closes.
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn chunked(
        mut self,
        status: Status,
        headers: &[Field<'_>],
    ) -> Result<BodyWriter<'r>, WriteError> {
        check(status, headers)?;
        let coding = match self.owed.version {
            _ if status.is_bodiless() || status == Status::RESET_CONTENT => Coding::Nothing,
            Version::Http11 => Coding::Chunked,
            Version::Http10 => {
                self.owed.keep = false;
                Coding::Plain
            }
        };
        self.out.reserve(outgoing::fields_bytes(headers));
        outgoing::status_line(self.out, status);
        outgoing::fields(self.out, headers);
        if coding == Coding::Chunked {
            self.out
                .extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        if status == Status::RESET_CONTENT {
            outgoing::content_length(self.out, 0);
        }
        self.end_of_head();
        let coding = if self.owed.head_only {
            Coding::Nothing
        } else {
            coding
        };
        Ok(BodyWriter::new(self.out, coding, &mut self.owed.broken))
    }

    /// Leaves the answer to a later [`send`](crate::StreamMachine::send) on the machine. Until then no further request is shown.
    pub fn defer(self) {
        self.owed.standing = Standing::Deferred;
    }

    /// What is said about the connection, and the empty line. From here on an answer is given.
    fn end_of_head(&mut self) {
        let connection: &[u8] = match (self.owed.keep, self.owed.version) {
            (false, _) => b"Connection: close\r\n\r\n",
            (true, Version::Http10) => b"Connection: keep-alive\r\n\r\n",
            (true, Version::Http11) => b"\r\n",
        };
        self.out.extend_from_slice(connection);
        self.owed.standing = Standing::Given;
    }
}

fn check(status: Status, headers: &[Field<'_>]) -> Result<(), WriteError> {
    if status.is_interim() {
        return Err(WriteError::InterimStatus);
    }
    outgoing::check_fields(headers)
}
