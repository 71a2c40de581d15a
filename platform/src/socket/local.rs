//! Sockets whose address is a file: Unix stream sockets (unix(7)).
//!
//! The file is made by bind(2) and outlives the socket: nobody removes it when a server ends, and it then stands in
//! the way of the next one. [`listen_unix`] tells such a stale file from the address of a server by asking.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

use super::{accept_any, backlog};

/// A listener at `path`: nonblocking, closed on exec. `backlog` is how many connections may wait to be accepted; the
/// kernel caps it at `somaxconn`.
///
/// Where a socket file is at `path` already, the kernel is asked whether any process has that socket: if so, the address
/// is in use. The server there notices nothing, and is found whether it is listening yet, has a full backlog, or
/// does not accept at all. If nobody has it, the file is removed and the address taken. Anything else at `path` is never
/// touched.
///
/// Permissions are those bind(2) gives: 0777 less the umask, and on Linux who may not write to the file may not
/// connect. Nothing here changes them; put the socket into a directory with the permissions you want. The file stays
/// when the listener is dropped.
///
/// A server that takes the same stale file over between two system calls of ours may lose the file it has just made. Who
/// starts several servers at one path in one instant holds a lock around the call.
///
/// # Errors
/// [`UnixBindError`].
pub fn listen_unix(
    path: impl AsRef<Path>,
    backlog_connections: u32,
) -> Result<UnixListener, UnixBindError> {
    let path = path.as_ref();
    let address = address(path).map_err(|cause| UnixBindError::new(path, cause))?;
    let socket = bound(path, &address)?;
    socket
        .listen(backlog(backlog_connections))
        .map_err(|error| UnixBindError::from_system(path, &error))?;
    Ok(socket.into())
}

/// Takes one waiting connection: nonblocking and closed on exec, as [`super::accept`] does for TCP. `None`: no
/// connection waits. The peer's address is left out, because connecting sockets have none.
///
/// # Errors
/// The operating system's; see [`super::is_descriptor_exhaustion`].
pub fn accept_unix(listener: impl AsFd) -> io::Result<Option<UnixStream>> {
    Ok(accept_any(listener)?.map(|(socket, _)| socket.into()))
}

/// Others may make and remove files here while we do; after so many changes one of them is taken for a server.
const ATTEMPTS: usize = 4;

fn bound(path: &Path, address: &SockAddr) -> Result<Socket, UnixBindError> {
    let fail = |error: io::Error| UnixBindError::from_system(path, &error);
    for _ in 0..ATTEMPTS {
        let socket = socket(Type::STREAM).map_err(fail)?;
        match socket.bind(address) {
            Ok(()) => return Ok(socket),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                remove_if_stale(path, address)?;
            }
            Err(error) => return Err(fail(error)),
        }
    }
    Err(UnixBindError::new(path, UnixBindCause::InUse))
}

