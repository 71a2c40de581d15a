//! The fields of a head, as the peer sent them.

use std::fmt;

/// Header fields in the order in which they came. Names compare without regard to case (RFC 9110 section 5.1).
#[derive(Clone, Copy)]
pub struct Headers<'m>(pub(super) &'m [httparse::Header<'m>]);

impl<'m> Headers<'m> {
    /// The value of the first field called `name`, without the whitespace around it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'m [u8]> {
        self.get_all(name).next()
    }

    /// The values of all fields called `name`.
    pub fn get_all(&self, name: &str) -> impl Iterator<Item = &'m [u8]> {
        self.iter()
            .filter_map(move |(other, value)| other.eq_ignore_ascii_case(name).then_some(value))
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'m str, &'m [u8])> + use<'m> {
        self.0.iter().map(|header| (header.name, header.value))
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self
            .iter()
            .map(|(name, value)| (name, value.escape_ascii().to_string()));
        f.debug_map().entries(shown).finish()
    }
}
