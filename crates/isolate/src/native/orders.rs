//! What servers say to a keeper: lines.
//!
//! ```text
//! deadline <ms>      no answer
//! kill               no answer but the end of the connection
//! network <json>     `ok`, or `failed <reason>`
//! ```

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
};

use crate::Network;

/// How long an order may be: a network with many ranges.
const LONGEST: usize = 128 << 10;

/// A server that is connected.
pub(super) struct Talker {
    stream: UnixStream,
    /// Order and not yet acted upon.
    words: Vec<u8>,
    gone: bool,
}

/// What a server wants.
pub(super) enum Order {
    /// Nothing now.
    NoneYet,
    /// Another end, in Unix milliseconds.
    Deadline(u64),
    /// Another network. This alone is answered.
    Network(Network),
    /// The end.
    Kill,
    /// It has gone, or is not one of ours.
    Goodbye,
}

impl Talker {
    /// One that has just called. Its stream does not block.
    pub(super) fn new(stream: UnixStream) -> Talker {
        Talker { stream, words: Vec::new(), gone: false }
    }

    /// What to wait for it with.
    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Takes in what it has said.
    pub(super) fn listen(&mut self) {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.gone = true,
            Ok(count) => self.words.extend_from_slice(&buffer[..count]),
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.gone = true,
        }
    }

    /// The next order, if all of it was heard.
    pub(super) fn order(&mut self) -> Order {
        let Some(at) = self.words.iter().position(|byte| *byte == b'\n') else {
            let done = self.gone || self.words.len() > LONGEST;
            return if done { Order::Goodbye } else { Order::NoneYet };
        };
        let line: Vec<u8> = self.words.drain(..=at).collect();
        if self.words.is_empty() {
            // Orders are few and some are long: an idle keeper stays small.
            self.words = Vec::new();
        }
        let line = String::from_utf8_lossy(&line);
        match line.trim().split_once(' ') {
            None if line.trim() == "kill" => Order::Kill,
            Some(("deadline", ms)) => ms.parse().map_or(Order::Goodbye, Order::Deadline),
            Some(("network", json)) => {
                serde_json::from_str(json).map_or(Order::Goodbye, Order::Network)
            }
            None | Some(_) => Order::Goodbye,
        }
    }

    /// Says how an order came out.
    pub(super) fn answer(&mut self, outcome: io::Result<()>) {
        let words = match outcome {
            Ok(()) => "ok\n".to_owned(),
            Err(err) => format!("failed {}\n", err.to_string().replace('\n', " ")),
        };
        // One that does not read has gone, and is found out when it is next heard.
        let _ = self.stream.write_all(words.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::unix::net::UnixStream,
    };

    use super::{Order, Talker};
    use crate::Network;

    #[test]
    fn orders_that_come_together_are_all_heard() {
        let (mut server, stream) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut talker = Talker::new(stream);
        server.write_all(b"deadline 7\nnetwork \"none\"\nki").unwrap();
        talker.listen();
        assert!(matches!(talker.order(), Order::Deadline(7)));
        assert!(matches!(talker.order(), Order::Network(Network::None)));
        assert!(matches!(talker.order(), Order::NoneYet));
        server.write_all(b"ll\n").unwrap();
        talker.listen();
        assert!(matches!(talker.order(), Order::Kill));
        drop(server);
        talker.listen();
        assert!(matches!(talker.order(), Order::Goodbye));
    }

    #[test]
    fn an_answer_is_one_line() {
        let (mut server, stream) = UnixStream::pair().unwrap();
        let mut talker = Talker::new(stream);
        talker.answer(Ok(()));
        talker.answer(Err(std::io::Error::other("two\nlines")));
        drop(talker);
        let mut heard = String::new();
        server.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "ok\nfailed two lines\n");
    }

    #[test]
    fn what_is_no_order_ends_the_talk() {
        for words in ["deadline soon\n", "network {}\n", "hello\n", "kill me\n"] {
            let (mut server, stream) = UnixStream::pair().unwrap();
            let mut talker = Talker::new(stream);
            server.write_all(words.as_bytes()).unwrap();
            talker.listen();
            assert!(matches!(talker.order(), Order::Goodbye), "{words}");
        }
    }
}
