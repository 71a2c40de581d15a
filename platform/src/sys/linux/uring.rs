//! Probing io_uring by using it once.

use std::io;

use io_uring::{IoUring, Probe, opcode};
use nix::errno::Errno;

use super::files::{Files, HostFiles};
use crate::uring::{RefusalCause, RingFacts, RingOptions, RingRefused};

pub(crate) fn probe(options: &RingOptions) -> Result<RingFacts, RingRefused> {
    if options.defer_taskrun && !options.single_issuer {
        return Err(RefusalCause::FlagUnknown("DEFER_TASKRUN without SINGLE_ISSUER").into());
    }
    let mut ring = build(options).map_err(|error| explain(options, &error))?;
    let opcodes = supported(&ring)?;
    if let Some(missing) = NEEDED.iter().find(|name| !opcodes.contains(name)) {
        return Err(RefusalCause::OpcodeMissing(missing).into());
    }
    submit_nop(&mut ring).map_err(|error| RefusalCause::EnterRefused(number(&error)))?;
    let kernel = HostFiles
        .read("/proc/sys/kernel/osrelease")
        .unwrap_or_else(|_| "unknown".to_owned());
    Ok(RingFacts {
        kernel,
        features: features(&ring),
        opcodes,
    })
}

fn build(options: &RingOptions) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    if options.coop_taskrun {
        builder.setup_coop_taskrun();
    }
    if options.single_issuer {
        builder.setup_single_issuer();
    }
    if options.defer_taskrun {
        builder.setup_defer_taskrun();
    }
    builder.build(options.entries)
}

pub(crate) fn explain(options: &RingOptions, error: &io::Error) -> RingRefused {
    let disabled = HostFiles
        .number::<u32>("io_uring", super::host::IO_URING_DISABLED)
        .unwrap_or(0);
    let cause = match Errno::from_raw(number(error)) {
        Errno::ENOSYS => RefusalCause::TooOld,
        Errno::EPERM | Errno::EACCES if disabled > 0 => RefusalCause::Disabled(disabled),
        Errno::EPERM | Errno::EACCES => RefusalCause::Denied,
        Errno::ENOMEM => RefusalCause::MemlockLimit,
        Errno::EINVAL => refused_flag(options, |options| build(options).is_ok())
            .map_or(RefusalCause::Other(libc::EINVAL), RefusalCause::FlagUnknown),
        errno => RefusalCause::Other(errno as i32),
    };
    cause.into()
}

/// Adds one flag after the other to a ring that can be built, until the kernel refuses one.
fn refused_flag(
    options: &RingOptions,
    builds: impl Fn(&RingOptions) -> bool,
) -> Option<&'static str> {
    let plain = RingOptions {
        coop_taskrun: false,
        single_issuer: false,
        defer_taskrun: false,
        ..*options
    };
    let coop = RingOptions {
        coop_taskrun: options.coop_taskrun,
        ..plain
    };
    let single = RingOptions {
        single_issuer: options.single_issuer,
        ..coop
    };
    if !builds(&plain) {
        return None;
    }
    let steps = [
        ("COOP_TASKRUN", coop),
        ("SINGLE_ISSUER", single),
        ("DEFER_TASKRUN", *options),
    ];
    steps
        .into_iter()
        .find(|(_, step)| !builds(step))
        .map(|(name, _)| name)
}

#[cfg(feature = "refusals")]
pub(crate) fn refuse(what: crate::uring::Refusal) -> crate::Reading<()> {
    use crate::{NotExposed, uring::Refusal};
    use seccompiler::{SeccompAction, SeccompFilter, apply_filter_all_threads};

    let call = match what {
        Refusal::Setup => libc::SYS_io_uring_setup,
        Refusal::Enter => libc::SYS_io_uring_enter,
    };
    let fail = |error: &dyn std::fmt::Display| NotExposed::new("seccomp filter", error);
    let architecture = std::env::consts::ARCH
        .try_into()
        .map_err(|error| fail(&error))?;
    let filter = SeccompFilter::new(
        [(call, Vec::new())].into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        architecture,
    );
    let filter = filter.map_err(|error| fail(&error))?;
    let program: seccompiler::BpfProgram = filter.try_into().map_err(|error| fail(&error))?;
    apply_filter_all_threads(&program).map_err(|error| fail(&error))
}

fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or_default()
}

fn supported(ring: &IoUring) -> Result<Vec<&'static str>, RingRefused> {
    let mut probe = Probe::new();
    ring.submitter()
        .register_probe(&mut probe)
        .map_err(|error| match Errno::from_raw(number(&error)) {
            // Kernels 5.1 to 5.5 have no such question, and not all of the operations either.
            Errno::EINVAL => RefusalCause::OpcodeMissing("IORING_REGISTER_PROBE"),
            Errno::EPERM | Errno::EACCES => RefusalCause::Denied,
            errno => RefusalCause::Other(errno as i32),
        })?;
    Ok(OPCODES
        .iter()
        .filter(|(_, code)| probe.is_supported(*code))
        .map(|(name, _)| *name)
        .collect())
}

fn submit_nop(ring: &mut IoUring) -> io::Result<()> {
    let nop = opcode::Nop::new().build();
    // SAFETY: a NOP refers to no memory.
    unsafe { ring.submission().push(&nop) }.map_err(io::Error::other)?;
    ring.submit_and_wait(1)?;
    ring.completion()
        .next()
        .map(|_| ())
        .ok_or_else(|| io::Error::other("a NOP did not complete"))
}

