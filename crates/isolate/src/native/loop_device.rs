//! Loop devices: image files that can be mounted.
//!
//! A device is bound so that it lets go of its image by itself when nobody uses
//! it any more. Whoever dies in between leaves at most a device without image,
//! and `remove_spare` takes those away that the host did not begin with.

#![expect(unsafe_code, reason = "the requests of loop devices have no safe wrapper")]

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::fd::{AsRawFd, RawFd},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

/// Who gives devices out.
const CONTROL: &str = "/dev/loop-control";
/// Devices that a host has from the beginning, at least.
const FIRST: u32 = 8;
/// How long to try for a device. Others take the one that was just free, too.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a device may take to let go of its image.
const LETTING_GO: Duration = Duration::from_secs(5);
/// How long it may be busy with that afterwards.
const LINGERING: Duration = Duration::from_millis(200);

/// From the kernel's `linux/loop.h`.
const CONFIGURE: libc::Ioctl = 0x4C0A;
const REMOVE: libc::Ioctl = 0x4C81;
const GET_FREE: libc::Ioctl = 0x4C82;
const AUTOCLEAR: u32 = 4;

/// `struct loop_config` with its `struct loop_info64`.
#[repr(C)]
struct Config {
    image: u32,
    block_size: u32,
    numbers: [u64; 5],
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    names: [u8; 160],
    more: [u64; 10],
}

const _: () = assert!(size_of::<Config>() == 304);

/// A device with an image.
pub(super) struct LoopDevice {
    /// Its place in the host's tree.
    pub(super) path: PathBuf,
    /// Open: it would let go of its image otherwise.
    _open: File,
}

impl LoopDevice {
    /// Binds an image to a device that is free.
    pub(super) fn bind(image: &File) -> io::Result<LoopDevice> {
        let control = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let number = request(control.as_raw_fd(), GET_FREE, 0)?;
            match LoopDevice::take(number, image) {
                // Somebody else took it first, or takes it away.
                Err(err) if is_race(&err) && Instant::now() < deadline => {
                    thread::sleep(Duration::from_micros(200));
                }
                taken => return taken,
            }
        }
    }

    fn take(number: i32, image: &File) -> io::Result<LoopDevice> {
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let open = OpenOptions::new().read(true).write(true).open(&path)?;
        let config = Config {
            image: image.as_raw_fd() as u32,
            block_size: 4096,
            numbers: [0; 5],
            number: 0,
            encryption: [0; 2],
            flags: AUTOCLEAR,
            names: [0; 160],
            more: [0; 10],
        };
        request(open.as_raw_fd(), CONFIGURE, &raw const config as libc::c_ulong)?;
        Ok(LoopDevice { path, _open: open })
    }
}

fn is_race(err: &io::Error) -> bool {
    matches!(err.raw_os_error(), Some(libc::EBUSY | libc::ENOENT | libc::ENXIO | libc::ENODEV))
}

/// Whether this host gives devices out, and if not, why.
pub(super) fn can_be_had() -> io::Result<()> {
    OpenOptions::new().read(true).write(true).open(CONTROL).map(drop)
}

/// One use of a device: each has a number of its own, whatever the device's is.
pub(super) struct Use {
    place: PathBuf,
    sequence: String,
}

impl Use {
    /// The present use of the device behind a file system, by its number.
    pub(super) fn of(device: u64) -> io::Result<Use> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let place = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let sequence = fs::read_to_string(place.join("diskseq"))?;
        Ok(Use { place, sequence })
    }

    /// Waits until it is over.
    pub(super) fn wait_for_end(&self) -> io::Result<()> {
        let deadline = Instant::now() + LETTING_GO;
        while self.goes_on() {
            if Instant::now() > deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn goes_on(&self) -> bool {
        self.place.join("loop").exists()
            && fs::read_to_string(self.place.join("diskseq"))
                .is_ok_and(|sequence| sequence == self.sequence)
    }
}

/// When devices without an image are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thrift {
    /// As soon as those that the host began with are enough for all there is.
    WhenQuiet,
    /// At once: nobody here will need one again.
    AtOnce,
}

/// Removes the devices that have no image, except those that the host began
/// with. Whoever asks for one more gets it.
pub(super) fn remove_spare(thrift: Thrift) -> io::Result<()> {
    let control = OpenOptions::new().read(true).write(true).open(CONTROL)?;
    let first = fs::read_to_string("/sys/module/loop/parameters/max_loop")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .map_or(FIRST, |count: u32| count.max(FIRST));
    let mut bound = 0;
    let mut spare = Vec::new();
    for entry in fs::read_dir("/sys/block")? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("loop")?.parse::<u32>().ok());
        match number {
            Some(_) if entry.path().join("loop").exists() => bound += 1,
            Some(number) if number >= first => spare.push(number),
            Some(_) | None => {}
        }
    }
    if bound <= first || thrift == Thrift::AtOnce {
        for number in spare {
            remove(&control, number);
        }
    }
    Ok(())
}

/// Removes one device. It is busy for a moment after it let go of its image; one
/// that somebody has just taken stays.
fn remove(control: &File, number: u32) {
    let image = PathBuf::from(format!("/sys/block/loop{number}/loop"));
    let deadline = Instant::now() + LINGERING;
    while request(control.as_raw_fd(), REMOVE, number.into())
        .is_err_and(|err| err.raw_os_error() == Some(libc::EBUSY))
        && !image.exists()
        && Instant::now() < deadline
    {
        thread::sleep(Duration::from_millis(2));
    }
}

fn request(file: RawFd, request: libc::Ioctl, argument: libc::c_ulong) -> io::Result<i32> {
    // SAFETY: the descriptor is open, and the argument is a number or, for
    // CONFIGURE, a whole `Config` that lives until the call returns.
    match unsafe { libc::ioctl(file, request, argument) } {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(number),
    }
}
