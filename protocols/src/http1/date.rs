//! Dates as HTTP writes them (RFC 9110 section 5.6.7). The time is an argument: nothing here has a clock.

/// The fixed-length date of `unix_seconds`, such as `Sun, 06 Nov 1994 08:49:37 GMT`. Years beyond 9999 are written as 9999.
#[must_use]
pub fn imf_fixdate(unix_seconds: u64) -> [u8; 29] {
    const DAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    /// The last second of the year 9999.
    const LAST: u64 = 253_402_300_799;
    let seconds = unix_seconds.min(LAST);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let mut date = *b"___, __ ___ ____ __:__:__ GMT";
    let name = |names: &[u8], index: u64| {
        let at = usize::try_from(index).expect("it counts days or months") * 3;
        [names[at], names[at + 1], names[at + 2]]
    };
    date[..3].copy_from_slice(&name(DAYS, days % 7));
    date[5..7].copy_from_slice(&two(day));
    date[8..11].copy_from_slice(&name(MONTHS, month - 1));
    date[12..14].copy_from_slice(&two(year / 100));
    date[14..16].copy_from_slice(&two(year % 100));
    date[17..19].copy_from_slice(&two(second / 3600));
    date[20..22].copy_from_slice(&two(second / 60 % 60));
    date[23..25].copy_from_slice(&two(second % 60));
    date
}

fn two(number: u64) -> [u8; 2] {
    let digit = |digit: u64| b'0' + u8::try_from(digit).expect("it is one digit");
    [digit(number / 10), digit(number % 10)]
}

/// Year, month and day of a day since 1970. Years are counted from March, so that the leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_PER_400_YEARS: u64 = 146_097;
    // From the first of March of the year 0.
    let days = days + 719_468;
    let (era, day_of_era) = (days / DAYS_PER_400_YEARS, days % DAYS_PER_400_YEARS);
    let leap_days = day_of_era / 1460 + day_of_era / 146_096;
    let year_of_era = (day_of_era + day_of_era / 36_524 - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::imf_fixdate;

    #[test]
    fn dates() {
        let table = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_827_696, "Tue, 29 Feb 2000 12:34:56 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (seconds, date) in table {
            assert_eq!(imf_fixdate(seconds), date.as_bytes());
        }
    }
}
