//! Whole runs over HTTP: the real routes, a real envd, agents made of shell.

mod deaths;
mod dispatch;
mod hang_up;
mod real;
mod recovery;
mod replay;
mod server;
mod stream;
