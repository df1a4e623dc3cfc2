//! Whole runs over HTTP: the real routes, a real envd, agents made of shell.

mod agui;
mod deaths;
mod dispatch;
mod hang_up;
mod hooks;
mod real;
mod recovery;
mod replay;
mod server;
mod stream;
mod tools;
