//! What a connection does with what it is told: bytes, time, and the wishes of its application.
//!
//! In the order of a connection's life: the handshake, then frame after frame, then the Close. Whatever fails on the way comes by
//! `conclude`, which tells the peer and ends the connection.

use super::{
    Opening, WebSocket, close,
    fault::WebSocketError,
    handshake::{self, RequestError, ResponseError, Scan},
    incoming::{Event, Message},
    phase::Phase,
    reply::Reply,
};
use crate::machine::{App, Flow, Step, StreamMachine, TURN_MESSAGES, TURN_OUTPUT_BYTES};
use std::{mem, time::Instant};

impl StreamMachine for WebSocket {
    type Message<'m> = Message<'m>;
    type Reply<'r> = Reply<'r>;
    type Error = WebSocketError;

    fn start(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, WebSocketError> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        self.set_handshake_deadline(now);
        let result = self.ask(out);
        self.conclude(result, out)
    }

    fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    fn held_bytes(&self) -> usize {
        self.incoming.held_bytes()
    }

    fn handle(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, WebSocketError> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        if self.phase == Phase::Closed {
            return Ok(Step::close(0));
        }
        let result = self.read(now, input, app, out);
        self.conclude(result, out)
    }

    fn end_of_input(
        &mut self,
        _now: Instant,
        unread: usize,
        _out: &mut Vec<u8>,
    ) -> Result<Step, WebSocketError> {
        match mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Open { .. } => Err(WebSocketError::EndedWithoutClose),
            // Somebody who looks whether there is a server says nothing.
            Phase::Opening { .. } if !self.is_server || unread > 0 => {
                Err(WebSocketError::EndedInHandshake)
            }
            // After our Close there is nothing that the peer could have missed.
            Phase::Opening { .. } | Phase::Closing { .. } | Phase::Closed => Ok(Step::close(0)),
        }
    }

    fn timeout(&self) -> Option<Instant> {
        self.phase.timeout(self.deadlines.keep_alive)
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, WebSocketError> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        if self.timeout().is_none_or(|at| now < at) {
            return Ok(Step::need_input(0));
        }
        let result = self.time_out(now, out);
        self.conclude(result, out)
    }

    fn send<R>(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        f: impl FnOnce(Reply<'_>) -> R,
    ) -> Result<R, WebSocketError> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        if !self.is_ready() {
            return Err(WebSocketError::NotOpen);
        }
        let value = f(self.reply(out));
        self.look_for_close(now);
        Ok(value)
    }

    /// Says Close with 1001 from a server, 1000 from a client.
    fn close(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, WebSocketError> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        match self.phase {
            Phase::Opening { .. } | Phase::Closed => {
                self.phase = Phase::Closed;
                Ok(Step::close(0))
            }
            Phase::Open { .. } | Phase::Closing { .. } => {
                let code = if self.is_server {
                    close::GOING_AWAY
                } else {
                    close::NORMAL
                };
                self.outgoing.close(out, Some(code), "");
                self.look_for_close(now);
                Ok(Step::need_input(0))
            }
        }
    }
}

impl WebSocket {
    fn set_handshake_deadline(&mut self, now: Instant) {
        if let Phase::Opening { deadline } = &mut self.phase {
            *deadline = deadline.or(now.checked_add(self.deadlines.handshake));
        }
    }

    /// A client's request, if it was not sent yet.
    fn ask(&mut self, out: &mut Vec<u8>) -> Result<Step, WebSocketError> {
        if let Some(Opening::Client { options, nonce }) = &self.opening {
            let asked = handshake::ask(options, *nonce, out)?;
            let scan = Scan::default();
            self.opening = Some(Opening::Asked { asked, scan });
        }
        Ok(Step::need_input(0))
    }

