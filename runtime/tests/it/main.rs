//! The runtime's behaviours over real sockets, each written once and instantiated for every engine.
//!
//! Time bounds are not asserted here: the machine is shared and the build may be a debug one. What is asserted holds at any speed.

mod accept;
mod client;
mod conformance;
mod datagrams;
mod engine;
mod example;
mod metrics;
mod queue_model;
mod refused;
mod scenarios;
mod shutdown;
mod sim;
mod strategies;
mod tasks;
mod unix;
mod wake_model;
mod watchdog;
