//! PLACEHOLDER, to be overwritten: a blocking load on plain threads, enough to try the runner with real processes.

use crate::contract::{Counters, LoadReport, ProcessUse, Protocol, Window};
use crate::measure::histogram::Histogram;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoadArgs {
    #[arg(long, value_enum)]
    protocol: Protocol,
    #[arg(long)]
    connect: SocketAddr,
    #[arg(long)]
    clients: usize,
    #[arg(long)]
    window: usize,
    #[arg(long)]
    payload: usize,
    #[arg(long, value_parser = crate::factor::duration)]
    duration: Duration,
    #[arg(long, value_parser = crate::factor::duration)]
    warmup: Duration,
    #[arg(long, default_value = "full")]
    verify: String,
    #[arg(long)]
    server_pid: Option<u32>,
    #[arg(long)]
    announce: bool,
    #[arg(long)]
    json: Option<String>,
}

pub(crate) fn run(args: &LoadArgs) -> ExitCode {
    let begin = Instant::now() + args.warmup;
    let end = begin + args.duration;
    let threads: Vec<_> = (0..args.clients)
        .map(|_| {
            let args = args.clone();
            std::thread::spawn(move || client(&args, begin, end))
        })
        .collect();
    std::thread::sleep(begin.saturating_duration_since(Instant::now()));
    if args.announce {
        println!(
            "{}",
            serde_json::to_string(&Window::Begin).unwrap_or_default()
        );
    }
    let server_begin = args.server_pid.map(ticks);
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
    let cpu_ns = args
        .server_pid
        .map(|pid| (ticks(pid) - server_begin.unwrap_or(0)) * 10_000_000);
    if args.announce {
        println!(
            "{}",
            serde_json::to_string(&Window::End).unwrap_or_default()
        );
    }
    let mut histogram = Histogram::new();
    let mut failure = None;
    for thread in threads {
        match thread.join().expect("no panic") {
            Ok(part) => histogram.merge(&part),
            Err(error) => failure = Some(error.to_string()),
        }
    }
    let received = histogram.count();
    let rate = received as f64 / args.duration.as_secs_f64();
    let ok = failure.is_none() && received > 0;
    let report = LoadReport {
        contract_version: 1,
        ok,
        first_failure: failure,
        protocol: args.protocol,
        connect: args.connect,
        clients: args.clients,
        window_per_client: args.window,
        payload_bytes: args.payload,
        warmup_ns: crate::repetition::whole_ns(args.warmup),
        duration_ns: crate::repetition::whole_ns(args.duration),
        window_ns: crate::repetition::whole_ns(args.duration),
        drain_ns: 0,
        verify: args.verify.clone(),
        counters: Counters {
            received,
            sent: received,
            ..Counters::default()
        },
        round_trips_per_s: rate,
        payload_mib_per_s: rate * 2.0 * args.payload as f64 / 1_048_576.0,
        rtt_service_ns: histogram.percentiles(),
        histogram_v2: Some(histogram.to_base64()),
        little_ratio: None,
        client: ProcessUse::default(),
        server: cpu_ns.map(|cpu_ns| ProcessUse {
            cpu_ns: Some(cpu_ns),
            cpu_ns_per_rt: Some(cpu_ns as f64 / received as f64),
            ..ProcessUse::default()
        }),
    };
    println!("{}", serde_json::to_string(&report).unwrap_or_default());
    if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn client(args: &LoadArgs, begin: Instant, end: Instant) -> std::io::Result<Histogram> {
    let mut stream = TcpStream::connect(args.connect)?;
    stream.set_nodelay(true)?;
    let mut histogram = Histogram::new();
    let mut batch = Vec::new();
    for _ in 0..args.window {
        batch.extend(u32::try_from(args.payload).expect("bounded").to_be_bytes());
        batch.resize(batch.len() + args.payload, 7);
    }
    let mut reply = vec![0; batch.len()];
    loop {
        let sent = Instant::now();
        if sent >= end {
            return Ok(histogram);
        }
        stream.write_all(&batch)?;
        stream.read_exact(&mut reply)?;
        if reply != batch {
            return Err(std::io::Error::other("content differs"));
        }
        if sent >= begin {
            histogram.record_n(
                crate::repetition::whole_ns(sent.elapsed()),
                args.window as u64,
            );
        }
    }
}

fn ticks(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    [11, 12]
        .iter()
        .filter_map(|at| fields.get(*at)?.parse::<u64>().ok())
        .sum()
}
