//! Sockets whose address is a file.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use shardloop_platform::socket::{UnixBindCause, accept_unix, listen_unix, set_nonblocking};

use crate::socket::{is_closed_on_exec, is_nonblocking};

/// A directory that is gone with this value. Its path is short, as addresses have to be.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("shardloop-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn accept_waiting(listener: &UnixListener) -> UnixStream {
    set_nonblocking(listener, false).unwrap();
    accept_unix(listener)
        .unwrap()
        .expect("a blocking listener waits")
}

fn echoes(listener: &UnixListener, path: &Path) {
    let mut client = UnixStream::connect(path).unwrap();
    let mut server = accept_waiting(listener);
    client.write_all(b"hello").unwrap();
    set_nonblocking(&server, false).unwrap();
    let mut buffer = [0; 5];
    server.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"hello");
}

fn refusal(path: &Path) -> UnixBindCause {
    listen_unix(path, 8).unwrap_err().cause
}

#[test]
fn connections_are_accepted_like_those_of_tcp() {
    let directory = Directory::new();
    let listener = listen_unix(directory.socket(), 8).unwrap();
    assert!(is_nonblocking(&listener) && is_closed_on_exec(&listener));
    assert!(accept_unix(&listener).unwrap().is_none());
    let _client = UnixStream::connect(directory.socket()).unwrap();
    let server = accept_waiting(&listener);
    assert!(is_nonblocking(&server) && is_closed_on_exec(&server));
    echoes(&listener, &directory.socket());
}

#[test]
fn a_live_server_is_left_alone() {
    let directory = Directory::new();
    let path = directory.socket();
    let first = listen_unix(&path, 8).unwrap();
    let error = listen_unix(&path, 8).unwrap_err();
    assert_eq!(error.cause, UnixBindCause::InUse);
    assert_eq!(error.path, path);
    assert!(
        error.to_string().contains("a server has this address"),
        "{error}"
    );
    assert!(
        accept_unix(&first).unwrap().is_none(),
        "it has not noticed the question"
    );
    echoes(&first, &path);
}

#[test]
fn a_server_that_cannot_answer_now_is_alive() {
    let directory = Directory::new();
    let path = directory.socket();
    let kind = socket2::Type::STREAM;
    let server = socket2::Socket::new(socket2::Domain::UNIX, kind, None).unwrap();
    server
        .bind(&socket2::SockAddr::unix(&path).unwrap())
        .unwrap();
    assert_eq!(refusal(&path), UnixBindCause::InUse, "not listening yet");
    server.listen(0).unwrap();
    let client = socket2::Socket::new(socket2::Domain::UNIX, kind, None).unwrap();
    client.set_nonblocking(true).unwrap();
    client
        .connect(&socket2::SockAddr::unix(&path).unwrap())
        .unwrap();
    assert_eq!(refusal(&path), UnixBindCause::InUse, "the backlog is full");
    assert!(path.exists());
    drop(server);
    listen_unix(&path, 8).unwrap();
}

#[test]
fn a_stale_file_is_replaced() {
    let directory = Directory::new();
    let path = directory.socket();
    drop(listen_unix(&path, 8).unwrap());
    assert!(path.exists(), "the file outlives its server");
    UnixStream::connect(&path).unwrap_err();
    let second = listen_unix(&path, 8).unwrap();
    echoes(&second, &path);
}

#[test]
fn a_socket_of_another_kind_is_alive_as_long_as_somebody_has_it() {
    let directory = Directory::new();
    let path = directory.socket();
    let datagrams = UnixDatagram::bind(&path).unwrap();
    assert_eq!(refusal(&path), UnixBindCause::InUse);
    drop(datagrams);
    listen_unix(&path, 8).unwrap();
}

#[test]
fn what_is_no_socket_is_never_removed() {
    let directory = Directory::new();
    let path = directory.socket();
    fs::write(&path, "precious").unwrap();
    assert_eq!(refusal(&path), UnixBindCause::NotASocket);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(refusal(&path), UnixBindCause::NotASocket);
    assert!(path.is_dir());
}

#[test]
fn a_link_is_never_removed_nor_followed() {
    let directory = Directory::new();
    let (path, link) = (directory.socket(), directory.0.join("link"));
    drop(listen_unix(&path, 8).unwrap());
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(refusal(&link), UnixBindCause::NotASocket);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(path.exists());
}

#[test]
fn permissions_are_those_a_plain_bind_gives() {
    let directory = Directory::new();
    let plain = directory.0.join("plain");
    let _plain = UnixListener::bind(&plain).unwrap();
    let _ours = listen_unix(directory.socket(), 8).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&directory.socket()), mode(&plain));
    let file = fs::metadata(directory.socket()).unwrap();
    assert!(file.file_type().is_socket());
}

#[test]
fn paths_that_cannot_be_are_refused_with_the_reason() {
    let directory = Directory::new();
    let below_nothing = directory.0.join("nothing").join("socket");
    assert_eq!(refusal(&below_nothing), UnixBindCause::NoDirectory);
    let file = directory.0.join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(refusal(&file.join("socket")), UnixBindCause::NoDirectory);
    let long = directory.0.join("x".repeat(200));
    assert_eq!(refusal(&long), UnixBindCause::PathTooLong);
    assert_eq!(refusal(Path::new("")), UnixBindCause::NotAPath);
}
