//! The commands README.md promises, so that what it says and what the gate runs cannot differ.

use crate::command::CommandLine;
use anyhow::{Context, Result, bail};

/// The commands of the fenced block behind the comment `<!-- ci: NAME -->`, one a line.
pub(crate) fn commands(readme: &str, name: &str) -> Result<Vec<CommandLine>> {
    let mark = format!("<!-- ci: {name} -->");
    let mut places = readme
        .lines()
        .enumerate()
        .filter(|(_, line)| line.trim() == mark);
    let (at, _) = places
        .next()
        .with_context(|| format!("README.md has no block marked `{mark}`"))?;
    if places.next().is_some() {
        bail!("README.md has more than one block marked `{mark}`");
    }
    let mut lines = readme
        .lines()
        .skip(at + 1)
        .skip_while(|line| line.trim().is_empty());
    if !lines.next().is_some_and(|line| line.starts_with("```")) {
        bail!("README.md: no fenced block follows `{mark}`");
    }
    let mut commands = Vec::new();
    for line in lines
        .map(str::trim)
        .take_while(|line| !line.starts_with("```"))
        .filter(|line| !line.is_empty())
    {
        if line.contains(|c: char| "'\"$&|;<>*?\\#`".contains(c)) {
            bail!("README.md: `{line}` needs a shell; write it as plain words");
        }
        commands.push(CommandLine::new(line));
    }
    if commands.is_empty() {
        bail!("README.md: the block marked `{mark}` is empty");
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(readme: &str) -> Result<Vec<String>, String> {
        let commands = commands(readme, "test").map_err(|error| error.to_string())?;
        Ok(commands.iter().map(CommandLine::to_string).collect())
    }

    #[test]
    fn the_marked_block_is_run() {
        let readme = "# x\n```sh\nno\n```\n<!-- ci: test -->\n\n```sh\ncargo test\n\ncargo doc\n```\n```sh\nno\n```\n";
        assert_eq!(lines(readme).unwrap(), ["cargo test", "cargo doc"]);
    }

    #[test]
    fn what_cannot_be_run_is_said() {
        for (readme, error) in [
            (
                "```sh\ncargo test\n```",
                "README.md has no block marked `<!-- ci: test -->`",
            ),
            (
                "<!-- ci: test -->\ncargo test\n",
                "README.md: no fenced block follows `<!-- ci: test -->`",
            ),
            (
                "<!-- ci: test -->\n```\n```\n",
                "README.md: the block marked `<!-- ci: test -->` is empty",
            ),
            (
                "<!-- ci: test -->\n```\na && b\n```\n",
                "README.md: `a && b` needs a shell; write it as plain words",
            ),
            (
                "<!-- ci: test -->\n```\na\n```\n<!-- ci: test -->\n",
                "README.md has more than one block marked `<!-- ci: test -->`",
            ),
        ] {
            assert_eq!(lines(readme).unwrap_err(), error);
        }
    }
}
