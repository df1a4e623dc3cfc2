//! Tells what becomes of the files below a directory: created, changed, deleted.
//!
//! Whoever knows which files were there at the start and folds all that is told
//! knows which files are there at the end. Directories are not told, the files
//! in them are; links are told and not followed; no file is ever opened.

mod book;
mod eye;
mod look;
mod tree;
mod watcher;

pub use book::{Event, Kind, MERGED_WITHIN, Note, Told};
pub use watcher::{Options, Watcher};
