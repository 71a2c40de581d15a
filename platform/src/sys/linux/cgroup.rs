//! Limits set by control groups: CPU quotas and CPU sets, in both versions of the interface, and how often a quota
//! held a process back.
//!
//! A process is in one group per hierarchy. Its limits are those of that group *and of every group above it*,
//! so each question walks from the process's group up to the mount point of the hierarchy. Inside a container
//! the mount may show only a part of the hierarchy (field "root" of mountinfo), and what lies above that part
//! cannot be seen.
//!
//! Sources: cgroups(7), proc_pid_mountinfo(5), kernel documentation `admin-guide/cgroup-v2.rst` and
//! `scheduler/sched-bwc.rst`.

use std::io;
use std::time::Duration;

use super::files::{Files, absent};
use crate::cpu_set::CpuSet;
use crate::noise::Throttling;
use crate::{NotExposed, Reading};

const QUOTA: &str = "CPU quota";
const CPUSET: &str = "CPU set of the control group";
const THROTTLING: &str = "throttling by CPU quotas";
const MEMBERSHIP: &str = "/proc/self/cgroup";
const MOUNTS: &str = "/proc/self/mountinfo";

/// The tightest quota over all hierarchies and levels, in CPUs; `Ok(None)` when no level sets one.
pub(super) fn quota_cpus(files: &impl Files) -> Reading<Option<f64>> {
    let mut tightest = None;
    for place in places(files, QUOTA, "cpu")? {
        for directory in place.directories() {
            let quota = quota_at(files, place.version, &directory)?;
            tightest = [tightest, quota].into_iter().flatten().reduce(f64::min);
        }
    }
    Ok(tightest)
}

/// The CPUs of the nearest group that says which it has.
pub(super) fn cpuset(files: &impl Files) -> Reading<CpuSet> {
    for place in places(files, CPUSET, "cpuset")? {
        for directory in place.directories() {
            for name in place.version.cpuset_files() {
                let path = format!("{directory}/{name}");
                match files.read(&path) {
                    Ok(list) if !list.trim().is_empty() => return parse_cpuset(&path, &list),
                    Ok(_) => {}
                    Err(error) if is_unset(&error) => {}
                    Err(error) => return Err(absent(CPUSET, &path, &error)),
                }
            }
        }
    }
    Err(NotExposed::new(
        CPUSET,
        "no control group of this process has the cpuset controller",
    ))
}

fn parse_cpuset(path: &str, list: &str) -> Reading<CpuSet> {
    CpuSet::parse(list).map_err(|error| NotExposed::new(CPUSET, format!("{path}: {error}")))
}

/// How often the groups were held back, summed over all hierarchies and levels.
pub(super) fn throttling(files: &impl Files) -> Reading<Throttling> {
    let mut total = Throttling::default();
    let mut seen = false;
    for place in places(files, THROTTLING, "cpu")? {
        for directory in place.directories() {
            let path = format!("{directory}/cpu.stat");
            let stat = optional(files, THROTTLING, &path)?;
            // The file of a root group has no such lines: it cannot be held back.
            if let Some(level) = stat.and_then(|stat| place.version.throttling(&stat)) {
                total.throttled_periods = total
                    .throttled_periods
                    .saturating_add(level.throttled_periods);
                total.throttled = total.throttled.saturating_add(level.throttled);
                seen = true;
            }
        }
    }
    if seen {
        Ok(total)
    } else {
        Err(NotExposed::new(
            THROTTLING,
            "no control group of this process has the CPU controller",
        ))
    }
}

