//! Other Unix systems: the crate compiles and works where POSIX is enough, and says so where it is not.

use crate::{NotExposed, Reading};

/// One reason for everything that has no implementation here.
fn absent<T>(what: &'static str) -> Reading<T> {
    Err(NotExposed::new(
        what,
        format!(
            "not implemented for {}, only for Linux and macOS",
            std::env::consts::OS
        ),
    ))
}

pub(crate) mod affinity {
    //! All CPUs, and no pinning.

    use super::absent;
    use crate::Reading;
    use crate::affinity::{Allowed, NotPinned};
    use crate::cpu_set::CpuSet;

    pub(crate) fn allowed() -> Allowed {
        let cpuset = absent("CPU set of the control group");
        let online = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Allowed::from_sources(current_thread_cpus(), cpuset, absent("CPU quota"), online)
    }

    pub(crate) fn current_thread_cpus() -> Reading<CpuSet> {
        absent("affinity")
    }

    pub(crate) fn pin_current_thread(cpu: usize) -> Result<usize, NotPinned> {
        let reason = format!(
            "pinning is not implemented for {}, only for Linux",
            std::env::consts::OS
        );
        Err(NotPinned { cpu, reason })
    }
}

pub(crate) mod calls {
    //! System calls are not counted.

    use std::convert::Infallible;
    use std::io;

    use super::absent;
    use crate::Reading;

    /// There is none.
    #[derive(Debug)]
    pub(crate) struct Counter(Infallible);

    impl Counter {
        pub(crate) fn open() -> Reading<Self> {
            absent("number of system calls")
        }

        pub(crate) fn read(&self) -> io::Result<u64> {
            match self.0 {}
        }
    }
}

pub(crate) mod datagram {
    //! One datagram at a time.

    pub(crate) use crate::sys::one_by_one::Slots;

    /// Drops are not told with datagrams.
    pub(crate) const DROPS_MESSAGE: Option<libc::c_int> = None;
}

pub(crate) mod host {
    //! Only what the standard library and getrlimit know.

    use super::absent;
    use crate::Reading;
    use crate::host::Host;
    use crate::sys::unix::{descriptor_limit, memlock_limit};

    pub(crate) fn describe() -> Host {
        Host {
            os: Ok(std::env::consts::OS.to_owned()),
            kernel_release: absent("kernel release"),
            arch: Ok(std::env::consts::ARCH.to_owned()),
            cpu_model: absent("CPU model"),
            logical_cpus: absent("CPUs"),
            physical_cores: absent("cores"),
            memory_bytes: absent("memory size"),
            virtualised: absent("virtualisation"),
            governor: governor(),
            turbo: absent("turbo"),
            smt: absent("SMT"),
            numa_nodes: absent("NUMA nodes"),
            mitigations: absent("mitigations"),
            clocksource: absent("clock source"),
            boot_id: absent("boot id"),
            hostname: absent("host name"),
            tcp_congestion_control: absent("congestion control"),
            rmem_max_bytes: absent("largest receive buffer"),
            wmem_max_bytes: absent("largest send buffer"),
            somaxconn: absent("largest backlog"),
            port_range: absent("port range"),
            io_uring_disabled: absent("io_uring sysctl"),
            perf_event_paranoid: absent("perf sysctl"),
            descriptor_limit: descriptor_limit(),
            memlock_limit_bytes: memlock_limit(),
            transparent_hugepages: absent("transparent huge pages"),
        }
    }

    pub(crate) fn governor() -> Reading<String> {
        absent("frequency governor")
    }
}

pub(crate) mod memory {
    //! Giving memory back by mapping it anew.

    use std::io;
    use std::ptr::NonNull;

    use crate::sys::unix;

    /// # Safety
    /// `[start, start + len)` must be whole pages of private anonymous memory that the caller owns and holds no
    /// references into; it is zero afterwards.
    pub(crate) unsafe fn zero_and_release(start: NonNull<u8>, len: usize) -> io::Result<()> {
        // SAFETY: the caller owns the range, and MAP_FIXED replaces exactly that.
        unsafe { unix::map(start.as_ptr().cast(), len, libc::MAP_FIXED) }.map(|_| ())
    }

    /// Nothing is known about the allocator here.
    pub(crate) fn trim_heap() -> bool {
        false
    }
}

pub(crate) mod network {
    //! No counters.

    use super::absent;
    use crate::Reading;
    use crate::network::{BacklogCounters, TcpCounters, UdpCounters};

    pub(crate) fn udp() -> Reading<UdpCounters> {
        absent("UDP counters")
    }

    pub(crate) fn udp6() -> Reading<UdpCounters> {
        absent("UDP counters of IPv6")
    }

    pub(crate) fn tcp() -> Reading<TcpCounters> {
        absent("TCP counters")
    }

    pub(crate) fn backlog() -> Reading<BacklogCounters> {
        absent("counters of the network backlog")
    }
}

pub(crate) mod noise {
    //! No sensors.

