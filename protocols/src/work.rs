//! Handler work: a stand-in for what a real service does with a message.
//!
//! As many rounds of a 64-bit xorshift (shifts 13, 7, 17; Marsaglia 2003) as asked for, seeded from the message. Pure arithmetic on
//! two registers: it takes CPU time and touches neither memory nor kernel, and its cost is proportional to the rounds.

use std::hint::black_box;

/// Does `rounds` of work on a message. The result depends on the message and on every round, and the compiler may not leave the
/// work out.
pub fn spin(message: &[u8], rounds: u64) -> u64 {
    let mut x = seed(message);
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x)
}

/// The first eight bytes and the length; never zero, where xorshift would stay for ever.
fn seed(message: &[u8]) -> u64 {
    let mut first = [0; 8];
    let n = message.len().min(8);
    first[..n].copy_from_slice(&message[..n]);
    (u64::from_le_bytes(first) ^ message.len() as u64) | 1
}

#[cfg(test)]
mod tests {
    use super::spin;

    #[test]
    fn rounds_and_message_decide_the_result() {
        assert_eq!(spin(b"", 0), 1);
        // One round from the seed 1: 1 ^ 1<<13 = 8193; ^ 8193>>7 = 8257; ^ 8257<<17.
        assert_eq!(spin(b"", 1), 8257 ^ (8257 << 17));
        assert_ne!(
            spin(b"a", 100),
            spin(b"b", 100),
            "seeds differ in more than the forced bit"
        );
        assert_ne!(spin(b"ab", 1000), spin(b"ab", 1001));
    }
}