/// The directory of this process's group in the hierarchy of version 2, if that is not the root of all groups: the
/// root's files, where it has them, speak about the whole machine.
pub(super) fn version_2_group(files: &impl Files, what: &'static str) -> Reading<String> {
    let places = places(files, what, "cpu")?;
    let place = places.iter().find(|place| place.version == Version::Two);
    let place = place
        .ok_or_else(|| NotExposed::new(what, "no control groups of version 2 are mounted here"))?;
    let directory = format!("{}{}", place.mount_point, place.group);
    // The root alone has no type (Linux 4.14); that of a container looks like a root and has one.
    match files.read(&format!("{directory}/cgroup.type")) {
        Ok(_) => Ok(directory),
        Err(_) => Err(NotExposed::new(
            what,
            format!("{directory} is the root of all groups, or the kernel is older than 4.14"),
        )),
    }
}

fn quota_at(files: &impl Files, version: Version, directory: &str) -> Reading<Option<f64>> {
    match version {
        Version::One => {
            let quota = optional(files, QUOTA, &format!("{directory}/cpu.cfs_quota_us"))?;
            let period = optional(files, QUOTA, &format!("{directory}/cpu.cfs_period_us"))?;
            Ok(quota
                .zip(period)
                .and_then(|(quota, period)| cfs_quota(&quota, &period)))
        }
        Version::Two => Ok(optional(files, QUOTA, &format!("{directory}/cpu.max"))?
            .and_then(|text| cpu_max(&text))),
    }
}

/// A file that is missing where its controller is off, which means "no limit on this level".
fn optional(files: &impl Files, what: &'static str, path: &str) -> Reading<Option<String>> {
    match files.read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_unset(&error) => Ok(None),
        Err(error) => Err(absent(what, path, &error)),
    }
}

fn is_unset(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// `cpu.max`: "max 100000" or "150000 100000", in microseconds per period; the period may be left out.
fn cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let quota = words.next()?;
    cfs_quota(quota, words.next().unwrap_or("100000"))
}

/// A quota and its period in microseconds, as a number of CPUs; -1 and "max" mean no limit.
fn cfs_quota(quota: &str, period: &str) -> Option<f64> {
    let quota: f64 = quota.trim().parse().ok()?;
    let period: f64 = period.trim().parse().ok()?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// What a `cpu.stat` says about being held back: "nr_throttled 3" and the time, whose name and unit differ.
    fn throttling(self, stat: &str) -> Option<Throttling> {
        let number = |name: &str| {
            let value = stat
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value?.trim().parse().ok()
        };
        Some(Throttling {
            throttled_periods: number("nr_throttled")?,
            throttled: match self {
                Self::One => Duration::from_nanos(number("throttled_time")?),
                Self::Two => Duration::from_micros(number("throttled_usec")?),
            },
        })
    }

    fn cpuset_files(self) -> &'static [&'static str] {
        match self {
            // The second is all that kernels before 3.17 have, and may list CPUs that are offline.
            Self::One => &["cpuset.effective_cpus", "cpuset.cpus"],
            Self::Two => &["cpuset.cpus.effective"],
        }
    }
}

/// Where a process stands in one mounted hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    version: Version,
    /// Where the hierarchy is mounted.
    mount_point: String,
    /// The process's group below the mount point: "" or "/a/b".
    group: String,
}

impl Place {
    /// The directories from the process's group up to the mount point.
    fn directories(&self) -> impl Iterator<Item = String> {
        let levels = std::iter::successors(Some(self.group.as_str()), |group| {
            group.rfind('/').map(|slash| &group[..slash])
        });
        levels.map(|group| format!("{}{group}", self.mount_point))
    }
}

/// The hierarchies with this controller. Version 1 first: where both are mounted, a controller is bound there.
fn places(files: &impl Files, what: &'static str, controller: &str) -> Reading<Vec<Place>> {
    let membership = files.reading(what, MEMBERSHIP)?;
    let mounts = files.reading(what, MOUNTS)?;
    let places: Vec<Place> = [Version::One, Version::Two]
        .into_iter()
        .filter_map(|version| place(version, &membership, &mounts, controller))
        .collect();
    if places.is_empty() {
        return Err(NotExposed::new(
            what,
            format!("no control group hierarchy is mounted, says {MOUNTS}"),
        ));
    }
    Ok(places)
}

