//! Many hands at once: whatever happens, the fold is the file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use watch::{Kind, Options, Told, Watcher};

use crate::fold::{Scene, listing};

/// Does something to a tree. Others do as well, so most of it may fail.
fn disturb(root: &Path, random: &mut SmallRng) {
    let mut place = || -> PathBuf {
        let depth = random.random_range(1..4);
        let names = (0..depth).map(|_| format!("n{}", random.random_range(0..5)));
        root.join(names.collect::<PathBuf>())
    };
    let (one, other) = (place(), place());
    let _ = match random.random_range(0..12) {
        0..4 => fs::write(&one, random.random_range(0..1_000_000u32).to_string()),
        4..6 => fs::create_dir_all(&one),
        6..8 => fs::rename(&one, &other),
        8 => fs::remove_file(&one),
        9 => fs::remove_dir_all(&one),
        10 => std::os::unix::fs::symlink("n0", &one),
        _ => fs::hard_link(&one, &other),
    };
}

#[test]
fn random_deeds_of_several_threads_add_up_to_the_file_system() {
    for seed in 0..6 {
        let mut scene = Scene::new();
        let root = scene.root().to_owned();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let root = &root;
                scope.spawn(move || {
                    let mut random = SmallRng::seed_from_u64(seed * 100 + thread);
                    (0..2500).for_each(|_| disturb(root, &mut random));
                });
            }
        });
        scene.finish();
        assert!(!scene.events.is_empty());
    }
}

#[test]
fn watches_are_right_after_a_storm_without_any_last_look() {
    let mut scene = Scene::new();
    let root = scene.root().to_owned();
    let mut random = SmallRng::seed_from_u64(7);
    (0..5000).for_each(|_| disturb(&root, &mut random));
    // A mark in every directory: each of them has to be watched by its name of now.
    let mut waiting = vec![root.clone()];
    while let Some(directory) = waiting.pop() {
        fs::write(directory.join("mark"), "1").unwrap();
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    scene.settle();
    scene.finish();
}

#[test]
fn ten_thousand_operations_are_told_one_by_one() {
    let mut scene = Scene::new();
    for number in 0..2500 {
        let directory = scene.path(&format!("d{}", number % 50));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(number.to_string()), "1").unwrap();
        let file = directory.join(format!("m{number}"));
        fs::write(&file, "1").unwrap();
        fs::rename(&file, directory.join(format!("r{number}"))).unwrap();
        fs::remove_file(directory.join(format!("r{number}"))).unwrap();
    }
    scene.finish();
    assert_eq!(scene.files.len(), 2500);
}

#[test]
fn a_listener_that_sleeps_through_an_overflow_misses_nothing_of_the_end() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("early"), "1").unwrap();
    let asleep = Arc::new(AtomicBool::new(true));
    let told = Arc::new(Mutex::new(Vec::new()));
    let (woken, kept) = (asleep.clone(), told.clone());
    let options = Options::of(directory.path());
    let watcher = Watcher::start(options, move |one: Told| {
        while woken.load(Ordering::Relaxed) {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        kept.lock().unwrap().push(one);
    });
    // More than the queue of the kernel holds, which is 16,384 unless tuned.
    let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let queue: usize = queue.trim().parse().unwrap();
    if queue > 100_000 {
        println!("skipped: the queue of this kernel holds {queue} events");
        return;
    }
    for number in 0..queue {
        fs::write(directory.path().join(format!("f{}", number % 3000)), "1").unwrap();
        if number % 2 == 0 {
            fs::remove_file(directory.path().join(format!("f{}", number % 3000))).unwrap();
        }
    }
    fs::remove_file(directory.path().join("early")).unwrap();
    asleep.store(false, Ordering::Relaxed);
    watcher.unwrap().finish();
    let mut files = std::collections::BTreeSet::from([PathBuf::from("early")]);
    for one in told.lock().unwrap().drain(..) {
        let Told::File(event) = one else { panic!("{one:?}") };
        let follows = match event.kind {
            Kind::Create => files.insert(event.path.clone()),
            Kind::Change => files.contains(&event.path),
            Kind::Delete => files.remove(&event.path),
        };
        assert!(follows, "{event:?}");
    }
    assert_eq!(files, listing(directory.path()));
}