fn socket(kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, kind, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Makes room at `path`, or says why that must not be.
fn remove_if_stale(path: &Path, address: &SockAddr) -> Result<(), UnixBindError> {
    let fail = |error: io::Error| UnixBindError::from_system(path, &error);
    let Some(before) = Identity::of(path).map_err(fail)? else {
        return Ok(());
    };
    if !before.is_socket {
        return Err(UnixBindError::new(path, UnixBindCause::NotASocket));
    }
    // Asked with a socket of another kind: what a process has is refused as the wrong kind (EPROTOTYPE), and the process
    // sees nothing of it. A connection of the right kind would be accepted by the server, and would on macOS be refused
    // by a full backlog just as by nobody.
    match socket(Type::DGRAM).map_err(fail)?.connect(address) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(fail(error)),
        Ok(()) | Err(_) => return Err(UnixBindError::new(path, UnixBindCause::InUse)),
    }
    // Only the file that was asked: a server that has just replaced it made another one.
    match Identity::of(path).map_err(fail)? {
        Some(now) if now == before => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fail(error)),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// What tells one file at a path from the next one there.
#[derive(PartialEq, Eq)]
struct Identity {
    is_socket: bool,
    device: u64,
    inode: u64,
    /// Numbers of removed files are used again; the time of the last change tells them apart.
    changed: (i64, i64),
}

impl Identity {
    /// Of the file itself and not of what a symbolic link leads to; `None` when there is none.
    fn of(path: &Path) -> io::Result<Option<Self>> {
        match fs::symlink_metadata(path) {
            Ok(file) => Ok(Some(Self {
                is_socket: file.file_type().is_socket(),
                device: file.dev(),
                inode: file.ino(),
                changed: (file.ctime(), file.ctime_nsec()),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a socket can have this path as its address.
///
/// # Errors
/// [`UnixBindCause::NotAPath`] or [`UnixBindCause::PathTooLong`].
pub fn unix_path(path: &Path) -> Result<(), UnixBindCause> {
    address(path).map(drop)
}

/// Not every path can be an address: the kernel has room for about a hundred bytes and ends a name at a zero byte.
/// An empty one, and one that begins with a zero byte, would mean names that are no files (Linux).
fn address(path: &Path) -> Result<SockAddr, UnixBindCause> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(UnixBindCause::NotAPath);
    }
    SockAddr::unix(path).map_err(|_| UnixBindCause::PathTooLong)
}

/// A path that could not be listened at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixBindError {
    /// The path.
    pub path: PathBuf,
    /// What kind of refusal it was.
    pub cause: UnixBindCause,
    /// The operating system's error number, if it came from there.
    pub errno: Option<i32>,
}

/// Why a path could not be listened at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnixBindCause {
    /// A process has the socket there.
    InUse,
    /// There is a file that is no socket; it was left alone.
    NotASocket,
    /// The directory or the socket there belongs to somebody else (EACCES, EPERM).
    Permission,
    /// The directory does not exist, or a part of the path is no directory (ENOENT, ENOTDIR).
    NoDirectory,
    /// The path is longer than an address has room for: 107 bytes on Linux, 103 on macOS.
    PathTooLong,
    /// The path is empty or has a zero byte in it.
    NotAPath,
    /// Anything else; the number tells.
    Other,
}

impl UnixBindError {
    fn new(path: &Path, cause: UnixBindCause) -> Self {
        Self {
            path: path.to_owned(),
            cause,
            errno: None,
        }
    }

    fn from_system(path: &Path, error: &io::Error) -> Self {
        let errno = error.raw_os_error();
        let cause = match errno.map(Errno::from_raw) {
            Some(Errno::EADDRINUSE) => UnixBindCause::InUse,
            Some(Errno::EACCES | Errno::EPERM) => UnixBindCause::Permission,
            Some(Errno::ENOENT | Errno::ENOTDIR) => UnixBindCause::NoDirectory,
            Some(Errno::ENAMETOOLONG) => UnixBindCause::PathTooLong,
            _ => UnixBindCause::Other,
        };
        Self {
            errno,
            ..Self::new(path, cause)
        }
    }
}

impl fmt::Display for UnixBindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen at {}: ", self.path.display())?;
        f.write_str(match self.cause {
            UnixBindCause::InUse => {
                "a server has this address, and removing it would cut clients off from it; stop it, or use another path"
            }
            UnixBindCause::NotASocket => {
                "there is a file that is no socket, so it is left alone; remove it, or use another path"
            }
            UnixBindCause::Permission => {
                "this user must not make a socket there, or replace the one there; use a directory of this user"
            }
            UnixBindCause::NoDirectory => {
                "the directory does not exist; make it, or use another path"
            }
            UnixBindCause::PathTooLong => {
                "the address of a socket has room for about a hundred bytes; use a shorter path, or one that is \
                 relative to the working directory"
            }
            UnixBindCause::NotAPath => "it is empty or has a zero byte in it; use the path of a file",
            UnixBindCause::Other => {
                return match self.errno {
                    Some(errno) => write!(f, "{}", io::Error::from_raw_os_error(errno)),
                    None => f.write_str("no reason given"),
                };
            }
        })
    }
}

impl Error for UnixBindError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_says_what_why_and_what_to_do() {
        let text = |errno: Errno| {
            UnixBindError::from_system(Path::new("/run/x"), &errno.into()).to_string()
        };
        assert!(text(Errno::EADDRINUSE).starts_with("cannot listen at /run/x: a server has"));
        assert!(text(Errno::EACCES).contains("a directory of this user"));
        assert!(text(Errno::ENOENT).contains("make it"));
        assert!(text(Errno::ENAMETOOLONG).contains("shorter path"));
        assert!(text(Errno::EINVAL).contains("Invalid argument"));
    }

    #[test]
    fn what_is_no_path_is_no_address() {
        let cause = |path: &str| address(Path::new(path)).err();
        assert_eq!(cause(""), Some(UnixBindCause::NotAPath));
        assert_eq!(cause("\0abstract"), Some(UnixBindCause::NotAPath));
        assert_eq!(cause("a\0b"), Some(UnixBindCause::NotAPath));
        assert_eq!(cause(&"x".repeat(300)), Some(UnixBindCause::PathTooLong));
        assert_eq!(cause("x"), None);
    }
}
