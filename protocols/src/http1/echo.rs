//! The service that sends every body back: what the benchmark measures.

use super::{
    outgoing::WriteError,
    reply::{Reply, Response},
    request::Request,
    status::Status,
};

/// Answers any method on any path with 200, the request's body and its Content-Type (`application/octet-stream` if it has none). One
/// copy from the body into the output, and no allocation of its own.
///
/// # Errors
/// None that a request could bring about: a Content-Type that was received may be sent.
pub fn echo(request: &mut Request<'_>, reply: Reply<'_>) -> Result<(), WriteError> {
    let kind = request.headers.get("content-type");
    reply.respond(&Response {
        status: Status::OK,
        headers: &[("Content-Type", kind.unwrap_or(b"application/octet-stream"))],
        body: request.body,
    })
}
