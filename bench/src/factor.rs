//! The values of one factor as written on the command line: `1,2,4`, `1..4`, `64..16384:x4`, `1K`, `250ms`.

use crate::exit::Refusal;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

/// More values than this for one factor are refused; a slip of the finger, not a plan.
const VALUES_MAX: usize = 1024;

/// Numbers of a comma list with ranges; every value within `bounds`, none twice.
pub(crate) fn numbers(
    flag: &str,
    text: &str,
    bounds: RangeInclusive<u64>,
) -> Result<Vec<u64>, Refusal> {
    let mut values = Vec::new();
    for item in items(text) {
        for value in item_values(flag, item)? {
            check_bounds(flag, value, &bounds)?;
            values.push(value);
        }
    }
    check_list(flag, &values)?;
    Ok(values)
}

/// The same for counts that are used as sizes in memory.
pub(crate) fn counts(
    flag: &str,
    text: &str,
    bounds: RangeInclusive<u64>,
) -> Result<Vec<usize>, Refusal> {
    let values = numbers(flag, text, bounds)?;
    values
        .into_iter()
        .map(|value| usize::try_from(value).map_err(|_| malformed(flag, text)))
        .collect()
}

/// Words of a comma list, none twice.
pub(crate) fn words<'a>(flag: &str, text: &'a str) -> Result<Vec<&'a str>, Refusal> {
    let values: Vec<&str> = items(text).collect();
    check_list(flag, &values)?;
    Ok(values)
}

/// A time: `250ms`, `2s`, `0.5s`, or plain seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>();
    let parsed = match seconds {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string()),
    };
    match parsed {
        Ok(time) if time > Duration::from_secs(3600) => Err("at most one hour".to_owned()),
        other => other.map_err(|error| format!("{error}; write for example 250ms, 2s or 0.5")),
    }
}

/// A percentage: `2`, `2.5%`.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("write a number from 0 to 100".to_owned()),
    }
}

/// How long the reply to a datagram is waited for.
pub(crate) fn udp_timeout(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if (Duration::from_millis(1)..=Duration::from_secs(5)).contains(&time) {
        Ok(time)
    } else {
        Err("write a time from 1ms to 5s".to_owned())
    }
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ']).filter(|item| !item.is_empty())
}

fn item_values(flag: &str, item: &str) -> Result<Vec<u64>, Refusal> {
    let Some((first, rest)) = item.split_once("..") else {
        return Ok(vec![number(flag, item)?]);
    };
    let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
    let (first, last) = (number(flag, first)?, number(flag, last)?);
    let next = stepper(flag, step)?;
    let values: Vec<u64> = std::iter::successors(Some(first), |value| next(*value))
        .take_while(|value| *value <= last)
        .take(VALUES_MAX + 1)
        .collect();
    if values.is_empty() {
        Err(malformed(flag, item))
    } else {
        Ok(values)
    }
}

/// `x4` multiplies, `4` adds.
fn stepper(flag: &str, step: &str) -> Result<impl Fn(u64) -> Option<u64> + use<>, Refusal> {
    let (multiply, digits) = match step.strip_prefix('x') {
        Some(digits) => (true, digits),
        None => (false, step),
    };
    let by = number(flag, digits)?;
    if by == 0 || (multiply && by == 1) {
        return Err(malformed(flag, step));
    }
    Ok(move |value: u64| {
        if multiply {
            value.checked_mul(by)
        } else {
            value.checked_add(by)
        }
    })
}

fn number(flag: &str, text: &str) -> Result<u64, Refusal> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1024),
        None => text
            .strip_suffix('M')
            .map_or((text, 1), |digits| (digits, 1024 * 1024)),
    };
    let value: u64 = digits.parse().map_err(|_| malformed(flag, text))?;
    value.checked_mul(unit).ok_or_else(|| malformed(flag, text))
}

fn malformed(flag: &str, text: &str) -> Refusal {
    Refusal::usage(
        "E-LIST",
        format!("{flag} {text:?} is not a list of numbers."),
        "write for example 1,2,4 or 1..4 or 64..16384:x4; K means 1,024 and M 1,048,576.",
    )
}

fn check_bounds(flag: &str, value: u64, bounds: &RangeInclusive<u64>) -> Result<(), Refusal> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let (low, high) = (bounds.start(), bounds.end());
    Err(Refusal::usage(
        "E-RANGE",
        format!("{flag} {value} is outside {low}..{high}."),
        "nothing was run; choose a value inside.",
    ))
}

fn check_list<T: PartialEq + Display>(flag: &str, values: &[T]) -> Result<(), Refusal> {
    if values.is_empty() {
        return Err(Refusal::usage(
            "E-LIST",
            format!("{flag} is empty; there would be nothing to measure."),
            "name at least one value.",
        ));
    }
    if values.len() > VALUES_MAX {
        return Err(Refusal::usage(
            "E-LIST",
            format!("{flag} has more than {VALUES_MAX} values."),
            "use a larger step, for example 64..16384:x4.",
        ));
    }
    let twice = values
        .iter()
        .enumerate()
        .find(|(at, value)| values[..*at].contains(value));
    match twice {
        None => Ok(()),
        Some((_, value)) => Err(Refusal::usage(
            "E-DUPLICATE",
            format!("{flag} names {value} twice; it would be measured twice under one label."),
            "name each value once.",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<u64> {
        numbers("--payload", text, 1..=1_048_576).unwrap()
    }

    fn refused(text: &str) -> &'static str {
        numbers("--payload", text, 16..=1024).unwrap_err().id
    }

    #[test]
    fn lists_ranges_and_units() {
        assert_eq!(parsed("1,2,4"), [1, 2, 4]);
        assert_eq!(parsed("1..4"), [1, 2, 3, 4]);
        assert_eq!(parsed("1..9:4"), [1, 5, 9]);
        assert_eq!(parsed("64..16384:x4"), [64, 256, 1024, 4096, 16384]);
        assert_eq!(parsed("1K,1M"), [1024, 1_048_576]);
        assert_eq!(parsed("64..4K:x8,7"), [64, 512, 4096, 7]);
    }

    #[test]
    fn slips_are_refused_by_name() {
        assert_eq!(refused("15"), "E-RANGE");
        assert_eq!(refused("1025"), "E-RANGE");
        assert_eq!(refused("64,64"), "E-DUPLICATE");
        assert_eq!(refused("16..20,18"), "E-DUPLICATE");
        for text in [
            "",
            ",",
            "x",
            "1.5",
            "-3",
            "4..1",
            "16..32:x1",
            "16..32:0",
            "99999999999999999999",
            "20000000000000M",
        ] {
            assert_eq!(refused(text), "E-LIST", "{text}");
        }
    }

    #[test]
    fn a_range_without_end_stops_early() {
        assert_eq!(
            numbers("--work", "0..10000000", 0..=10_000_000)
                .unwrap_err()
                .id,
            "E-LIST"
        );
        assert_eq!(
            numbers("--work", "0..18446744073709551615:x2", 0..=u64::MAX)
                .unwrap_err()
                .id,
            "E-LIST"
        );
    }

    #[test]
    fn durations() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        for text in ["", "-1", "NaN", "inf", "2h", "5 bananas"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
