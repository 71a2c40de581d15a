//! stub
use super::Ground;
use super::ledger::Ledger;
use anyhow::Result;
pub(crate) fn run(_: &Ground, _: &mut Ledger) -> Result<()> {
    Ok(())
}
