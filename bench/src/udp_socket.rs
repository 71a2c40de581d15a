//! UDP sockets of this tool: the same buffers are asked for at every end, and what the kernel grants is told.

use crate::contract::{Buffers, UdpBuffers};
use shardloop_platform::socket::{DatagramOptions, bind_datagram, granted_datagram};
use std::{net::SocketAddr, os::fd::AsFd};

/// What servers and clients ask for. The receive buffer holds every window that is sensible; the send buffer only what is on its way
/// out.
pub(crate) const REQUESTED: Buffers = Buffers {
    send_bytes: 64 * 1024,
    receive_bytes: 4 * 1024 * 1024,
};

/// A socket at `address` with these buffers.
pub(crate) fn options(address: SocketAddr, buffers: Buffers) -> DatagramOptions {
    DatagramOptions {
        address,
        reuse_port: false,
        only_v6: true,
        send_buffer_bytes: Some(buffers.send_bytes),
        receive_buffer_bytes: Some(buffers.receive_bytes),
    }
}

/// What a socket was granted; `None` where the system does not say.
pub(crate) fn granted(socket: impl AsFd) -> Option<Buffers> {
    let granted = granted_datagram(socket).ok()?;
    Some(Buffers {
        send_bytes: granted.send_buffer_bytes,
        receive_bytes: granted.receive_buffer_bytes,
    })
}

/// What sockets that others make with these buffers are granted: tried on one of our own beside them, for the kernel decides by its
/// limits alone.
pub(crate) fn granted_beside(address: SocketAddr, buffers: Buffers) -> Option<Buffers> {
    let beside = SocketAddr::new(address.ip(), 0);
    granted(bind_datagram(&options(beside, buffers)).ok()?)
}

impl UdpBuffers {
    /// Nothing granted yet.
    pub(crate) fn requested(requested: Buffers) -> Self {
        UdpBuffers {
            requested,
            granted_min: None,
            granted_max: None,
        }
    }

    /// One more socket was granted this.
    pub(crate) fn add(&mut self, granted: Option<Buffers>) {
        let Some(granted) = granted else { return };
        let both = |known: Option<Buffers>, pick: fn(usize, usize) -> usize| {
            let known = known.unwrap_or(granted);
            Some(Buffers {
                send_bytes: pick(known.send_bytes, granted.send_bytes),
                receive_bytes: pick(known.receive_bytes, granted.receive_bytes),
            })
        };
        self.granted_min = both(self.granted_min, usize::min);
        self.granted_max = both(self.granted_max, usize::max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_is_read_back_and_its_range_kept() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let small = Buffers {
            send_bytes: 8192,
            receive_bytes: 8192,
        };
        let granted = granted_beside(address, small).expect("every system tells");
        assert!(granted.receive_bytes >= 8192, "{granted:?}");
        let mut buffers = UdpBuffers::requested(small);
        buffers.add(None);
        assert_eq!(buffers.granted_min, None);
        buffers.add(Some(granted));
        buffers.add(Some(Buffers {
            send_bytes: 1,
            ..granted
        }));
        let (min, max) = (buffers.granted_min.unwrap(), buffers.granted_max.unwrap());
        assert_eq!((min.send_bytes, max.send_bytes), (1, granted.send_bytes));
        assert_eq!(min.receive_bytes, max.receive_bytes);
    }
}
