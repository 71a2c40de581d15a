//! `http`: each message the body of a `POST /echo`, pipelined up to the window (RFC 9112 section 9.3.2).

use super::{Setup, Wire};
use crate::load::fault::Wrong;
use shardloop_protocols::http1::{Ask, Client, ClientOptions, Http1Error, Limits, Status};
use std::{io, time::Duration};

impl Wire for Client {
    fn client(setup: &Setup) -> io::Result<Self> {
        let options = ClientOptions {
            limits: Limits {
                body_bytes: setup.payload_bytes,
                ..Limits::DEFAULT
            },
            outstanding: setup.window,
            // The generator's own timeouts bound it.
            response_deadline: Duration::from_secs(3600),
        };
        Self::new(&setup.server.to_string(), options).map_err(io::Error::other)
    }

    fn frame_bytes(_payload_bytes: usize) -> Option<usize> {
        None
    }

    fn payload<'m>(answer: Self::Message<'m>) -> Result<&'m [u8], Wrong> {
        if answer.status == Status::OK {
            return Ok(answer.body);
        }
        let status = answer.status.code();
        Err(Wrong::Protocol(format!("the answer has status {status}")))
    }

    fn request(mut ask: Ask<'_>, payload: &[u8]) {
        let headers: [(&str, &[u8]); 1] = [("Content-Type", b"application/octet-stream")];
        ask.write("POST", "/echo", &headers, payload)
            .expect("the request is well formed, and as many may be unanswered as the window has");
    }

    fn wrong(error: Http1Error) -> Wrong {
        Wrong::Protocol(error.to_string())
    }
}
