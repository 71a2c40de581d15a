//! The Close frame: its codes, and what a peer said with it (RFC 6455 sections 5.5.1 and 7.4).

use super::fault::WebSocketError;

/// Normal closure.
pub const NORMAL: u16 = 1000;
/// Going away: a server goes down, a browser has left the page.
pub const GOING_AWAY: u16 = 1001;
/// The peer broke the protocol.
pub const PROTOCOL_ERROR: u16 = 1002;
/// What [`PeerClose::code`] says if the peer's Close had no code. Never sent.
pub const NO_CODE: u16 = 1005;
/// A message was not what its type says: a text that is not UTF-8.
pub const INVALID_DATA: u16 = 1007;
/// The peer broke a rule of this end's, and no other code says which.
pub const POLICY: u16 = 1008;
/// A message was over the limit.
pub const TOO_BIG: u16 = 1009;

/// The longest reason, in bytes: a control frame has 125, the code takes two.
pub const REASON_BYTES: usize = 123;

/// What the peer said with its Close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerClose {
    /// Its code; [`NO_CODE`] if there was none.
    pub code: u16,
    /// Its reason, often empty.
    pub reason: String,
}

/// Whether a Close may carry `code`: those of section 7.4.1 and of the registry of section 11.7 that are not reserved for local use
/// (1000–1003, 1007–1014), and those for libraries and applications (3000–4999).
#[must_use]
pub const fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// Reads the payload of a Close.
pub(super) fn read(payload: &[u8]) -> Result<PeerClose, WebSocketError> {
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return match payload {
            [] => Ok(PeerClose {
                code: NO_CODE,
                reason: String::new(),
            }),
            _ => Err(WebSocketError::HalfCloseCode),
        };
    };
    let code = u16::from_be_bytes(*code);
    if !may_be_sent(code) {
        return Err(WebSocketError::CloseCode(code));
    }
    let reason = std::str::from_utf8(reason).map_err(|_| WebSocketError::CloseReasonNotUtf8)?;
    Ok(PeerClose {
        code,
        reason: reason.to_owned(),
    })
}
