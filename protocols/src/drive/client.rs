//! A client's way through a connection: open it, ask, and take one turn after the other until the answer is there.

use super::{
    Host,
    clock::HostClock,
    connection::{Connection, DriveError, Event, Turned},
};
use crate::machine::{App, StreamMachine};
use shardloop::Stream;
use std::{future::pending, pin::pin};

/// For clients, and for services with a mind of their own. An HTTPS request, for example:
///
/// ```no_run
/// use shardloop::{Backend, ConnectOptions, Error, StreamOptions};
/// use shardloop_protocols::{
///     Flow,
///     drive::{Connection, OnShard, Turned},
///     http1::{Answer, Ask, Client, ClientOptions},
///     tls::{ClientConfig, Tls},
/// };
/// use std::time::Duration;
///
/// /// To be called on a shard.
/// async fn get<B: Backend>(tls: &ClientConfig, target: &str) -> Result<Option<Vec<u8>>, Error> {
///     let stream = StreamOptions { nodelay: true, send_buffer_bytes: None, receive_buffer_bytes: None };
///     let options = ConnectOptions { stream, deadline: Duration::from_secs(5) };
///     let stream = B::connect(&["127.0.0.1:8443".parse::<std::net::SocketAddr>()?.into()], &options).await?;
///     let client = Client::new("127.0.0.1:8443", ClientOptions::default())?;
///     let mut connection = Connection::new(stream, Tls::client(tls, client)?);
///
///     let mut body = None;
///     let mut app = |answer: Answer<'_>, _: Ask<'_>| {
///         body = Some(answer.body.to_vec());
///         Flow::Pause
///     };
///     connection.open(&OnShard, &mut app).await?;
///     // The outer error is the connection's, the inner one what the closure returned.
///     connection.send(&OnShard, |mut ask| ask.write("GET", target, &[], b"")).await??;
///     while connection.machine().inner().outstanding() > 0 {
///         if connection.turn(&OnShard, &mut app).await? == Turned::Closed {
///             break;
///         }
///     }
///     // TLS tells that nothing was cut off.
///     connection.close(&OnShard).await?;
///     Ok(body)
/// }
/// ```
impl<S: Stream, M: StreamMachine> Connection<S, M> {
    /// Lets the machine [begin](Self::start), and takes turns until it is ready for what is to be sent: the handshake, within the
    /// machine's own deadline. `app` sees what the peer says meanwhile.
    ///
    /// # Errors
    /// The handshake failed, or the stream did.
    pub async fn open(
        &mut self,
        host: &impl Host,
        app: &mut impl App<M>,
    ) -> Result<Turned, DriveError<M::Error>> {
        let mut turned = self.start(host).await?;
        while turned == Turned::Open && !self.machine().is_ready() {
            turned = self.turn(host, app).await?;
        }
        Ok(turned)
    }

    /// Waits for input or for the machine's deadline, whichever is first, and works it off.
    ///
    /// Dropping the future while it waits loses nothing; once it works, it is as with [`work_off`](Self::work_off).
    ///
    /// # Errors
    /// As [`work_off`](Self::work_off).
    pub async fn turn(
        &mut self,
        host: &impl Host,
        app: &mut impl App<M>,
    ) -> Result<Turned, DriveError<M::Error>> {
        let (never, alarm) = (pin!(pending()), pin!(None));
        let clock = &mut HostClock::new(host, |at| host.sleep_until(at), alarm);
        match self.next(clock, never, false).await {
            Event::Received(lease) => {
                let received = self.received(lease)?;
                self.work_off_until(clock, app, received, |_| false).await
            }
            Event::TimedOut => self.timed_out_by(clock).await,
            Event::Stop => Ok(Turned::Open),
        }
    }
}
