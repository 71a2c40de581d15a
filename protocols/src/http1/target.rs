//! What a request is for (RFC 9112 section 3.2), and the host it is for (section 3.2.2, RFC 3986 section 3.2).
//!
//! Any visible ASCII character is taken in a target but `#`: a fragment is never sent, and two readers may cut it off differently.
//! Nothing is decoded and no path is normalised.

use super::fault::Http1Error;

/// A request target in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'m> {
    /// As it was sent.
    pub raw: &'m str,
    /// From the first slash to the query; `*` for a request to the server as a whole.
    pub path: &'m str,
    /// Behind the question mark.
    pub query: Option<&'m str>,
    /// Host and port, if the target is a whole URI; it then counts instead of the header.
    pub authority: Option<&'m str>,
}

impl<'m> Target<'m> {
    /// Takes a target apart.
    pub(super) fn parse(method: &str, raw: &'m str) -> Result<Self, Http1Error> {
        if !raw
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#')
        {
            return Err(Http1Error::InvalidTarget);
        }
        match raw.as_bytes() {
            [b'/', ..] => Ok(Self::with_path(raw, raw, None)),
            b"*" if method == "OPTIONS" => Ok(Self::with_path(raw, raw, None)),
            _ => Self::absolute(method, raw),
        }
    }

    fn absolute(method: &str, raw: &'m str) -> Result<Self, Http1Error> {
        let rest = ["http://", "https://"]
            .iter()
            .find_map(|scheme| {
                let (front, rest) = raw.split_at_checked(scheme.len())?;
                front.eq_ignore_ascii_case(scheme).then_some(rest)
            })
            .ok_or(Http1Error::InvalidTarget)?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        // A host must be named (RFC 9110 section 4.2.1); credentials in a target are refused with it (section 4.2.4).
        if !is_host(authority.as_bytes()) || authority.is_empty() || authority.starts_with(':') {
            return Err(Http1Error::InvalidTarget);
        }
        let mut target = Self::with_path(raw, rest, Some(authority));
        if target.path.is_empty() {
            // RFC 9112 section 3.2.4: OPTIONS of a URI without path and query is for the server as a whole.
            let whole = method == "OPTIONS" && target.query.is_none();
            target.path = if whole { "*" } else { "/" };
        }
        Ok(target)
    }

    fn with_path(raw: &'m str, rest: &'m str, authority: Option<&'m str>) -> Self {
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (rest, None),
        };
        Self {
            raw,
            path,
            query,
            authority,
        }
    }
}

/// Whether `host` is a host with an optional port, or empty: an address in brackets, or a name as RFC 3986 section 3.2.2 spells it.
pub(super) fn is_host(host: &[u8]) -> bool {
    let (name, port) = match host {
        [b'[', rest @ ..] => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else {
                return false;
            };
            if !is_address(&rest[..end]) {
                return false;
            }
            (&[][..], &rest[end + 1..])
        }
        _ => {
            let end = host.iter().position(|byte| *byte == b':');
            host.split_at(end.unwrap_or(host.len()))
        }
    };
    is_name(name) && is_port(port)
}

fn is_port(port: &[u8]) -> bool {
    match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn is_name(mut name: &[u8]) -> bool {
    loop {
        name = match name {
            [] => return true,
            [b'%', a, b, rest @ ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => rest,
            [byte, rest @ ..] if is_name_byte(*byte) => rest,
            _ => return false,
        };
    }
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
        )
}

/// An address of IPv6; the future ones of RFC 3986 are refused, as nobody can reach them.
fn is_address(address: &[u8]) -> bool {
    std::str::from_utf8(address).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::{Http1Error, Target, is_host};

    #[test]
    fn hosts() {
        let good: [&[u8]; 11] = [
            b"",
            b"a",
            b"example.com",
            b"example.com:",
            b"example.com:80",
            b"127.0.0.1:65535",
            b"[::1]",
            b"[2001:db8::1]:443",
            b"0.0.0.0=5000",
            b"a%20b",
            b"_dmarc.example",
        ];
        for host in good {
            assert!(is_host(host), "{}", host.escape_ascii());
        }
        let bad: [&[u8]; 15] = [
            b"a b",
            b"a:b",
            b"a:80:80",
            b"a:+80",
            b"a:123456",
            b"user@a",
            b"a/b",
            b"a?b",
            b"a#b",
            b"[::1",
            b"[::1]x",
            b"[x]",
            b"a%2",
            b"a,b\x7f",
            b"caf\xc3\xa9",
        ];
        for host in bad {
            assert!(!is_host(host), "{}", host.escape_ascii());
        }
    }

    #[test]
    fn targets() {
        let parts = |method, raw| {
            Target::parse(method, raw).map(|target| (target.path, target.query, target.authority))
        };
        let bad = Err(Http1Error::InvalidTarget);
        #[rustfmt::skip]
        let table = [
            ("GET", "/", Ok(("/", None, None))),
            ("GET", "/a/b?c?d", Ok(("/a/b", Some("c?d"), None))),
            ("GET", "//a", Ok(("//a", None, None))),
            ("OPTIONS", "*", Ok(("*", None, None))),
            ("GET", "*", bad),
            ("GET", "a/b", bad),
            ("GET", "", bad),
            ("GET", "/a#b", bad),
            ("GET", "/caf\u{e9}", bad),
            ("GET", "http://h", Ok(("/", None, Some("h")))),
            ("GET", "HTTP://h:1/a?b", Ok(("/a", Some("b"), Some("h:1")))),
            ("GET", "https://[::1]?b", Ok(("/", Some("b"), Some("[::1]")))),
            ("OPTIONS", "http://h", Ok(("*", None, Some("h")))),
            ("OPTIONS", "http://h/", Ok(("/", None, Some("h")))),
            ("GET", "http:///a", bad),
            ("GET", "http://:80/a", bad),
            ("GET", "http://u:p@h/", bad),
            ("GET", "ftp://h/", bad),
            ("GET", "h:80", bad),
            ("GET", "http:/h", bad),
        ];
        for (method, raw, expected) in table {
            assert_eq!(parts(method, raw), expected, "{method} {raw}");
        }
    }
}
