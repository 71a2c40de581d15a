//! The folder of a run: `plan.json`, the journal, `run.json`, `report.txt` and the logs of what failed.
//!
//! The journal `samples.jsonl` gets a line per repetition and is flushed to the disk before the next one begins, so that a crash
//! loses at most the repetition it hit. The other files are replaced in one step. Nothing is ever deleted.

use crate::exit::Refusal;
use crate::repetition::Repetition;
use anyhow::Context;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Where runs go if no folder is named.
pub(crate) const ROOT: &str = "target/bench";

/// A run's folder, open.
#[derive(Debug)]
pub(crate) struct Archive {
    folder: PathBuf,
    journal: File,
}

impl Archive {
    /// Makes the folder `out`, or one named `name` under [`ROOT`], and points `latest` there. Refused where it cannot be written,
    /// or where a run lies already.
    pub(crate) fn create(out: Option<&Path>, name: &str) -> Result<Self, Refusal> {
        match out {
            Some(folder) => Archive::open(folder).map_err(|error| refused(folder, &error)),
            None => {
                let root = Path::new(ROOT);
                let archive = Archive::unused(root, name).map_err(|error| refused(root, &error))?;
                point_latest(root, &archive.folder);
                Ok(archive)
            }
        }
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a repetition to the journal and sees it on the disk; keeps the log if it failed.
    pub(crate) fn append(&mut self, repetition: &Repetition) -> anyhow::Result<()> {
        let mut line =
            serde_json::to_vec(repetition).context("a repetition could not be written as JSON")?;
        line.push(b'\n');
        let written = self
            .journal
            .write_all(&line)
            .and_then(|()| self.journal.sync_data());
        written.with_context(|| {
            format!(
                "the journal in {} could not be written",
                self.folder.display()
            )
        })?;
        if repetition.outcome.failure.is_some() {
            self.write(&log_path(repetition), &repetition.outcome.evidence)?;
        }
        Ok(())
    }

    /// Writes a file whole or not at all.
    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        write_atomically(&self.folder.join(name), text)
    }

    fn unused(root: &Path, name: &str) -> std::io::Result<Self> {
        let names =
            std::iter::once(name.to_owned()).chain((2..100).map(|count| format!("{name}-{count}")));
        for name in names {
            match Archive::open(&root.join(name)) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                other => return other,
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    fn open(folder: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder.join("logs"))?;
        let journal = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(folder.join("samples.jsonl"))?;
        Ok(Archive {
            folder: folder.to_owned(),
            journal,
        })
    }
}

/// Path of a failed repetition's log within the folder.
pub(crate) fn log_path(repetition: &Repetition) -> String {
    format!("logs/{}.log", repetition.file_stem())
}

/// Writes beside the file, flushes, and renames.
pub(crate) fn write_atomically(file: &Path, text: &str) -> anyhow::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".part");
    let write = || -> std::io::Result<()> {
        let mut part = File::create(&beside)?;
        part.write_all(text.as_bytes())?;
        part.sync_data()?;
        std::fs::rename(&beside, file)
    };
    write().with_context(|| format!("{} could not be written", file.display()))
}

/// Tells before anything runs whether a file can be written; leaves an empty one if there was none.
pub(crate) fn check_writable(file: &Path) -> Result<(), Refusal> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .map(drop)
        .map_err(|error| refused(file, &error))
}

fn refused(path: &Path, error: &std::io::Error) -> Refusal {
    let path = path.display();
    if error.kind() == ErrorKind::AlreadyExists {
        return Refusal::surroundings(
            "E-OUT",
            format!("{path} already holds a run; it would be mixed with this one."),
            "choose another --out.",
        );
    }
    Refusal::surroundings(
        "E-OUT",
        format!("{path} cannot be written ({error}); the results would be lost."),
        "choose a writable place with --out.",
    )
}

/// `latest` is a convenience: where the system has no symbolic links, or refuses one, the run goes on without it.
fn point_latest(root: &Path, folder: &Path) {
    let (Some(name), link) = (folder.file_name(), root.join("latest")) else {
        return;
    };
    let beside = root.join(format!("latest.{}", std::process::id()));
    if std::os::unix::fs::symlink(name, &beside).is_ok() && std::fs::rename(&beside, link).is_err()
    {
        let _ = std::fs::remove_file(&beside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repetition::{Failure, Outcome, Pass};

    fn repetition(failure: Option<Failure>) -> Repetition {
        let outcome = Outcome {
            failure,
            evidence: "what they said".to_owned(),
            ..Outcome::default()
        };
        Repetition {
            cell: "tcp.pool2".to_owned(),
            pass: Pass::Timed,
            round: 3,
            position: 1,
            started_ns: 5,
            wall_ns: 6,
            outcome,
        }
    }

    #[test]
    fn the_journal_has_a_line_per_repetition_and_logs_of_failures() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("run");
        let mut archive = Archive::create(Some(&folder), "unused").unwrap();
        archive.append(&repetition(None)).unwrap();
        archive
            .append(&repetition(Some(Failure::new("E-X", "bad luck"))))
            .unwrap();
        let lines = std::fs::read_to_string(folder.join("samples.jsonl")).unwrap();
        let read: Vec<Repetition> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            read.iter().map(Repetition::ok).collect::<Vec<_>>(),
            [true, false]
        );
        let logs: Vec<_> = std::fs::read_dir(folder.join("logs"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(logs, ["tcp.pool2-r3.log"]);
    }

    #[test]
    fn a_folder_holds_one_run() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("run");
        Archive::create(Some(&folder), "unused").unwrap();
        let refusal = Archive::create(Some(&folder), "unused").unwrap_err();
        assert_eq!((refusal.id, refusal.exit.code()), ("E-OUT", 4));
        let (first, second) = (
            Archive::unused(root.path(), "a").unwrap(),
            Archive::unused(root.path(), "a").unwrap(),
        );
        assert_eq!(
            (
                first.folder().ends_with("a"),
                second.folder().ends_with("a-2")
            ),
            (true, true)
        );
    }

    #[test]
    fn a_place_that_cannot_be_written_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        let refusal = Archive::create(Some(&file.join("run")), "unused").unwrap_err();
        assert_eq!(refusal.exit.code(), 4);
        assert!(
            refusal.what.contains("cannot be written"),
            "{}",
            refusal.what
        );
        assert_eq!(
            check_writable(&file.join("run.json"))
                .unwrap_err()
                .exit
                .code(),
            4
        );
        check_writable(&root.path().join("run.json")).unwrap();
    }

    #[test]
    fn a_file_is_replaced_whole_and_latest_follows() {
        let root = tempfile::tempdir().unwrap();
        let archive = Archive::unused(root.path(), "a").unwrap();
        archive.write("run.json", "one").unwrap();
        archive.write("run.json", "two").unwrap();
        point_latest(root.path(), archive.folder());
        point_latest(
            root.path(),
            Archive::unused(root.path(), "b").unwrap().folder(),
        );
        point_latest(root.path(), archive.folder());
        assert_eq!(
            std::fs::read_to_string(root.path().join("latest/run.json")).unwrap(),
            "two"
        );
        assert!(!archive.folder().join("run.json.part").exists());
    }
}
