//! Zips read back as the agent reads them: by the central directory, with both
//! headers compared.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use bytes::Bytes;
use chrono::DateTime;
use futures_util::{StreamExt, TryStreamExt, stream};
use sha2::{Digest, Sha256};
use store::{Blobs, FileRow, FileSource};
use tempfile::TempDir;
use wire::workspace::FileId;
use zip::{CompressionMethod, ZipArchive};

use super::{PIECE, PackError, pack};

struct Bag {
    directory: TempDir,
    blobs: Blobs,
    files: Vec<FileRow>,
}

impl Bag {
    fn new() -> Bag {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Blobs::disk(directory.path()).unwrap();
        Bag { directory, blobs, files: Vec::new() }
    }

    async fn add(&mut self, name: &str, mime_type: &str, content: &[u8]) {
        let storage_key = format!("bag/{}", self.files.len());
        let bytes = stream::iter([Ok::<_, std::io::Error>(Bytes::copy_from_slice(content))]);
        let written = self.blobs.put(&storage_key, bytes, u64::MAX).await.unwrap();
        self.files.push(FileRow {
            id: FileId::from_random([7; 15]),
            workspace: "red".to_owned(),
            bag: Some("chat_1".to_owned()),
            message_id: None,
            name: name.to_owned(),
            mime_type: mime_type.to_owned(),
            size: written.size,
            sha256: written.sha256,
            storage_key,
            source: FileSource::User,
            created_at: DateTime::from_timestamp(1_700_000_000, 0).unwrap(),
            deleted_at: None,
        });
    }

    async fn packed(&self) -> Result<Vec<u8>, PackError> {
        let pieces: Vec<Bytes> = pack(self.blobs.clone(), self.files.clone()).try_collect().await?;
        Ok(pieces.concat())
    }
}

fn unpacked(zip: Vec<u8>) -> BTreeMap<String, Vec<u8>> {
    let mut archive = ZipArchive::new(Cursor::new(zip)).unwrap();
    archive.validate_header_consistency().unwrap();
    let mut files = BTreeMap::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        files.insert(entry.name().unwrap().into_owned(), content);
    }
    files
}

#[tokio::test]
async fn a_bag_is_read_back_as_it_was() {
    let mut bag = Bag::new();
    let noise: Vec<u8> =
        (0..300_000u32).flat_map(|n| Sha256::digest(n.to_le_bytes())[..1].to_vec()).collect();
    bag.add("a.txt", "text/plain", &b"hello ".repeat(50_000)).await;
    bag.add("A.txt", "text/plain", b"other").await;
    bag.add("photo.png", "image/png", &noise).await;
    bag.add("../up\\x", "application/octet-stream", b"").await;
    bag.add("ünï.md", "text/markdown", b"#").await;
    let zip = bag.packed().await.unwrap();
    assert!(zip.len() < 350_000, "{}", zip.len());
    let files = unpacked(zip);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, [".._up_x", "A-1.txt", "a.txt", "photo.png", "ünï.md"]);
    assert_eq!(files["a.txt"], b"hello ".repeat(50_000));
    assert!(files["photo.png"] == noise);
}

#[tokio::test]
async fn an_empty_bag_is_an_empty_zip() {
    assert!(unpacked(Bag::new().packed().await.unwrap()).is_empty());
}

#[tokio::test]
async fn a_large_file_is_stored_so_that_it_looks_like_no_bomb() {
    let mut bag = Bag::new();
    bag.add("zeros", "text/plain", &vec![0; (16 << 20) + 1]).await;
    bag.add("less", "text/plain", &vec![0; 1 << 20]).await;
    let mut archive = ZipArchive::new(Cursor::new(bag.packed().await.unwrap())).unwrap();
    let mut method = |name| archive.by_name(name).unwrap().compression();
    assert_eq!(method("zeros"), CompressionMethod::Stored);
    assert_eq!(method("less"), CompressionMethod::Deflated);
}

#[tokio::test]
async fn ten_thousand_files_come_in_small_pieces() {
    let mut bag = Bag::new();
    bag.add("one.txt", "text/plain", b"content").await;
    let one = bag.files.remove(0);
    bag.files = (0..10_000)
        .map(|number| FileRow { name: format!("{number}.txt"), ..one.clone() })
        .collect();
    let mut pieces = pack(bag.blobs.clone(), bag.files.clone()).boxed();
    let mut zip = Vec::new();
    let mut largest = 0;
    while let Some(piece) = pieces.try_next().await.unwrap() {
        largest = largest.max(piece.len());
        zip.extend_from_slice(&piece);
    }
    // The list of names at the end is the largest of them.
    assert!(largest < 2 << 20, "{largest}");
    assert_eq!(unpacked(zip).len(), 10_000);
}

#[tokio::test]
async fn what_cannot_be_read_breaks_the_zip_off() {
    let mut bag = Bag::new();
    for name in ["1", "2", "3"] {
        bag.add(name, "image/png", &vec![7; 4 * PIECE]).await;
    }
    bag.blobs.delete("bag/1").await.unwrap();
    let pieces: Vec<_> = pack(bag.blobs.clone(), bag.files.clone()).collect().await;
    let (last, before) = pieces.split_last().unwrap();
    assert!(before.iter().all(Result::is_ok) && !before.is_empty());
    assert!(matches!(last, Err(PackError::Open { name, .. }) if name == "2"), "{last:?}");

    std::fs::write(bag.directory.path().join("bag/1"), b"short").unwrap();
    let broken = bag.packed().await.unwrap_err();
    assert!(matches!(&broken, PackError::Size { name } if name == "2"), "{broken:?}");
}

#[tokio::test]
async fn a_reader_that_goes_away_ends_it() {
    let mut bag = Bag::new();
    bag.add("1", "image/png", &vec![7; 40 * PIECE]).await;
    let mut pieces = pack(bag.blobs.clone(), bag.files.clone()).boxed();
    assert!(pieces.next().await.unwrap().is_ok());
    drop(pieces);
}
