//! A thread-per-core completion runtime.
