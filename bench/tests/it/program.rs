//! Starts the built program in a folder of its own.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The program with these arguments, in this folder.
pub(crate) fn bench(folder: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command
        .args(args.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn run(folder: &Path, args: &str) -> Output {
    bench(folder, args)
        .output()
        .expect("the program was built for this test")
}

/// Starts it and leaves it running.
pub(crate) fn start(folder: &Path, args: &str) -> Child {
    let mut command = bench(folder, args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
        .spawn()
        .expect("the program was built for this test")
}

/// Exit code and standard error.
pub(crate) fn ended(output: &Output) -> (Option<i32>, String) {
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Process ids of the children of a process that were started with this subcommand, as `ps` tells.
pub(crate) fn children_of(parent: u32, subcommand: &str) -> Vec<i32> {
    let output = Command::new("ps")
        .args(["-A", "-o", "pid=,ppid=,args="])
        .output()
        .expect("ps is part of POSIX");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let child = |line: &str| {
        let mut fields = line.split_whitespace();
        let (pid, ppid) = (
            fields.next()?.parse().ok()?,
            fields.next()?.parse::<u32>().ok()?,
        );
        (ppid == parent && fields.nth(1) == Some(subcommand)).then_some(pid)
    };
    text.lines().filter_map(child).collect()
}

/// Each of these command lines is refused with exit code 2 and an error that contains the given part, and prints nothing else.
pub(crate) fn assert_wrong_usage(folder: &Path, cases: &[(&str, &str)]) {
    for (args, part) in cases {
        let output = run(folder, args);
        let (code, stderr) = ended(&output);
        assert_eq!(code, Some(2), "{args}: {stderr}");
        assert!(stderr.contains(part), "{args}: {stderr}");
        assert!(output.stdout.is_empty(), "{args}");
    }
}

/// Asks again and again until there is an answer, for at most a minute: the machine may be busy.
pub(crate) fn eventually<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(
            Instant::now() < deadline,
            "it did not happen within a minute"
        );
        // tidy: sleep because the other process has no way to tell this one.
        std::thread::sleep(Duration::from_millis(5));
    }
}
