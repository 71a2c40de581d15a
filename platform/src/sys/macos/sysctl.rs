//! Reading the kernel's named values: sysctlbyname(3).

use std::ffi::CString;
use std::io;
use std::ptr;

use crate::{NotExposed, Reading};

/// A whole number, which the kernel gives in 4 or 8 bytes.
pub(super) fn number(what: &'static str, name: &str) -> Reading<u64> {
    let bytes = value(what, name)?;
    parse_number(&bytes)
        .ok_or_else(|| NotExposed::new(what, format!("sysctl {name} has {} bytes", bytes.len())))
}

/// A count of things.
pub(super) fn count(what: &'static str, name: &str) -> Reading<usize> {
    let number = number(what, name)?;
    usize::try_from(number)
        .map_err(|_| NotExposed::new(what, format!("sysctl {name} says {number}")))
}

/// A text, without the zero at its end.
pub(super) fn text(what: &'static str, name: &str) -> Reading<String> {
    let bytes = value(what, name)?;
    Ok(String::from_utf8_lossy(&bytes)
        .trim_end_matches('\0')
        .to_owned())
}

fn parse_number(bytes: &[u8]) -> Option<u64> {
    if let Ok(four) = bytes.try_into() {
        return Some(u32::from_ne_bytes(four).into());
    }
    bytes.try_into().ok().map(u64::from_ne_bytes)
}

/// The bytes as the kernel gives them.
pub(super) fn value(what: &'static str, name: &str) -> Reading<Vec<u8>> {
    let unknown = |reason: String| NotExposed::new(what, reason);
    let c_name = CString::new(name).map_err(|error| unknown(format!("sysctl {name}: {error}")))?;
    read(&c_name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => unknown(format!("this macOS has no sysctl {name}")),
        _ => unknown(format!("sysctl {name}: {error}")),
    })
}

fn read(name: &CString) -> io::Result<Vec<u8>> {
    let mut len = 0;
    // SAFETY: without a buffer the call only writes the size needed into `len`; it sets nothing.
    let asked = unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            ptr::null_mut(),
            &raw mut len,
            ptr::null_mut(),
            0,
        )
    };
    nix::errno::Errno::result(asked)?;
    let mut bytes = vec![0; len];
    // SAFETY: the buffer has `len` bytes, and `len` says so; the kernel writes how many it filled.
    let filled = unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            bytes.as_mut_ptr().cast(),
            &raw mut len,
            ptr::null_mut(),
            0,
        )
    };
    nix::errno::Errno::result(filled)?;
    bytes.truncate(len);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_two_sizes() {
        assert_eq!(parse_number(&7u32.to_ne_bytes()), Some(7));
        assert_eq!(parse_number(&(7u64 << 40).to_ne_bytes()), Some(7 << 40));
        assert_eq!(parse_number(&[1, 2, 3]), None);
    }
}
