//! The small text files Linux tells about itself in: those of this host, or in tests those a fixture lists.

use std::fs;
use std::io;

use crate::{NotExposed, Reading};

/// Where the files come from. Paths are absolute.
pub(super) trait Files {
    /// The text of a file, without the line break at its end.
    fn read(&self, path: &str) -> io::Result<String>;

    /// The names in a directory, sorted.
    fn names(&self, directory: &str) -> io::Result<Vec<String>>;

    /// The text of a file, or why there is none.
    fn reading(&self, what: &'static str, path: &str) -> Reading<String> {
        self.read(path).map_err(|error| absent(what, path, &error))
    }

    /// A file that holds one number (or anything else that can be parsed).
    fn number<T: std::str::FromStr>(&self, what: &'static str, path: &str) -> Reading<T> {
        let text = self.reading(what, path)?;
        text.trim()
            .parse()
            .map_err(|_| NotExposed::new(what, format!("{path} says \"{text}\"")))
    }
}

/// A file that cannot be read, as a reason.
pub(super) fn absent(what: &'static str, path: &str, error: &io::Error) -> NotExposed {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => format!("{path} does not exist here"),
        _ => format!("{path} cannot be read: {error}"),
    };
    NotExposed::new(what, reason)
}

/// The files of this host.
pub(super) struct HostFiles;

impl Files for HostFiles {
    fn read(&self, path: &str) -> io::Result<String> {
        // Not every file of /proc and /sys is UTF-8 by promise (a host name, a command), and one odd byte is
        // no reason to lose the rest.
        let bytes = fs::read(path)?;
        Ok(String::from_utf8_lossy(&bytes)
            .trim_end_matches('\n')
            .to_owned())
    }

    fn names(&self, directory: &str) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(directory)?;
        let mut names: Vec<String> = entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<_>>()?;
        names.sort_unstable();
        Ok(names)
    }
}

/// Files listed in a text, as `grep -r '' <paths>` prints them: `path:line` for every line of every file.
#[cfg(test)]
pub(super) struct ListedFiles(std::collections::BTreeMap<String, String>);

#[cfg(test)]
impl ListedFiles {
    /// Reads a listing; lines that start with `#` are remarks. A line with nothing after the colon is an
    /// empty file (or an empty line).
    pub(super) fn parse(listing: &str) -> Self {
        let mut files = std::collections::BTreeMap::<String, String>::new();
        for line in listing
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
        {
            let (path, text) = line.split_once(':').expect("a fixture line is path:text");
            files
                .entry(path.to_owned())
                .and_modify(|file| {
                    file.push('\n');
                    file.push_str(text);
                })
                .or_insert_with(|| text.to_owned());
        }
        Self(files)
    }

    /// The same files with other texts; those for which `change` gives none are missing.
    pub(super) fn changed(&self, mut change: impl FnMut(&str) -> Option<String>) -> Self {
        let files = self.0.iter();
        let files = files.filter_map(|(path, text)| Some((path.clone(), change(text)?)));
        Self(files.collect())
    }
}

#[cfg(test)]
impl Files for ListedFiles {
    fn read(&self, path: &str) -> io::Result<String> {
        self.0
            .get(path)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn names(&self, directory: &str) -> io::Result<Vec<String>> {
        let below = self
            .0
            .keys()
            .filter_map(|path| path.strip_prefix(directory)?.strip_prefix('/'));
        let mut names: Vec<String> = below
            .map(|rest| rest.split('/').next().unwrap_or(rest).to_owned())
            .collect();
        names.dedup();
        if names.is_empty() {
            Err(io::ErrorKind::NotFound.into())
        } else {
            Ok(names)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_acts_like_a_tree_of_files() {
        let files = ListedFiles::parse(
            "# a remark\n/proc/stat:cpu 1 2\n/proc/stat:cpu0 3\n/proc/7/task/8/status:x:y\n",
        );
        assert_eq!(files.read("/proc/stat").unwrap(), "cpu 1 2\ncpu0 3");
        assert_eq!(files.read("/proc/7/task/8/status").unwrap(), "x:y");
        assert_eq!(files.names("/proc").unwrap(), ["7", "stat"]);
        assert_eq!(files.names("/proc/7/task").unwrap(), ["8"]);
        assert!(files.names("/sys").is_err());
    }

    #[test]
    fn the_reason_tells_a_missing_file_from_an_odd_one() {
        let files = ListedFiles::parse("/proc/sys/x:many\n");
        let missing = files.number::<u32>("y", "/proc/sys/y").unwrap_err();
        assert_eq!(missing.reason, "/proc/sys/y does not exist here");
        let odd = files.number::<u32>("x", "/proc/sys/x").unwrap_err();
        assert_eq!(odd.reason, "/proc/sys/x says \"many\"");
    }
}