    fn read(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, WebSocketError> {
        let Some(head_bytes) = self.open(now, input, out)? else {
            return Ok(Step::need_input(0));
        };
        if !input.is_empty() {
            self.phase.heard(now);
        }
        let step = self.take_frames(now, &mut input[head_bytes..], app, out)?;
        Ok(Step {
            consumed: head_bytes + step.consumed,
            next: step.next,
        })
    }

    /// Does the handshake if it was not done; the length of its head, once it is.
    fn open(
        &mut self,
        now: Instant,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, WebSocketError> {
        let end = match &mut self.opening {
            None => return Ok(Some(0)),
            Some(Opening::Client { .. }) => return Err(WebSocketError::NotOpen),
            Some(Opening::Server { options, scan }) => {
                let end = scan.end(input, options.limits.head_bytes);
                let Some(end) = end.map_err(RequestError::from)? else {
                    self.set_handshake_deadline(now);
                    return Ok(None);
                };
                let (request, subprotocol) = handshake::accept(&input[..end], options, out)?;
                (self.request, self.subprotocol) = (Some(request), subprotocol);
                end
            }
            Some(Opening::Asked { asked, scan }) => {
                let end = scan.end(input, asked.limits.head_bytes);
                let Some(end) = end.map_err(ResponseError::from)? else {
                    return Ok(None);
                };
                self.subprotocol = asked.judge(&input[..end])?;
                end
            }
        };
        self.opening = None;
        self.phase = Phase::open(now);
        Ok(Some(end))
    }

    fn take_frames(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, WebSocketError> {
        let (mut consumed, mut messages) = (0, 0);
        while messages < TURN_MESSAGES && out.len() < TURN_OUTPUT_BYTES {
            let taken = self.incoming.next(&mut input[consumed..])?;
            if taken.bytes == 0 {
                return Ok(Step::need_input(consumed));
            }
            consumed += taken.bytes;
            let flow = match taken.event {
                None | Some(Event::Pong) => continue,
                Some(Event::Ping(payload)) => {
                    self.outgoing.pong(out, payload);
                    continue;
                }
                Some(Event::Close(payload)) => {
                    self.answer_close(payload, out)?;
                    return Ok(Step::close(consumed));
                }
                Some(Event::Message(message)) => app.message(message, self.reply(out)),
                Some(Event::Text(text)) => app.message(Message::Text(&text), self.reply(out)),
                Some(Event::Binary(mut bytes)) => {
                    app.message(Message::Binary(&mut bytes), self.reply(out))
                }
            };
            messages += 1;
            self.look_for_close(now);
            if flow == Flow::Pause {
                break;
            }
        }
        Ok(Step::again(consumed))
    }

    fn reply<'r>(&'r mut self, out: &'r mut Vec<u8>) -> Reply<'r> {
        Reply {
            out,
            outgoing: &mut self.outgoing,
            request: self.request.as_ref(),
        }
    }

    /// If Close was said, what still comes is nobody's, and the peer's is awaited.
    fn look_for_close(&mut self, now: Instant) {
        if self.is_ready() && self.outgoing.is_closed() {
            let deadline = now.checked_add(self.deadlines.close);
            self.phase = Phase::Closing { deadline };
            self.incoming.discard();
        }
    }

    /// The peer has said Close: so does this end, with the same code, unless it has.
    fn answer_close(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), WebSocketError> {
        let said = close::read(payload)?;
        let code = (said.code != close::NO_CODE).then_some(said.code);
        self.outgoing.close(out, code, "");
        self.phase = Phase::Closed;
        self.peer_close = Some(said);
        Ok(())
    }

    fn time_out(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, WebSocketError> {
        match &mut self.phase {
            Phase::Opening { .. } if self.is_server => Err(RequestError::TimedOut.into()),
            Phase::Opening { .. } => Err(ResponseError::TimedOut.into()),
            Phase::Open { pinged: true, .. } => Err(WebSocketError::KeepAliveTimedOut),
            Phase::Open { since, pinged } => {
                (*since, *pinged) = (now, true);
                self.outgoing.ping(out);
                Ok(Step::need_input(0))
            }
            Phase::Closing { .. } => Err(WebSocketError::CloseTimedOut),
            Phase::Closed => Ok(Step::close(0)),
        }
    }

    /// After a fault: what the peer is told of it, and that it was the last.
    fn conclude(
        &mut self,
        result: Result<Step, WebSocketError>,
        out: &mut Vec<u8>,
    ) -> Result<Step, WebSocketError> {
        let Err(fault) = &result else {
            return result;
        };
        match (*fault, fault.close_code()) {
            (WebSocketError::Request(fault), _) => handshake::refuse(out, fault),
            (_, Some(code)) => self.outgoing.close(out, Some(code), ""),
            _ => {}
        }
        self.phase = Phase::Closed;
        result
    }
}
