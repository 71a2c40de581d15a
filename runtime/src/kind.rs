//! The one place where an engine is chosen by name.

use crate::{
    backend::{Backend, Capabilities, MonoioLegacy, MonoioUring, Sim, Unavailable},
    options::EngineOptions,
};
use std::{error::Error, fmt, str::FromStr};

/// An engine by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The best one that works here; which one, and why, is reported.
    Auto,
    /// monoio on io_uring.
    MonoioUring,
    /// monoio on epoll (Linux) or kqueue (macOS).
    MonoioLegacy,
    /// glommio on io_uring.
    #[cfg(feature = "glommio")]
    Glommio,
    /// Virtual time and a simulated network: nothing outside the process reaches it. Taken by name only.
    Sim,
}

impl Kind {
    /// All engines of this build that use the network of the host. [`Kind::Sim`] is not among them.
    pub const ENGINES: &[Self] = &[
        Self::MonoioUring,
        Self::MonoioLegacy,
        #[cfg(feature = "glommio")]
        Self::Glommio,
    ];

    /// Those that `auto` tries, in this order. The others are taken by name only.
    pub const AUTO: &[Self] = &[Self::MonoioUring, Self::MonoioLegacy];

    /// All that have a name.
    fn named() -> impl Iterator<Item = Self> {
        [Self::Auto]
            .into_iter()
            .chain(Self::ENGINES.iter().copied())
            .chain([Self::Sim])
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::MonoioUring => MonoioUring::NAME,
            Self::MonoioLegacy => MonoioLegacy::NAME,
            #[cfg(feature = "glommio")]
            Self::Glommio => crate::Glommio::NAME,
            Self::Sim => Sim::NAME,
        }
    }

    /// Decides: an engine asked for by name is tried and never replaced; `auto` takes the first that works and says what it passed
    /// over.
    ///
    /// # Errors
    /// The engine that was asked for cannot be used here; or, with `auto`, none can.
    pub fn choose(self, options: &EngineOptions) -> Result<Choice, Unavailable> {
        let mut passed_over = Vec::new();
        for kind in self.candidates() {
            match kind.probe(options) {
                Ok(mut capabilities) => {
                    capabilities.remarks.splice(0..0, passed_over);
                    let kind = *kind;
                    return Ok(Choice { kind, capabilities });
                }
                Err(unavailable) if self != Self::Auto => return Err(unavailable),
                Err(unavailable) => passed_over.push(unavailable.to_string()),
            }
        }
        Err(Unavailable {
            engine: self.name(),
            reason: passed_over.join("; "),
        })
    }

    /// What may be taken for it, the best first.
    pub(crate) fn candidates(&self) -> &[Self] {
        match self {
            Self::Auto => Self::AUTO,
            one => std::slice::from_ref(one),
        }
    }

    /// Whether this engine can be used here.
    ///
    /// # Errors
    /// The reason why not. `auto` itself is no engine; see [`choose`](Self::choose).
    pub fn probe(self, options: &EngineOptions) -> Result<Capabilities, Unavailable> {
        crate::with_backend!(self, B => B::probe(options), auto => self.choose(options).map(|choice| choice.capabilities))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        Self::named()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownKind {
                name: name.to_owned(),
            })
    }
}

/// There is no engine of that name.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownKind {
    /// The name.
    pub name: String,
}

/// Its text: what a `main` prints that returns it.
impl fmt::Debug for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Kind::named().map(Kind::name).collect();
        let names = names.join(", ");
        write!(f, "there is no engine {:?}; there are {names}", self.name)
    }
}

impl Error for UnknownKind {}

/// An engine that was found to work here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which.
    pub kind: Kind,
    /// What it offers, and what was passed over for it.
    pub capabilities: Capabilities,
}

/// Evaluates an expression with `B` as the engine that a [`Kind`] names: the only `match` from a name to a type. With `sim => …` the
/// simulated engine, whose sockets are not the kernel's, is left to that.
#[cfg(not(feature = "glommio"))]
#[macro_export]
macro_rules! with_backend {
    ($kind:expr, $backend:ident => $then:expr, $($rest:tt)+) => {
        $crate::with_one_of!([MonoioUring MonoioLegacy] $kind, $backend => $then, $($rest)+)
    };
}

/// Evaluates an expression with `B` as the engine that a [`Kind`] names: the only `match` from a name to a type. With `sim => …` the
/// simulated engine, whose sockets are not the kernel's, is left to that.
#[cfg(feature = "glommio")]
#[macro_export]
macro_rules! with_backend {
    ($kind:expr, $backend:ident => $then:expr, $($rest:tt)+) => {
        $crate::with_one_of!([MonoioUring MonoioLegacy Glommio] $kind, $backend => $then, $($rest)+)
    };
}

/// What [`with_backend`](crate::with_backend) comes to. The list of engines is its argument because a `cfg` in here would be asked of
/// the crate that calls it.
#[doc(hidden)]
#[macro_export]
macro_rules! with_one_of {
    ([$($engine:ident)+] $kind:expr, $backend:ident => $then:expr, auto => $auto:expr) => {
        $crate::with_one_of!(
            [$($engine)+] $kind, $backend => $then,
            sim => {
                type $backend = $crate::Sim;
                $then
            },
            auto => $auto
        )
    };
    ([$($engine:ident)+] $kind:expr, $backend:ident => $then:expr, sim => $sim:expr, auto => $auto:expr) => {
        match $kind {
            $crate::Kind::Auto => $auto,
            $crate::Kind::Sim => $sim,
            $($crate::Kind::$engine => {
                type $backend = $crate::$engine;
                $then
            })+
        }
    };
}

#[cfg(test)]
mod tests {
    use super::Kind;
    use crate::options::EngineOptions;

    #[test]
    fn names_lead_to_kinds_and_back() {
        for kind in Kind::named() {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "kqueue".parse::<Kind>().unwrap_err().to_string();
        assert!(
            error.contains("kqueue") && error.contains("monoio-legacy"),
            "{error}"
        );
    }

    #[test]
    fn auto_never_simulates() {
        assert!(!Kind::ENGINES.contains(&Kind::Sim));
        assert_eq!("sim".parse(), Ok(Kind::Sim));
    }

    #[test]
    fn auto_chooses_an_engine_that_works_and_accounts_for_those_before_it() {
        let options = EngineOptions::default();
        let choice = Kind::Auto.choose(&options).unwrap();
        assert!(Kind::AUTO.contains(&choice.kind));
        let passed_over = Kind::AUTO.iter().take_while(|kind| **kind != choice.kind);
        for kind in passed_over {
            let reason = kind.probe(&options).unwrap_err().to_string();
            assert!(choice.capabilities.remarks.contains(&reason), "{reason}");
        }
    }
}
