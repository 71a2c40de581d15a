//! See `tls_operations` in the harness.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shardloop_fuzz::run("tls_operations", data));
