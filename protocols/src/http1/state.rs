//! Everything that decides where a connection stands, as two tables: which state follows which event, and which fault it is if none
//! does. The machines hold no other state that outlives a call, but the bytes and counts of the message in hand.
//!
//! The peer's bytes belong to the caller in `Idle`, `Await` and `Head`, to the machine in `Body` and `BodyToEnd`. In `Answer` the
//! peer's next request, if it has come, is the caller's until the answer is written. Nothing leads out of `Closed`.

use super::fault::Http1Error;

/// Where a server's connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerState {
    /// Between requests.
    Idle,
    /// A head has begun.
    Head,
    /// A head was taken; its body is on the way.
    Body,
    /// A request was shown and is not answered.
    Answer,
    /// As `Answer`, and the peer has said that it sends nothing more.
    LastAnswer,
    /// The last word was said.
    Closed,
}

/// What happens on a server's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerEvent {
    /// The first byte of a request has come.
    Begun,
    /// A head has ended whose body has not.
    BodyAwaited,
    /// A whole request is shown to the application.
    Shown,
    /// It was answered, and another may follow.
    Kept,
    /// It was answered, and none may follow.
    Last,
    /// The request was refused.
    Refused,
    /// The peer sends nothing more.
    Ended,
    /// The state's deadline has come.
    TimedOut,
    /// This end closes.
    Goodbye,
}

impl ServerState {
    /// The state after `event`.
    ///
    /// # Errors
    /// The fault that `event` is in this state.
    pub(super) const fn after(self, event: ServerEvent) -> Result<Self, Http1Error> {
        use Http1Error as Fault;
        use ServerEvent as E;
        match (self, event) {
            (Self::Idle, E::Begun) => Ok(Self::Head),
            (Self::Idle, E::Ended | E::TimedOut) => Ok(Self::Closed),

            (Self::Head, E::BodyAwaited) => Ok(Self::Body),
            (Self::Head, E::Ended) => Err(Fault::TruncatedHead),
            (Self::Head, E::TimedOut) => Err(Fault::HeadTimedOut),

            (Self::Body, E::Ended) => Err(Fault::TruncatedBody),
            (Self::Body, E::TimedOut) => Err(Fault::BodyTimedOut),

            (Self::Head | Self::Body, E::Shown) => Ok(Self::Answer),
            (Self::Head | Self::Body | Self::Answer, E::Refused) => Ok(Self::Closed),

            (Self::Answer, E::Kept) => Ok(Self::Idle),
            (Self::Answer | Self::LastAnswer, E::Ended) => Ok(Self::LastAnswer),
            (Self::Answer | Self::LastAnswer, E::Last) => Ok(Self::Closed),
            (Self::Answer | Self::LastAnswer, E::TimedOut) => Err(Fault::AnswerTimedOut),

            (Self::Idle | Self::Head | Self::Body, E::Kept | E::Last) => Err(Fault::NothingOwed),
            (Self::Closed, E::Ended) | (_, E::Goodbye) => Ok(Self::Closed),
            _ => Err(Fault::OutOfTurn),
        }
    }
}

/// Where a client's connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientState {
    /// No request is unanswered.
    Idle,
    /// A request is unanswered, and nothing of its response has come.
    Await,
    /// A response's head has begun.
    Head,
    /// A head was taken; its body is on the way, and says where it ends.
    Body,
    /// A head was taken; its body ends with the connection.
    BodyToEnd,
    /// Nothing more is to be said or heard.
    Closed,
}

/// What happens on a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientEvent {
    /// A request is written.
    Asked,
    /// The first byte of a response has come.
    Begun,
    /// An interim response has ended; the final one is still to come.
    Interim,
    /// A head has ended whose body has not.
    BodyAwaited,
    /// A head has ended whose body ends with the connection.
    EndAwaited,
    /// A response is whole, and other requests are unanswered.
    AnsweredOne,
    /// A response is whole, and it was the last one owed.
    AnsweredAll,
    /// A response is whole, and says that none may follow.
    Last,
    /// The response was refused.
    Refused,
    /// The peer sends nothing more.
    Ended,
    /// The deadline has come.
    TimedOut,
    /// This end closes.
    Goodbye,
}