fn place(version: Version, membership: &str, mounts: &str, controller: &str) -> Option<Place> {
    let path = membership
        .lines()
        .find_map(|line| group_path(version, line, controller))?;
    let mount = mounts
        .lines()
        .filter_map(parse_mount)
        .find(|mount| mount.is_for(version, controller))?;
    Some(Place {
        version,
        mount_point: mount.mount_point,
        group: below(path, &mount.root).to_owned(),
    })
}

/// The path in a line of /proc/self/cgroup: "4:cpu,cpuacct:/docker/1" or, in version 2, "0::/user.slice".
fn group_path<'t>(version: Version, line: &'t str, controller: &str) -> Option<&'t str> {
    let (hierarchy, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let matches = match version {
        Version::One => controllers.split(',').any(|name| name == controller),
        Version::Two => hierarchy == "0" && controllers.is_empty(),
    };
    matches.then_some(path)
}

/// The part of a group's path that the mount shows. A path outside of the mounted part (a namespace entered
/// from elsewhere) is answered with the topmost group that can be seen.
fn below<'t>(path: &'t str, root: &str) -> &'t str {
    let rest = path.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
    let inside = (rest.is_empty() || rest.starts_with('/')) && !rest.contains("/..");
    if inside {
        rest.trim_end_matches('/')
    } else {
        ""
    }
}

/// One line of mountinfo, as far as it matters here.
struct Mount {
    root: String,
    mount_point: String,
    kind: String,
    super_options: String,
}

impl Mount {
    fn is_for(&self, version: Version, controller: &str) -> bool {
        match version {
            Version::One => {
                self.kind == "cgroup"
                    && self.super_options.split(',').any(|name| name == controller)
            }
            Version::Two => self.kind == "cgroup2",
        }
    }
}

/// "36 35 98:0 /root /mount/point rw,noatime optional:1 - type source super,options"
fn parse_mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let mut after = after.split(' ');
    Some(Mount {
        root: unescape(before.next()?),
        mount_point: unescape(before.next()?),
        kind: after.next()?.to_owned(),
        super_options: after.nth(1)?.to_owned(),
    })
}

/// Mountinfo writes space, tab, line break and backslash as octal numbers.
fn unescape(text: &str) -> String {
    let pairs = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    pairs.iter().fold(text.to_owned(), |text, (code, plain)| {
        text.replace(code, plain)
    })
}

#[cfg(test)]
mod tests {
    use super::super::files::ListedFiles;
    use super::*;

    const THIS_MACHINE: &str = include_str!("../../../tests/fixtures/small-vm/files.txt");
    const CONTAINER_V1: &str = include_str!("../../../tests/fixtures/container-v1/files.txt");
    const CONTAINER_V2: &str = include_str!("../../../tests/fixtures/container-v2/files.txt");
    const SERVER: &str = include_str!("../../../tests/fixtures/numa-server/files.txt");
    const LAPTOP: &str = include_str!("../../../tests/fixtures/hybrid-laptop/files.txt");
    const OLD_KERNEL: &str = include_str!("../../../tests/fixtures/without-psi/files.txt");

    fn quota(listing: &str) -> Reading<Option<f64>> {
        quota_cpus(&ListedFiles::parse(listing))
    }

    fn cpus(listing: &str) -> Reading<String> {
        cpuset(&ListedFiles::parse(listing)).map(|set| set.to_string())
    }

    #[test]
    fn version_1_quota_and_set_of_a_container() {
        assert_eq!(quota(CONTAINER_V1), Ok(Some(1.5)));
        assert_eq!(cpus(CONTAINER_V1).unwrap(), "0-3");
    }

