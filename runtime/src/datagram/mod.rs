//! Datagrams: what is received and what is to be sent, in memory that is used again and again.
//!
//! A socket of datagrams takes and gives many at a time, because a system call for each would cost more than all the rest. A
//! [`Batch`] has room for what one receive brings; an [`Outbox`] collects what one send is to take. Both belong to the service, which
//! keeps them for as long as it likes: no datagram is allocated.

mod batch;
mod outbox;
mod parcel;
mod socket;

pub(crate) use batch::Slot;
pub use batch::{Batch, Received};
pub use outbox::{Outbox, SendError};
pub(crate) use parcel::{Letterbox, hand_out};
pub use socket::DatagramSocket;

/// Bytes of the largest datagram that UDP can carry over IPv6; over IPv4 it is 65,507 (RFC 768, RFC 8200).
pub const LARGEST_BYTES: usize = 65_527;
