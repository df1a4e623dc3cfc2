//! How much may be stored, in one request and in one bag.

/// What one request may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UploadLimits {
    /// Most files.
    pub(crate) files: usize,
    /// Most bytes of one of them.
    pub(crate) file_bytes: u64,
    /// Most bytes of all of them.
    pub(crate) total_bytes: u64,
}

/// A user's upload.
pub(crate) const USER: UploadLimits =
    UploadLimits { files: 1_000, file_bytes: 100 << 20, total_bytes: 512 << 20 };

/// What a sandbox writes back: as much as its agent sends.
pub(crate) const WRITEBACK: UploadLimits =
    UploadLimits { files: 20, file_bytes: 25 << 20, total_bytes: 50 << 20 };

/// Most bytes of one bag: what an agent unpacks.
pub(crate) const BAG_BYTES: u64 = 512 << 20;
/// Most files of one bag: what an agent unpacks.
pub(crate) const BAG_FILES: u64 = 10_000;