fn features(ring: &IoUring) -> Vec<&'static str> {
    let params = ring.params();
    let all = [
        ("SINGLE_MMAP", params.is_feature_single_mmap()),
        ("NODROP", params.is_feature_nodrop()),
        ("SUBMIT_STABLE", params.is_feature_submit_stable()),
        ("RW_CUR_POS", params.is_feature_rw_cur_pos()),
        ("CUR_PERSONALITY", params.is_feature_cur_personality()),
        ("FAST_POLL", params.is_feature_fast_poll()),
        ("POLL_32BITS", params.is_feature_poll_32bits()),
        ("SQPOLL_NONFIXED", params.is_feature_sqpoll_nonfixed()),
        ("EXT_ARG", params.is_feature_ext_arg()),
        ("NATIVE_WORKERS", params.is_feature_native_workers()),
        ("RSRC_TAGS", params.is_feature_resource_tagging()),
        ("CQE_SKIP", params.is_feature_skip_cqe_on_success()),
        ("LINKED_FILE", params.is_feature_linked_file()),
    ];
    all.into_iter()
        .filter(|(_, has)| *has)
        .map(|(name, _)| name)
        .collect()
}

/// What an engine for sockets cannot do without.
const NEEDED: &[&str] = &[
    "NOP",
    "READV",
    "WRITEV",
    "POLL_ADD",
    "POLL_REMOVE",
    "SENDMSG",
    "RECVMSG",
    "TIMEOUT",
    "ACCEPT",
    "ASYNC_CANCEL",
    "CONNECT",
    "CLOSE",
    "READ",
    "WRITE",
    "SEND",
    "RECV",
];

const OPCODES: &[(&str, u8)] = &[
    ("NOP", opcode::Nop::CODE),
    ("READV", opcode::Readv::CODE),
    ("WRITEV", opcode::Writev::CODE),
    ("FSYNC", opcode::Fsync::CODE),
    ("READ_FIXED", opcode::ReadFixed::CODE),
    ("WRITE_FIXED", opcode::WriteFixed::CODE),
    ("POLL_ADD", opcode::PollAdd::CODE),
    ("POLL_REMOVE", opcode::PollRemove::CODE),
    ("SENDMSG", opcode::SendMsg::CODE),
    ("RECVMSG", opcode::RecvMsg::CODE),
    ("TIMEOUT", opcode::Timeout::CODE),
    ("TIMEOUT_REMOVE", opcode::TimeoutRemove::CODE),
    ("ACCEPT", opcode::Accept::CODE),
    ("ASYNC_CANCEL", opcode::AsyncCancel::CODE),
    ("LINK_TIMEOUT", opcode::LinkTimeout::CODE),
    ("CONNECT", opcode::Connect::CODE),
    ("FALLOCATE", opcode::Fallocate::CODE),
    ("OPENAT", opcode::OpenAt::CODE),
    ("CLOSE", opcode::Close::CODE),
    ("STATX", opcode::Statx::CODE),
    ("READ", opcode::Read::CODE),
    ("WRITE", opcode::Write::CODE),
    ("SEND", opcode::Send::CODE),
    ("RECV", opcode::Recv::CODE),
    ("PROVIDE_BUFFERS", opcode::ProvideBuffers::CODE),
    ("SHUTDOWN", opcode::Shutdown::CODE),
    ("MSG_RING", opcode::MsgRingData::CODE),
    ("SOCKET", opcode::Socket::CODE),
    ("URING_CMD", opcode::UringCmd16::CODE),
    ("SEND_ZC", opcode::SendZc::CODE),
    ("SENDMSG_ZC", opcode::SendMsgZc::CODE),
];

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: RingOptions = RingOptions {
        entries: 8,
        coop_taskrun: false,
        single_issuer: false,
        defer_taskrun: false,
    };

    #[test]
    fn everything_needed_is_something_we_can_ask_for() {
        for needed in NEEDED {
            assert!(OPCODES.iter().any(|(name, _)| name == needed), "{needed}");
        }
    }

    #[test]
    fn error_numbers_become_causes() {
        let cause = |errno: Errno| explain(&PLAIN, &errno.into()).cause;
        assert_eq!(cause(Errno::ENOSYS), RefusalCause::TooOld);
        assert_eq!(cause(Errno::ENOMEM), RefusalCause::MemlockLimit);
        assert_eq!(cause(Errno::EMFILE), RefusalCause::Other(libc::EMFILE));
        assert!(matches!(
            cause(Errno::EPERM),
            RefusalCause::Denied | RefusalCause::Disabled(_)
        ));
    }

    #[test]
    fn defer_without_single_issuer_is_named() {
        let refused = probe(&RingOptions {
            defer_taskrun: true,
            ..PLAIN
        })
        .unwrap_err();
        assert_eq!(
            refused.cause,
            RefusalCause::FlagUnknown("DEFER_TASKRUN without SINGLE_ISSUER")
        );
    }

    #[test]
    fn the_flag_an_older_kernel_refuses_is_named() {
        let all = RingOptions {
            coop_taskrun: true,
            single_issuer: true,
            defer_taskrun: true,
            ..PLAIN
        };
        let linux_5_18 = |ring: &RingOptions| !ring.coop_taskrun && !ring.single_issuer;
        let linux_5_19 = |ring: &RingOptions| !ring.single_issuer;
        let linux_6_0 = |ring: &RingOptions| !ring.defer_taskrun;
        assert_eq!(refused_flag(&all, linux_5_18), Some("COOP_TASKRUN"));
        assert_eq!(refused_flag(&all, linux_5_19), Some("SINGLE_ISSUER"));
        assert_eq!(refused_flag(&all, linux_6_0), Some("DEFER_TASKRUN"));
        assert_eq!(refused_flag(&all, |_| false), None);
    }
}