    #[test]
    fn version_2_takes_the_tightest_level() {
        // The container itself may use 4 CPUs, its pod only 2.5.
        assert_eq!(quota(CONTAINER_V2), Ok(Some(2.5)));
        assert_eq!(cpus(CONTAINER_V2).unwrap(), "4-7,12-15");
    }

    #[test]
    fn throttling_is_summed_over_the_levels() {
        let of = |listing| throttling(&ListedFiles::parse(listing));
        let v1 = of(CONTAINER_V1).unwrap();
        assert_eq!(v1.throttled_periods, 4_711);
        assert_eq!(v1.throttled, Duration::from_nanos(812_345_678_901));
        let v2 = of(CONTAINER_V2).unwrap();
        assert_eq!(v2.throttled_periods, 320);
        assert_eq!(v2.throttled, Duration::from_secs(3));
        for listing in [SERVER, OLD_KERNEL, ""] {
            assert!(of(listing).is_err());
        }
    }

    #[test]
    fn a_root_group_cannot_be_held_back() {
        let root = "usage_usec 2509248730\nuser_usec 1057044076\n";
        assert_eq!(Version::Two.throttling(root), None);
        assert_eq!(Version::Two.throttling("nr_throttled 1\n"), None);
        let huge = format!("nr_throttled {0}\nthrottled_usec {0}\n", u64::MAX);
        assert!(Version::Two.throttling(&huge).is_some());
        assert_eq!(Version::One.throttling(&huge), None);
    }

    #[test]
    fn hosts_without_limits_say_so() {
        assert_eq!(quota(THIS_MACHINE), Ok(None));
        assert_eq!(quota(SERVER), Ok(None));
        assert_eq!(quota(LAPTOP), Ok(None));
        assert_eq!(cpus(SERVER).unwrap(), "0-15");
    }

    #[test]
    fn no_control_groups_is_a_reason() {
        assert!(
            quota(OLD_KERNEL)
                .unwrap_err()
                .reason
                .contains("no control group hierarchy is mounted")
        );
        assert!(quota("").unwrap_err().reason.contains(MEMBERSHIP));
    }

    #[test]
    fn quotas_are_read_in_both_notations() {
        assert_eq!(cpu_max("max 100000"), None);
        assert_eq!(cpu_max("50000 100000"), Some(0.5));
        assert_eq!(cpu_max("200000"), Some(2.0));
        assert_eq!(cpu_max(""), None);
        assert_eq!(cfs_quota("-1", "100000"), None);
        assert_eq!(cfs_quota("150000\n", "100000\n"), Some(1.5));
        assert_eq!(cfs_quota("150000", "0"), None);
    }

    #[test]
    fn a_group_is_found_below_the_part_that_is_mounted() {
        assert_eq!(below("/docker/1", "/docker/1"), "");
        assert_eq!(below("/docker/1/inner", "/docker/1"), "/inner");
        assert_eq!(below("/docker/10", "/docker/1"), "");
        assert_eq!(below("/user.slice/a", "/"), "/user.slice/a");
        assert_eq!(below("/", "/"), "");
        assert_eq!(below("/../sibling", "/"), "");
    }

    #[test]
    fn the_walk_goes_up_to_the_mount_point() {
        let place = Place {
            version: Version::Two,
            mount_point: "/cg".into(),
            group: "/a/b".into(),
        };
        assert_eq!(
            place.directories().collect::<Vec<_>>(),
            ["/cg/a/b", "/cg/a", "/cg"]
        );
    }

    #[test]
    fn mount_lines_with_optional_fields_and_spaces_are_read() {
        let line = r"36 35 0:30 / /sys/fs/my\040cgroup rw shared:9 master:2 - cgroup2 cgroup2 rw,nsdelegate";
        let mount = parse_mount(line).unwrap();
        assert_eq!(mount.mount_point, "/sys/fs/my cgroup");
        assert!(mount.is_for(Version::Two, "cpu"));
        assert!(parse_mount("nonsense").is_none());
    }
}
