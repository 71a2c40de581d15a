//! HTTP/1.1 (RFC 9110, RFC 9112), both roles: whole messages in, whole messages out, one at a time and in order.
//!
//! [`Server`] shows an application each [`Request`] and is answered through a [`Reply`]; [`Client`] writes requests through an [`Ask`]
//! and shows each [`Answer`]. A message is shown when its body has come, so a service holds no half ones; how large one may become is
//! said by [`Limits`]. [`Router`] picks a handler by method and path, [`echo()`] is one.
//!
//! What two readers might understand differently is refused, with the status that [`Http1Error`] names, and the connection ends: bare
//! CR or LF, folded lines, a second Content-Length or Transfer-Encoding, both together, chunk sizes that are not plain digits, and their
//! kin. Trailers are checked and dropped; one that frames, routes or authenticates is refused. One empty line is passed over in front
//! of a request. A `100 Continue` is sent if it is asked for and nothing of the body has come with the head; whether a request is
//! welcome is known only when it is whole, so its head alone is refused for its size, and for nothing else.
//!
//! Not here: streaming bodies, upgrades, CONNECT, content codings, percent-decoding that nobody asked for, a clock for Date.
//!
//! ```
//! use shardloop_protocols::{StreamMachine, http1::{Response, Router, Server, ServerOptions, Status}};
//! use std::time::Instant;
//!
//! let mut app = Router::new().route("GET", "/users/{id}", |_request, params, reply| {
//!     let body = format!("user {}\n", params.get("id").expect("the pattern names it"));
//!     let headers = [("Content-Type", &b"text/plain"[..])];
//!     let response = Response { status: Status::OK, headers: &headers, body: body.as_bytes() };
//!     reply.respond(&response).expect("its headers are well-formed");
//! });
//!
//! let mut server = Server::new(ServerOptions::DEFAULT);
//! let mut input = b"GET /users/7 HTTP/1.1\r\nHost: example.com\r\n\r\n".to_vec();
//! let mut out = Vec::new();
//! let step = server.handle(Instant::now(), &mut input, &mut app, &mut out)?;
//! assert_eq!(step.consumed, input.len());
//! assert_eq!(
//!     out,
//!     b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n\r\nuser 7\n",
//! );
//! # Ok::<(), shardloop_protocols::http1::Http1Error>(())
//! ```

mod ask;
mod body;
mod chunked;
mod client;
mod date;
mod echo;
mod fault;
mod fields;
mod head;
mod headers;
mod limits;
mod outgoing;
mod percent;
mod progress;
mod reply;
mod request;
mod router;
mod scan;
mod server;
mod state;
mod status;
mod target;
mod token;

pub use ask::Ask;
pub use client::{Answer, Client, ClientOptions};
pub use date::imf_fixdate;
pub use echo::echo;
pub use fault::Http1Error;
pub use head::Version;
pub use headers::Headers;
pub use limits::{Limits, MOST_HEADERS};
pub use outgoing::{BodyWriter, Field, WriteError};
pub use percent::{PercentError, decode};
pub use reply::{Reply, Response};
pub use request::Request;
pub use router::{MOST_PARAMS, Params, Router};
pub use server::{Server, ServerOptions};
pub use status::Status;
pub use target::Target;
