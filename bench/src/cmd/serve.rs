//! PLACEHOLDER, to be overwritten: an echo on plain threads, enough to try the runner with real processes.

use crate::contract::{Done, Mark, Model, Protocol, Ready};
use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[arg(long, value_enum)]
    protocol: Protocol,
    #[arg(long)]
    shards: Option<usize>,
    #[arg(long)]
    pool: Option<usize>,
    #[arg(long, default_value = "auto")]
    driver: String,
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long, default_value_t = 0)]
    work: u64,
    #[arg(long)]
    count_calls: bool,
    #[arg(long)]
    control: bool,
}

pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(4)
        }
    }
}

fn serve(args: &ServeArgs) -> std::io::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&stop))?;
    let listener = TcpListener::bind(args.listen)?;
    let (model, threads, driver) = match args.pool {
        Some(threads) => (Model::Pool, threads, "tokio".to_owned()),
        None => (
            Model::Shards,
            args.shards.unwrap_or(1),
            if args.driver == "auto" {
                "monoio-uring".to_owned()
            } else {
                args.driver.clone()
            },
        ),
    };
    let ready = Ready {
        ready: true,
        address: listener.local_addr()?,
        pid: std::process::id(),
        protocol: args.protocol,
        model,
        threads,
        driver,
        work: args.work,
        remarks: vec![],
        placement: vec![],
    };
    print(&ready);
    let (accepted, messages) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    if args.control {
        let messages = Arc::clone(&messages);
        std::thread::spawn(move || {
            for (mark, _) in (1..).zip(std::io::stdin().lock().lines()) {
                print(&Mark {
                    mark,
                    messages: messages.load(Ordering::Relaxed),
                    system_calls: None,
                    cpu_ns: 0,
                });
            }
        });
    }
    let (accepted_there, messages_there) = (Arc::clone(&accepted), Arc::clone(&messages));
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            accepted_there.fetch_add(1, Ordering::Relaxed);
            let messages = Arc::clone(&messages_there);
            std::thread::spawn(move || {
                let _ = stream.set_nodelay(true);
                let mut buffer = vec![0; 65536];
                while let Ok(count) = stream.read(&mut buffer) {
                    if count == 0 || stream.write_all(&buffer[..count]).is_err() {
                        return;
                    }
                    messages.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    print(&Done {
        done: true,
        accepted: accepted.load(Ordering::Relaxed),
        messages: messages.load(Ordering::Relaxed),
        per_shard: vec![],
        cpu_ns: 0,
        rss_peak_bytes: None,
        system_calls: None,
        system_calls_not_counted: args
            .count_calls
            .then(|| "a placeholder cannot count".to_owned()),
        faults: Default::default(),
        left_open: 0,
    });
    Ok(())
}

fn print(line: &impl serde::Serialize) {
    println!("{}", serde_json::to_string(line).unwrap_or_default());
}
