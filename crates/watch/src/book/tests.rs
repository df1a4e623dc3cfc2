//! The book by itself, with a clock that the test holds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Book, Event, Extent, Kind, Note, Told};
use crate::look::State;

type Heard = Arc<Mutex<Vec<String>>>;

fn book(most: usize) -> (Book, Heard) {
    let heard = Heard::default();
    let kept = heard.clone();
    let tell = move |told| {
        let line = match told {
            Told::File(Event { kind: Kind::Create, path }) => format!("+{}", path.display()),
            Told::File(Event { kind: Kind::Change, path }) => format!("~{}", path.display()),
            Told::File(Event { kind: Kind::Delete, path }) => format!("-{}", path.display()),
            Told::Note(Note::TooManyFiles(most)) => format!("more than {most}"),
            Told::Note(note) => format!("{note:?}"),
        };
        kept.lock().unwrap().push(line);
    };
    (Book::new(most, Box::new(tell)), heard)
}

fn take(heard: &Heard) -> Vec<String> {
    std::mem::take(&mut *heard.lock().unwrap())
}

fn after(start: Instant, milliseconds: u64) -> Instant {
    start + Duration::from_millis(milliseconds)
}

#[test]
fn only_changes_of_one_path_are_merged_and_the_last_is_never_lost() {
    let (mut book, heard) = book(10);
    let start = Instant::now();
    let (a, b) = (Path::new("a"), Path::new("b"));
    book.present(a, State::numbered(1), start);
    book.present(b, State::numbered(1), start);
    book.present(a, State::numbered(1), start);
    book.present(a, State::numbered(2), after(start, 1));
    book.present(b, State::numbered(2), after(start, 2));
    assert_eq!(take(&heard), ["+a", "+b", "~a", "~b"]);
    for millisecond in 3..40 {
        book.present(a, State::numbered(millisecond), after(start, millisecond));
    }
    assert_eq!(take(&heard), Vec::<String>::new());
    assert_eq!(book.next_due(), Some(after(start, 51)));
    book.tell_due(after(start, 50));
    assert_eq!(take(&heard), Vec::<String>::new());
    book.tell_due(after(start, 51));
    assert_eq!(take(&heard), ["~a"]);
    // The next one within 50 ms of that is held again, and told at the end.
    book.present(a, State::numbered(99), after(start, 60));
    assert_eq!(take(&heard), Vec::<String>::new());
    book.end();
    assert_eq!(take(&heard), ["~a"]);
}

#[test]
fn a_change_that_is_held_back_goes_out_before_the_deletion() {
    let (mut book, heard) = book(10);
    let start = Instant::now();
    let path = Path::new("a");
    for number in 1..4 {
        book.present(path, State::numbered(number), start);
    }
    book.gone(path);
    book.gone(path);
    book.present(path, State::numbered(5), start);
    book.tell_due(after(start, 1000));
    book.end();
    assert_eq!(take(&heard), ["+a", "~a", "~a", "-a", "+a"]);
}

#[test]
fn a_file_that_was_gone_before_anybody_looked_is_told_all_the_same() {
    let (mut book, heard) = book(10);
    let start = Instant::now();
    let path = Path::new("a");
    book.came_and_went(path);
    book.came_and_went(path);
    book.written_and_gone(path, start);
    book.gone(path);
    book.written_and_gone(path, start);
    assert_eq!(take(&heard), ["+a", "~a", "-a"]);
}

#[test]
fn what_lies_below_a_directory_does_not_depend_on_how_names_sort() {
    let (mut book, heard) = book(10);
    let start = Instant::now();
    for path in ["a", "a-b", "a.c/d", "a/b", "a/b/c", "ab"] {
        book.came_and_went(Path::new(path));
    }
    take(&heard);
    book.gone_below(Path::new("a"));
    assert_eq!(take(&heard), ["-a", "-a/b", "-a/b/c"]);
    let found = BTreeMap::from([(PathBuf::from("new"), State::numbered(1))]);
    let only_ab = |path: &Path| path == Path::new("ab");
    book.reconcile(Path::new(""), found.clone(), Extent::Part, only_ab, start);
    assert_eq!(take(&heard), ["-a-b", "-a.c/d", "+new"]);
    book.reconcile(Path::new(""), found, Extent::Whole, only_ab, start);
    assert_eq!(take(&heard), ["-ab"]);
}

#[test]
fn files_over_the_cap_are_said_once_and_room_comes_back() {
    let (mut book, heard) = book(2);
    let start = Instant::now();
    for path in ["a", "b", "c", "d"] {
        book.present(Path::new(path), State::numbered(1), start);
    }
    book.gone(Path::new("c"));
    book.gone(Path::new("a"));
    book.present(Path::new("d"), State::numbered(1), start);
    assert_eq!(take(&heard), ["+a", "+b", "more than 2", "-a", "+d"]);
}
