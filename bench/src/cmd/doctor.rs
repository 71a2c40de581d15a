//! `bench doctor`: whether this machine can measure honestly, on one screen.

use crate::cli::DoctorArgs;
use crate::doctor::{Diagnosis, facts::Facts};
use crate::exit::Exit;
use crate::stdout;

/// Looks, and tells. Fails only where nothing can be measured.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<Exit> {
    let diagnosis = Diagnosis::of(&Facts::gather());
    if args.json {
        stdout::put(&format!("{}\n", serde_json::to_string_pretty(&diagnosis)?));
    } else {
        stdout::put(&diagnosis.render());
    }
    Ok(if diagnosis.can_measure {
        Exit::Success
    } else {
        Exit::Surroundings
    })
}
