//! The TLS library, as the layer wants it: ciphertext in, plaintext out; plaintext in, ciphertext out, into buffers of the caller's.
//!
//! rustls 0.23 keeps three buffers of its own. What is read from it in [`read`](Session::read) and written in
//! [`write`](Session::write) leaves two of them empty between calls; the third holds the beginning of a record that has not come whole.
//! After an error it only hands out what it had to say about it.

use super::{
    config::{ClientConfig, ServerConfig},
    fault::TlsFault,
    record::RECORD_BYTES,
};
use rustls::{Connection, HandshakeKind};
use std::io::{self, BufRead, Read, Write};

/// Plaintext that is encrypted before the records are taken: whole records, so that none is cut short at the bound.
const WRITE_BYTES: usize = 4 * RECORD_BYTES;

/// Bytes that a record has around its plaintext: header, nonce or type, and tag of the cipher suites there are.
const RECORD_OVERHEAD_BYTES: usize = 32;

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Session {
    /// In a box: it is large, and moves with the machine.
    rustls: Box<Connection>,
    /// It has failed, and neither reads nor writes any more.
    failed: bool,
    /// close_notify has come.
    peer_has_ended: bool,
}

impl Session {
    pub(super) fn server(config: &ServerConfig) -> Result<Self, TlsFault> {
        let connection = rustls::ServerConnection::new(config.rustls.clone())?;
        Ok(Self::new(connection.into()))
    }

    /// What a client says first is there to be taken at once.
    pub(super) fn client(config: &ClientConfig) -> Result<Self, TlsFault> {
        let (rustls, name) = (config.rustls.clone(), config.server_name.clone());
        let connection = rustls::ClientConnection::new(rustls, name)?;
        Ok(Self::new(connection.into()))
    }

    fn new(mut rustls: Connection) -> Self {
        rustls.set_buffer_limit(Some(WRITE_BYTES));
        Self {
            rustls: Box::new(rustls),
            failed: false,
            peer_has_ended: false,
        }
    }

    /// Takes some bytes from the front of `cipher`, at most as many as a record has, and appends what they were to `plain`; how many
    /// it took. Nothing is taken after close_notify.
    ///
    /// What came before an error is appended as well.
    pub(super) fn read(
        &mut self,
        cipher: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<usize, (usize, TlsFault)> {
        if self.failed || self.peer_has_ended {
            return Ok(0);
        }
        let mut rest = cipher;
        let read = self.rustls.read_tls(&mut rest);
        let taken = cipher.len() - rest.len();
        let processed = match read {
            // Its buffer is full, of a message that is longer than any it would take.
            Ok(0) | Err(_) => Err(TlsFault::Garbage),
            Ok(_) => self.rustls.process_new_packets().map_err(TlsFault::from),
        };
        self.take_plaintext(plain);
        match processed {
            Ok(state) => {
                self.peer_has_ended = state.peer_has_closed();
                Ok(taken)
            }
            Err(fault) => {
                self.failed = true;
                Err((taken, fault))
            }
        }
    }

    fn take_plaintext(&mut self, plain: &mut Vec<u8>) {
        let mut reader = self.rustls.reader();
        // An error is how it says that there is nothing, or nothing any more.
        while let Ok(chunk) = reader.fill_buf()
            && !chunk.is_empty()
        {
            plain.extend_from_slice(chunk);
            let bytes = chunk.len();
            reader.consume(bytes);
        }
    }

    /// Appends the records of `plain` to `out`: full ones but for the last.
    pub(super) fn write(&mut self, mut plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsFault> {
        let records = plain.len().div_ceil(RECORD_BYTES);
        out.reserve(plain.len() + records * RECORD_OVERHEAD_BYTES);
        while !plain.is_empty() {
            // What waits there would take a part of the bound.
            self.take_output(out);
            let written = self.rustls.writer().write(plain);
            let written = written.map_err(|error| TlsFault::Other(error.to_string().into()))?;
            let before = out.len();
            self.take_output(out);
            // A record is longer than what it holds. With TLS 1.2 and used up keys there is only close_notify.
            if written == 0 || out.len() - before < written {
                self.failed = true;
                return Err(TlsFault::KeysUsedUp);
            }
            plain = &plain[written..];
        }
        Ok(())
    }

    /// Appends what the library itself has to say: handshakes, alerts, changes of keys.
    pub(super) fn take_output(&mut self, out: &mut Vec<u8>) {
        while self.rustls.wants_write() {
            self.rustls
                .write_tls(out)
                .expect("writing into memory does not fail");
        }
    }

    /// Appends close_notify. Nothing is to be read or written after it.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        self.rustls.send_close_notify();
        self.take_output(out);
        self.failed = true;
    }

    /// The next record is encrypted with new keys (TLS 1.3).
    pub(super) fn refresh_keys(&mut self) -> Result<(), TlsFault> {
        Ok(self.rustls.refresh_traffic_keys()?)
    }

    /// Gives back what reading long records took.
    pub(super) fn shrink(&mut self) {
        struct Nothing;
        impl Read for Nothing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
        if !self.failed && !self.peer_has_ended {
            // It makes its buffer fit before it reads.
            let _ = self.rustls.read_tls(&mut Nothing);
        }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.rustls.is_handshaking()
    }

    pub(super) fn is_server(&self) -> bool {
        matches!(*self.rustls, Connection::Server(_))
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    pub(super) fn peer_has_ended(&self) -> bool {
        self.peer_has_ended
    }

    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.rustls.alpn_protocol()
    }

    pub(super) fn version(&self) -> Option<&'static str> {
        match self.rustls.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_2 => Some("TLS 1.2"),
            rustls::ProtocolVersion::TLSv1_3 => Some("TLS 1.3"),
            _ => None,
        }
    }

    pub(super) fn cipher_suite(&self) -> Option<&'static str> {
        self.rustls.negotiated_cipher_suite()?.suite().as_str()
    }

    pub(super) fn is_resumed(&self) -> bool {
        self.rustls.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(super) fn server_name(&self) -> Option<&str> {
        match &*self.rustls {
            Connection::Server(server) => server.server_name(),
            Connection::Client(_) => None,
        }
    }

    pub(super) fn peer_certificates(&self) -> impl Iterator<Item = &[u8]> {
        let certificates = self.rustls.peer_certificates().unwrap_or_default();
        certificates.iter().map(AsRef::as_ref)
    }
}
