//! Programs of others: where they are, and which are missing.

use super::ledger::Missing;
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is said of a tool that is not there.
const INSTALL: &str = "ci/conformance/install gets it";

/// Where programs are looked for.
pub(crate) struct Tools {
    /// What `ci/conformance/install` fills.
    folder: PathBuf,
}

impl Tools {
    pub(crate) fn find(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// A program of the system.
    ///
    /// # Errors
    /// It is not installed.
    pub(crate) fn system(&self, name: &str) -> Result<PathBuf> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&folders)
            .map(|folder| folder.join(name))
            .find(|program| program.is_file());
        found.ok_or_else(|| not_installed(name))
    }

    /// A program of the Python environment.
    ///
    /// # Errors
    /// It is not installed.
    pub(crate) fn python(&self, name: &str) -> Result<PathBuf> {
        self.installed(&format!("python/bin/{name}"), name)
    }

    /// The Python that has `module`.
    ///
    /// # Errors
    /// It is not installed.
    pub(crate) fn python_with(&self, module: &str) -> Result<PathBuf> {
        let python = self.python("python")?;
        let has_it = Command::new(&python)
            .args(["-c", &format!("import {module}")])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if has_it {
            return Ok(python);
        }
        Err(not_installed(&format!("Python's {module}")))
    }

    /// Any Python 3 with its standard library.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn plain_python(&self) -> Result<PathBuf> {
        self.python("python").or_else(|_| self.system("python3"))
    }

    /// Autobahn's own suite, which needs a Python 2.7.
    ///
    /// # Errors
    /// It is not installed.
    pub(crate) fn wstest(&self) -> Result<PathBuf> {
        let program = self.folder.join("wstest/bin/wstest");
        if program.is_file() {
            return Ok(program);
        }
        // Written where no Python 2.7 was found.
        match fs::read_to_string(self.folder.join("wstest.absent")) {
            Ok(reason) => Err(Missing {
                reason: reason.trim().to_owned(),
                excused: true,
            }
            .into()),
            Err(_) => Err(not_installed("Autobahn's wstest")),
        }
    }

    /// Node, and the folder of its packages.
    ///
    /// # Errors
    /// It or the package `ws` is not installed.
    pub(crate) fn node_with_ws(&self) -> Result<(PathBuf, PathBuf)> {
        let modules = self.folder.join("node/node_modules");
        self.installed("node/node_modules/ws/package.json", "npm's ws")?;
        Ok((self.system("node")?, modules))
    }

    /// gunicorn's requests.
    ///
    /// # Errors
    /// They were not downloaded.
    pub(crate) fn gunicorn(&self) -> Result<PathBuf> {
        self.installed("gunicorn/tests/requests/invalid", "gunicorn's source")?;
        Ok(self.folder.join("gunicorn/tests/requests"))
    }

    /// A browser.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn chromium(&self) -> Result<PathBuf> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let found = names.into_iter().find_map(|name| self.system(name).ok());
        found.ok_or_else(|| not_installed("chromium"))
    }

    fn installed(&self, path: &str, name: &str) -> Result<PathBuf> {
        let program = self.folder.join(path);
        if program.exists() {
            return Ok(program);
        }
        Err(not_installed(name))
    }
}

fn not_installed(name: &str) -> anyhow::Error {
    Missing {
        reason: format!("{name} is not installed ({INSTALL})"),
        excused: false,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_says_how_to_get_it() {
        let tools = Tools::find(Path::new("nowhere"));
        assert!(tools.system("sh").is_ok());
        for missing in [
            tools.system("no-such-program-here"),
            tools.python("kosoku"),
            tools.wstest(),
            tools.gunicorn(),
        ] {
            let error = missing.unwrap_err();
            let reason = error.downcast::<Missing>().unwrap().to_string();
            assert!(reason.contains("ci/conformance/install"), "{reason}");
        }
    }
}
