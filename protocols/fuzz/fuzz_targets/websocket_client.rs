//! See `websocket_client` in the harness.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shardloop_fuzz::run("websocket_client", data));