impl ClientState {
    /// The state after `event`.
    ///
    /// # Errors
    /// The fault that `event` is in this state.
    pub(super) const fn after(self, event: ClientEvent) -> Result<Self, Http1Error> {
        use ClientEvent as E;
        use Http1Error as Fault;
        match (self, event) {
            (Self::Idle, E::Asked) => Ok(Self::Await),
            (Self::Await | Self::Head | Self::Body, E::Asked) => Ok(self),

            (Self::Idle, E::Begun) => Err(Fault::Unrequested),
            (Self::Await, E::Begun) => Ok(Self::Head),

            (Self::Head, E::Interim) => Ok(Self::Await),
            (Self::Head, E::BodyAwaited) => Ok(Self::Body),
            (Self::Head, E::EndAwaited) => Ok(Self::BodyToEnd),
            (Self::Head | Self::Body, E::AnsweredOne) => Ok(Self::Await),
            (Self::Head | Self::Body, E::AnsweredAll) => Ok(Self::Idle),
            (Self::Head | Self::Body, E::Last) => Ok(Self::Closed),
            (Self::Head | Self::Body | Self::BodyToEnd, E::Refused) => Ok(Self::Closed),

            (Self::Idle | Self::BodyToEnd | Self::Closed, E::Ended) => Ok(Self::Closed),
            (Self::Await, E::Ended) => Err(Fault::Unanswered),
            (Self::Head, E::Ended) => Err(Fault::TruncatedHead),
            (Self::Body, E::Ended) => Err(Fault::TruncatedBody),

            (Self::Await | Self::Head | Self::Body | Self::BodyToEnd, E::TimedOut) => {
                Err(Fault::ResponseTimedOut)
            }
            (_, E::Goodbye) => Ok(Self::Closed),
            _ => Err(Fault::OutOfTurn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientEvent, ClientState, Http1Error as Fault, ServerEvent, ServerState};

    /// One row per state, one column per event, in the order of the enums.
    #[test]
    fn every_state_of_a_server_meets_every_event() {
        use ServerEvent as E;
        use ServerState::{Answer, Body, Closed, Head, Idle, LastAnswer};
        const EVENTS: [ServerEvent; 9] = [
            E::Begun,
            E::BodyAwaited,
            E::Shown,
            E::Kept,
            E::Last,
            E::Refused,
            E::Ended,
            E::TimedOut,
            E::Goodbye,
        ];
        let out = Err(Fault::OutOfTurn);
        let owes_nothing = Err(Fault::NothingOwed);
        let late = Err(Fault::AnswerTimedOut);
        #[rustfmt::skip]
        let table = [
            (Idle, [Ok(Head), out, out, owes_nothing, owes_nothing, out, Ok(Closed), Ok(Closed), Ok(Closed)]),
            (Head, [out, Ok(Body), Ok(Answer), owes_nothing, owes_nothing, Ok(Closed), Err(Fault::TruncatedHead), Err(Fault::HeadTimedOut), Ok(Closed)]),
            (Body, [out, out, Ok(Answer), owes_nothing, owes_nothing, Ok(Closed), Err(Fault::TruncatedBody), Err(Fault::BodyTimedOut), Ok(Closed)]),
            (Answer, [out, out, out, Ok(Idle), Ok(Closed), Ok(Closed), Ok(LastAnswer), late, Ok(Closed)]),
            (LastAnswer, [out, out, out, out, Ok(Closed), out, Ok(LastAnswer), late, Ok(Closed)]),
            (Closed, [out, out, out, out, out, out, Ok(Closed), out, Ok(Closed)]),
        ];
        for (state, row) in table {
            for (event, expected) in EVENTS.into_iter().zip(row) {
                assert_eq!(state.after(event), expected, "{state:?} {event:?}");
            }
        }
    }

    #[test]
    fn every_state_of_a_client_meets_every_event() {
        use ClientEvent as E;
        use ClientState::{Await, Body, BodyToEnd, Closed, Head, Idle};
        const EVENTS: [ClientEvent; 12] = [
            E::Asked,
            E::Begun,
            E::Interim,
            E::BodyAwaited,
            E::EndAwaited,
            E::AnsweredOne,
            E::AnsweredAll,
            E::Last,
            E::Refused,
            E::Ended,
            E::TimedOut,
            E::Goodbye,
        ];
        let out = Err(Fault::OutOfTurn);
        let late = Err(Fault::ResponseTimedOut);
        #[rustfmt::skip]
        let table = [
            (Idle, [Ok(Await), Err(Fault::Unrequested), out, out, out, out, out, out, out, Ok(Closed), out, Ok(Closed)]),
            (Await, [Ok(Await), Ok(Head), out, out, out, out, out, out, out, Err(Fault::Unanswered), late, Ok(Closed)]),
            (Head, [Ok(Head), out, Ok(Await), Ok(Body), Ok(BodyToEnd), Ok(Await), Ok(Idle), Ok(Closed), Ok(Closed), Err(Fault::TruncatedHead), late, Ok(Closed)]),
            (Body, [Ok(Body), out, out, out, out, Ok(Await), Ok(Idle), Ok(Closed), Ok(Closed), Err(Fault::TruncatedBody), late, Ok(Closed)]),
            (BodyToEnd, [out, out, out, out, out, out, out, out, Ok(Closed), Ok(Closed), late, Ok(Closed)]),
            (Closed, [out, out, out, out, out, out, out, out, out, Ok(Closed), out, Ok(Closed)]),
        ];
        for (state, row) in table {
            for (event, expected) in EVENTS.into_iter().zip(row) {
                assert_eq!(state.after(event), expected, "{state:?} {event:?}");
            }
        }
    }
}
