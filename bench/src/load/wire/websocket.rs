//! `ws`: each message one masked binary frame. A browser's requests look the same.

use super::{Setup, Wire};
use crate::load::fault::Wrong;
use shardloop_protocols::websocket::{
    ClientOptions, Deadlines, Limits, Message, Reply, WebSocket, WebSocketError,
};
use std::{io, time::Duration};

impl Wire for WebSocket {
    fn client(setup: &Setup) -> io::Result<Self> {
        // Nobody but this machine's loopback sees the masks, so a quick generator does.
        let seed = std::array::from_fn(|_| fastrand::u8(..));
        Ok(Self::client(ClientOptions {
            limits: Limits {
                frame_bytes: setup.payload_bytes,
                message_bytes: setup.payload_bytes,
                ..Limits::default()
            },
            // The generator's own timeout bounds the handshake.
            deadlines: Deadlines {
                handshake: Duration::from_secs(3600),
                ..Deadlines::default()
            },
            ..ClientOptions::new(&setup.server.to_string(), "/", seed)
        }))
    }

    fn frame_bytes(_payload_bytes: usize) -> Option<usize> {
        None
    }

    fn payload<'m>(message: Self::Message<'m>) -> Result<&'m [u8], Wrong> {
        match message {
            Message::Binary(bytes) => Ok(bytes),
            Message::Text(_) => Err(Wrong::Protocol("a text came where bytes were sent".into())),
        }
    }

    fn request(mut reply: Reply<'_>, payload: &[u8]) {
        reply
            .binary(payload)
            .expect("the limit of this end is the payload itself, and it asks before it closes");
    }

    fn wrong(error: WebSocketError) -> Wrong {
        Wrong::Protocol(error.to_string())
    }
}
