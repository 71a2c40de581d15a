//! A set of logical CPU numbers, in the notation the kernel uses for lists ("0-3,8").

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// The largest CPU number a list may name. Linux is built for at most 8,192 CPUs; the bound keeps a mistyped
/// range from filling memory.
pub const MAX_CPU: usize = 65_535;

/// Logical CPU numbers, sorted and without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuSet(Vec<usize>);

impl CpuSet {
    /// Reads the kernel's list format: comma-separated numbers and inclusive ranges, a range optionally with a
    /// stride ("0-31:2/4": of every four CPUs the first two). Empty text is the empty set.
    ///
    /// Source: cpuset(7), "List format"; Linux `bitmap_parselist`.
    ///
    /// # Errors
    /// [`BadCpuList`] for anything else, a range that runs backwards, or a number above [`MAX_CPU`].
    pub fn parse(list: &str) -> Result<Self, BadCpuList> {
        let mut cpus = Vec::new();
        for part in list
            .trim()
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            parse_part(part, &mut cpus).ok_or_else(|| BadCpuList {
                part: part.to_owned(),
            })?;
        }
        Ok(cpus.into_iter().collect())
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// How many CPUs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `cpu` is one of them.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// The lowest CPU number.
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        self.0.first().copied()
    }

    /// The CPUs that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.iter().filter(|&cpu| other.contains(cpu)).collect())
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut cpus: Vec<usize> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self(cpus)
    }
}

impl FromStr for CpuSet {
    type Err = BadCpuList;

    fn from_str(list: &str) -> Result<Self, BadCpuList> {
        Self::parse(list)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|before, after| before + 1 == *after);
        for (index, run) in runs.enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match run {
                [only] => write!(f, "{comma}{only}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

/// Text that is not a list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCpuList {
    /// The part between commas that could not be read.
    pub part: String,
}

impl fmt::Display for BadCpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not a CPU number or a range up to {MAX_CPU}, so the list cannot be used; write it like 0-3,8",
            self.part
        )
    }
}

impl Error for BadCpuList {}

fn parse_part(part: &str, cpus: &mut Vec<usize>) -> Option<()> {
    let (range, stride) = match part.split_once(':') {
        Some((range, stride)) => (range, Some(stride)),
        None => (part, None),
    };
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(range)?, number(range)?),
    };
    let (used, of) = match stride {
        Some(stride) => stride
            .split_once('/')
            .and_then(|(used, of)| Some((number(used)?, number(of)?)))?,
        None => (1, 1),
    };
    if first > last || of == 0 || used > of {
        return None;
    }
    cpus.extend((first..=last).filter(|cpu| (cpu - first) % of < used));
    Some(())
}

fn number(text: &str) -> Option<usize> {
    text.parse().ok().filter(|&number| number <= MAX_CPU)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(list: &str) -> Vec<usize> {
        CpuSet::parse(list).unwrap().iter().collect()
    }

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(parsed("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parsed("5"), [5]);
        assert_eq!(parsed(""), []);
        assert_eq!(parsed("\n"), []);
        assert_eq!(parsed("4,2,2-4"), [2, 3, 4]);
        assert_eq!(parsed("0-7:2/4"), [0, 1, 4, 5]);
    }

    #[test]
    fn anything_else_is_refused_with_the_part_that_is_wrong() {
        for list in [
            "x",
            "1-",
            "-1",
            "3-1",
            "0-3:1",
            "0-3:1/0",
            "0-3:3/2",
            "0-99999999999",
            "65536",
        ] {
            assert_eq!(CpuSet::parse(list).unwrap_err().part, list);
        }
        assert_eq!(CpuSet::parse("0,zwei,3").unwrap_err().part, "zwei");
    }

    #[test]
    fn what_is_printed_can_be_read_back() {
        for list in ["", "0", "0-1", "0-3,8", "1,3,5-7"] {
            assert_eq!(CpuSet::parse(list).unwrap().to_string(), list);
        }
    }

    #[test]
    fn intersection_keeps_what_both_have() {
        let set = CpuSet::parse("0-3,8")
            .unwrap()
            .intersection(&CpuSet::parse("2-9").unwrap());
        assert_eq!(set.to_string(), "2-3,8");
        assert_eq!(set.len(), 3);
        assert_eq!(set.first(), Some(2));
        assert!(set.contains(8) && !set.contains(9));
    }
}
