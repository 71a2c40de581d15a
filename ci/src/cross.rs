//! Compiling for a target that is not this machine's: through the tool that the environment names, or with an installed target.

use crate::check::Work;
use crate::command::CommandLine;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names an executable that compiles the workspace for `TARGET`: `$CROSS_CHECK check|clippy ARGUMENTS…`.
pub(crate) const TOOL_VARIABLE: &str = "CROSS_CHECK";

/// How this machine compiles for other targets.
pub(crate) struct Cross {
    /// Value of [`TOOL_VARIABLE`].
    pub(crate) tool: Option<PathBuf>,
    /// `rustc --print sysroot`.
    pub(crate) sysroot: PathBuf,
}

impl Cross {
    /// Asks the environment and rustc.
    pub(crate) fn of_this_machine() -> Result<Self> {
        let output = Command::new("rustc")
            .args(["--print", "sysroot"])
            .output()
            .context("cannot start rustc")?;
        let sysroot = String::from_utf8(output.stdout).context("rustc's sysroot is not UTF-8")?;
        let tool = std::env::var_os(TOOL_VARIABLE)
            .filter(|tool| !tool.is_empty())
            .map(PathBuf::from);
        Ok(Self {
            tool,
            sysroot: PathBuf::from(sysroot.trim()),
        })
    }

    /// `verb` is `check` or `clippy`; either way a warning of clippy is an error.
    pub(crate) fn work(&self, target: &str, verb: &str, arguments: &str) -> Result<Work> {
        if let Some(tool) = &self.tool {
            if !tool.is_file() {
                bail!("{TOOL_VARIABLE} names {}, which is no file", tool.display());
            }
            let command =
                CommandLine::new(&format!("{verb} {arguments}")).program(&tool.to_string_lossy());
            return Ok(Work::Commands(vec![command.with("TARGET", target)]));
        }
        if !self.has_target(target) {
            let reason = format!(
                "not checked: {TOOL_VARIABLE} is not set, and the target {target} is not installed"
            );
            return Ok(Work::Skip(reason));
        }
        let denied = if verb == "clippy" {
            " -- -D warnings"
        } else {
            ""
        };
        Ok(Work::Commands(vec![CommandLine::new(&format!(
            "cargo {verb} --target {target} {arguments}{denied}"
        ))]))
    }

    fn has_target(&self, target: &str) -> bool {
        self.sysroot
            .join(Path::new("lib/rustlib"))
            .join(target)
            .join("lib")
            .is_dir()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: &str = "wasm32-unknown-unknown";

    fn work(tool: Option<&str>, sysroot: &Path, verb: &str) -> Result<Work> {
        let cross = Cross {
            tool: tool.map(PathBuf::from),
            sysroot: sysroot.to_owned(),
        };
        cross.work(TARGET, verb, "-p x --locked")
    }

    fn lines(work: Work) -> Vec<String> {
        match work {
            Work::Commands(commands) => commands.iter().map(CommandLine::to_string).collect(),
            other => panic!("{other:?} is no command"),
        }
    }

    #[test]
    fn the_tool_comes_first() {
        let tool = std::env::current_exe().unwrap();
        let tool = tool.to_str().unwrap();
        let found = lines(work(Some(tool), Path::new("none"), "check").unwrap());
        assert_eq!(
            found,
            [format!("TARGET={TARGET} {tool} check -p x --locked")]
        );
        let error = work(Some("no/such/tool"), Path::new("none"), "check")
            .unwrap_err()
            .to_string();
        assert_eq!(error, "CROSS_CHECK names no/such/tool, which is no file");
    }

    #[test]
    fn an_installed_target_will_do() {
        let sysroot = std::env::temp_dir().join(format!("ci-cross-{}", std::process::id()));
        std::fs::create_dir_all(sysroot.join("lib/rustlib").join(TARGET).join("lib")).unwrap();
        let check = lines(work(None, &sysroot, "check").unwrap());
        let clippy = lines(work(None, &sysroot, "clippy").unwrap());
        std::fs::remove_dir_all(&sysroot).unwrap();
        assert_eq!(
            check,
            [format!("cargo check --target {TARGET} -p x --locked")]
        );
        assert_eq!(
            clippy,
            [format!(
                "cargo clippy --target {TARGET} -p x --locked -- -D warnings"
            )]
        );
    }

    #[test]
    fn without_either_it_says_so() {
        let Work::Skip(reason) = work(None, Path::new("none"), "check").unwrap() else {
            panic!("not skipped")
        };
        assert_eq!(
            reason,
            format!(
                "not checked: CROSS_CHECK is not set, and the target {TARGET} is not installed"
            )
        );
    }
}
