//! How a client asks: requests written into the output, as many unanswered as the window allows.

use super::{
    outgoing::{self, BodyWriter, Coding, Field, WriteError},
    target::{Target, is_host},
    token,
};
use std::collections::VecDeque;

/// The requests that wait for their responses, in order.
#[derive(Debug)]
pub(super) struct Asked {
    /// Whether each was HEAD.
    head_only: VecDeque<bool>,
    most: usize,
    /// No more may follow.
    pub(super) closing: bool,
    /// A body was begun and not ended.
    pub(super) broken: bool,
}

impl Asked {
    pub(super) fn new(most: usize) -> Self {
        assert!(most > 0, "a client that may not ask is none");
        Self {
            head_only: VecDeque::new(),
            most,
            closing: false,
            broken: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.head_only.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// Whether the oldest was HEAD.
    pub(super) fn first_is_head(&self) -> bool {
        self.head_only.front().copied().unwrap_or(false)
    }

    /// The oldest is answered.
    pub(super) fn answered(&mut self) {
        self.head_only.pop_front();
    }
}

/// Writes requests. Each field list may have a Host, which then stands for the client's own.
#[derive(Debug)]
pub struct Ask<'r> {
    pub(super) out: &'r mut Vec<u8>,
    pub(super) asked: &'r mut Asked,
    pub(super) host: &'r str,
}

impl Ask<'_> {
    /// How many further requests may be written now.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.asked.closing || self.asked.broken {
            return 0;
        }
        self.asked.most - self.asked.len().min(self.asked.most)
    }

    /// Writes a whole request. Content-Length is written if there is a body, or if the method usually has one (POST, PUT, PATCH;
    /// RFC 9110 section 8.6).
    ///
    /// # Errors
    /// The request is malformed, or may not be written now. Nothing was written.
    pub fn write(
        &mut self,
        method: &str,
        target: &str,
        headers: &[Field<'_>],
        body: &[u8],
    ) -> Result<(), WriteError> {
        self.check(method, target, headers)?;
        self.out
            .reserve(target.len() + outgoing::fields_bytes(headers) + body.len());
        self.head(method, target, headers);
        if !body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH") {
            outgoing::content_length(self.out, body.len());
        }
        self.out.extend_from_slice(b"\r\n");
        self.out.extend_from_slice(body);
        Ok(())
    }

    /// Begins a request whose length is not known (RFC 9112 section 7.1). The server has to know HTTP/1.1.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn chunked(
        &mut self,
        method: &str,
        target: &str,
        headers: &[Field<'_>],
    ) -> Result<BodyWriter<'_>, WriteError> {
        self.check(method, target, headers)?;
        self.head(method, target, headers);
        self.out
            .extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        let broken = &mut self.asked.broken;
        Ok(BodyWriter::new(self.out, Coding::Chunked, broken))
    }

    fn check(&self, method: &str, target: &str, headers: &[Field<'_>]) -> Result<(), WriteError> {
        if self.asked.closing || self.asked.broken {
            return Err(WriteError::Closing);
        }
        if self.asked.is_full() {
            return Err(WriteError::WindowFull);
        }
        if !token::is_token(method.as_bytes()) || method == "CONNECT" {
            return Err(WriteError::InvalidMethod);
        }
        Target::parse(method, target).map_err(|_| WriteError::InvalidTarget)?;
        outgoing::check_fields(headers)?;
        let mut hosts = hosts(headers);
        match (hosts.next(), hosts.next()) {
            (None, _) => Ok(()),
            (Some(host), None) if is_host(host) => Ok(()),
            _ => Err(WriteError::InvalidHost),
        }
    }

    fn head(&mut self, method: &str, target: &str, headers: &[Field<'_>]) {
        self.asked.head_only.push_back(method == "HEAD");
        for piece in [method, " ", target, " HTTP/1.1\r\n"] {
            self.out.extend_from_slice(piece.as_bytes());
        }
        // The first of all (RFC 9110 section 7.2).
        if hosts(headers).next().is_none() {
            outgoing::fields(self.out, &[("Host", self.host.as_bytes())]);
        }
        outgoing::fields(self.out, headers);
    }
}

fn hosts<'f>(headers: &'f [Field<'_>]) -> impl Iterator<Item = &'f [u8]> {
    headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
        .map(|(_, value)| *value)
}
