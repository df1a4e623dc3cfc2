//! The host link from inside: real connections on one side, real servers on
//! loopback on the other, and only the tunnel between left out.

mod bodies;
mod harness;
mod hostile;
mod model;
mod routes;
mod sealing;
mod sessions;
mod tools;