    use std::time::Duration;

    use super::absent;
    use crate::Reading;
    use crate::noise::{CpuTimes, Frequency, Pressure, ThermalThrottles, Throttling};

    pub(crate) fn cpu_times() -> Reading<CpuTimes> {
        absent("CPU times")
    }

    pub(crate) fn pressure() -> Reading<Pressure> {
        absent("CPU pressure")
    }

    pub(crate) fn group_pressure() -> Reading<Pressure> {
        absent("CPU pressure of the control group")
    }

    pub(crate) fn context_switches() -> Reading<u64> {
        absent("context switches of the machine")
    }

    pub(crate) fn frequency() -> Reading<Frequency> {
        absent("CPU frequency")
    }

    pub(crate) fn throttling() -> Reading<Throttling> {
        absent("throttling by CPU quotas")
    }

    pub(crate) fn thermal_throttles() -> Reading<ThermalThrottles> {
        absent("thermal throttling")
    }

    pub(crate) fn run_queue_wait(_pid: Option<u32>) -> Reading<Duration> {
        absent("run-queue wait")
    }

    pub(crate) fn load_average() -> Reading<[f64; 3]> {
        absent("load average")
    }
}

pub(crate) mod signal {
    //! No parent-death signal.

    use std::process::Command;

    pub(crate) fn die_with_parent(command: &mut Command) -> &mut Command {
        command
    }
}

pub(crate) mod socket {
    //! Sockets as POSIX has them.

    use std::io;
    use std::os::fd::AsFd;

    use nix::sys::socket::MsgFlags;
    use socket2::{SockAddr, SockRef, Socket};

    use super::absent;
    use crate::Reading;
    use crate::socket::SocketMemory;

    pub(crate) const SEND_FLAGS: MsgFlags = MsgFlags::MSG_DONTWAIT.union(MsgFlags::MSG_NOSIGNAL);

    pub(crate) const DESCRIPTOR_DIRECTORY: Result<&str, &str> =
        Err("this system does not list them reliably (only Linux and macOS do)");

    pub(crate) fn accept(listener: &SockRef<'_>) -> io::Result<(Socket, SockAddr)> {
        let (socket, peer) = listener.accept()?;
        socket.set_nonblocking(true)?;
        Ok((socket, peer))
    }

    pub(crate) fn never_raise_sigpipe(_socket: &impl AsFd) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn congestion_control(_socket: &SockRef<'_>) -> Reading<String> {
        absent("congestion control")
    }

    pub(crate) fn report_drops(_socket: &impl AsFd) -> Reading<()> {
        absent("drops of a socket")
    }

    pub(crate) fn memory(_socket: &impl AsFd) -> Reading<SocketMemory> {
        absent("memory of a socket")
    }

    pub(crate) fn descriptor_ceiling() -> Option<libc::rlim_t> {
        None
    }

    /// See [`crate::socket::REUSE_PORT_SPREADS`].
    pub(crate) const REUSE_PORT_SPREADS: bool = false;
}

pub(crate) mod topology {
    //! Not known.

    use super::absent;
    use crate::Reading;
    use crate::topology::Topology;

    pub(crate) fn read() -> Reading<Topology> {
        absent("CPU topology")
    }
}

pub(crate) mod uring {
    //! There is none.

    use crate::uring::{RefusalCause, RingFacts, RingOptions, RingRefused};

    pub(crate) fn probe(_options: &RingOptions) -> Result<RingFacts, RingRefused> {
        Err(RefusalCause::NotLinux.into())
    }

    pub(crate) fn explain(_options: &RingOptions, _error: &std::io::Error) -> RingRefused {
        RefusalCause::NotLinux.into()
    }

    #[cfg(feature = "refusals")]
    pub(crate) fn refuse(_what: crate::uring::Refusal) -> crate::Reading<()> {
        super::absent("seccomp filter")
    }
}

pub(crate) mod usage {
    //! The CPU clock of this process is POSIX; the rest is not.

    use std::io;
    use std::time::Duration;

    use nix::time::ClockId;

    use super::absent;
    use crate::Reading;
    use crate::usage::{Memory, Switches};

    #[derive(Debug)]
    pub(crate) struct Clock(ClockId);

    impl Clock {
        pub(crate) fn read(&self) -> io::Result<Duration> {
            Ok(self.0.now()?.into())
        }
    }

    pub(crate) fn clock_of_process(_pid: u32) -> Reading<Clock> {
        absent("CPU time")
    }

    pub(crate) fn clock_of_this_process() -> Clock {
        Clock(ClockId::CLOCK_PROCESS_CPUTIME_ID)
    }

    pub(crate) fn clock_of_this_thread() -> Reading<Clock> {
        absent("CPU time of the thread")
    }

    pub(crate) fn memory(_pid: Option<u32>) -> Reading<Memory> {
        absent("memory")
    }

    pub(crate) fn switches(_pid: Option<u32>) -> Reading<Switches> {
        absent("context switches")
    }
}
