//! What load generators of others print at their end, as findings.

/// `wrk`: it tells of errors only if there were any.
pub(crate) fn wrk(text: &str) -> (u64, Vec<String>) {
    let mut findings: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("Socket errors:") || line.starts_with("Non-2xx"))
        .map(str::to_owned)
        .collect();
    let requests = text.lines().find_map(|line| {
        let (count, rest) = line.trim().split_once(' ')?;
        rest.starts_with("requests in")
            .then_some(count)?
            .parse()
            .ok()
    });
    let requests = requests.unwrap_or(0);
    if requests == 0 {
        findings.push("no request was answered".to_owned());
    }
    (requests, findings)
}

/// `h2load`: of `asked` requests every one must have succeeded, with a status 2xx.
pub(crate) fn h2load(text: &str, asked: u64) -> Vec<String> {
    let mut findings = Vec::new();
    for (line, expected) in [
        (
            "requests: ",
            format!(
                "{asked} total, {asked} started, {asked} done, {asked} succeeded, 0 failed, 0 errored, 0 timeout"
            ),
        ),
        (
            "status codes: ",
            format!("{asked} 2xx, 0 3xx, 0 4xx, 0 5xx"),
        ),
    ] {
        let found = text.lines().find_map(|text| text.strip_prefix(line));
        if found.map(str::trim) != Some(&*expected) {
            findings.push(format!("{line}{}", found.unwrap_or("none")));
        }
    }
    findings
}

/// `ab`: of `asked` requests every one must be complete; with `keep_alive` each over a connection that stays.
pub(crate) fn ab(text: &str, asked: u64, keep_alive: bool) -> Vec<String> {
    let number = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    let mut expected = vec![
        ("Complete requests:", Some(asked)),
        ("Failed requests:", Some(0)),
        // Only there if it is not 0.
        ("Non-2xx responses:", None),
        ("Write errors:", None),
    ];
    if keep_alive {
        expected.push(("Keep-Alive requests:", Some(asked)));
    }
    expected
        .into_iter()
        .filter(|(name, expected)| number(name) != *expected)
        .map(|(name, _)| match number(name) {
            Some(found) => format!("{name} {found}"),
            None => format!("it does not say `{name}`"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_wrk_are_found() {
        let good = "Running 1s test @ http://127.0.0.1:33371/\n  1 threads and 8 connections\n  Thread Stats   Avg\n  \
            23562 requests in 1.00s, 1.75MB read\nRequests/sec:  23485.95\n";
        assert_eq!(wrk(good), (23_562, Vec::new()));
        let bad = format!(
            "{good}  Socket errors: connect 0, read 3, write 0, timeout 0\n  Non-2xx or 3xx responses: 7\n"
        );
        assert_eq!(wrk(&bad).1.len(), 2);
        assert_eq!(wrk("unable to connect").1.len(), 1);
        assert_eq!(wrk("  0 requests in 1.00s, 0B read\n").1.len(), 1);
    }

    #[test]
    fn errors_of_h2load_are_found() {
        let good = "finished in 31.51ms, 15866.97 req/s, 1.18MB/s\n\
            requests: 500 total, 500 started, 500 done, 500 succeeded, 0 failed, 0 errored, 0 timeout\n\
            status codes: 500 2xx, 0 3xx, 0 4xx, 0 5xx\n";
        assert_eq!(h2load(good, 500), [""; 0]);
        assert_eq!(h2load(good, 501).len(), 2);
        assert_eq!(h2load(&good.replace("0 4xx", "1 4xx"), 500).len(), 1);
        assert_eq!(
            h2load(&good.replace("0 errored", "1 errored"), 500).len(),
            1
        );
        assert_eq!(h2load("", 500).len(), 2);
    }

    #[test]
    fn errors_of_ab_are_found() {
        let good =
            "Complete requests:      500\nFailed requests:        0\nKeep-Alive requests:    500\n";
        assert_eq!(ab(good, 500, true), [""; 0]);
        assert_eq!(ab(good, 499, true).len(), 2);
        assert_eq!(
            ab(
                &good.replace("requests:        0", "requests:        2"),
                500,
                true
            )
            .len(),
            1
        );
        assert_eq!(
            ab(&format!("{good}Non-2xx responses:      9\n"), 500, true).len(),
            1
        );
        let closing = good.replace("Keep-Alive requests:    500\n", "");
        assert_eq!(ab(&closing, 500, false), [""; 0]);
        assert_eq!(ab(&closing, 500, true).len(), 1);
    }
}
