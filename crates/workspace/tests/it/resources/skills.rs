//! Skills: the ways in, what is refused, and what comes out again.

use std::io::{Cursor, Read, Write};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zip::{ZipArchive, ZipWriter, write::SimpleFileOptions};

use super::place::{Place, answer, refused};

const MANUAL: &str = "---\nname: pdf\ndescription: Reads PDFs.\n---\n# PDF\n";
const BOUNDARY: &str = "boundary-of-the-test";

/// A form of parts, each with a name, maybe a file name, and its bytes.
fn form(request: RequestBuilder, parts: &[(&str, Option<&str>, &[u8])]) -> RequestBuilder {
    let mut body = Vec::new();
    for (name, file, bytes) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        write!(
            body,
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n"
        )
        .unwrap();
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    write!(body, "--{BOUNDARY}--\r\n").unwrap();
    request
        .header("x-api-key", "red")
        .header("content-type", format!("multipart/form-data; boundary={BOUNDARY}"))
        .body(body)
}

fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, bytes) in files {
        if path.ends_with('/') {
            writer.add_directory(*path, SimpleFileOptions::default()).unwrap();
        } else {
            writer.start_file(*path, SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
    }
    writer.finish().unwrap().into_inner()
}

impl Place {
    async fn send(&self, parts: &[(&str, Option<&str>, &[u8])]) -> (u16, Value) {
        answer(form(self.request(Method::POST, "/api/skills"), parts)).await
    }

    async fn send_zip(&self, name: &str, zip: &[u8]) -> (u16, Value) {
        self.send(&[("name", None, name.as_bytes()), ("bundle", Some("a.zip"), zip)]).await
    }

    async fn bundle(&self, id: &str) -> Vec<u8> {
        let request = self.request(Method::GET, &format!("/api/skills/{id}/bundle"));
        let answer = request.header("x-api-key", "red").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/zip");
        answer.bytes().await.unwrap().to_vec()
    }
}

#[tokio::test]
async fn a_zip_and_a_folder_of_the_same_files_have_the_same_version() {
    let place = Place::start().await;
    let script = b"#!/bin/sh\necho hi\n";
    let zip = zipped(&[
        ("pdf/", b""),
        ("pdf/recipes/", b""),
        ("pdf/recipes/read.sh", script),
        ("__MACOSX/pdf/._SKILL.md", b"litter"),
        ("pdf/SKILL.md", MANUAL.as_bytes()),
    ]);
    let (status, one) = place.send(&[("bundle", Some("pdf.zip"), &zip)]).await;
    assert_eq!(status, 201, "{one}");
    let said = (one["name"].as_str(), one["description"].as_str(), one["files"].as_u64());
    assert_eq!(said, (Some("pdf"), Some("Reads PDFs."), Some(2)));
    let (status, two) = place
        .send(&[
            ("file", Some("SKILL.md"), MANUAL.as_bytes()),
            ("file", Some("recipes/read.sh"), script),
            ("name", None, b"folder"),
            ("description", None, b"Mine."),
        ])
        .await;
    assert_eq!(status, 201, "{two}");
    assert_eq!(
        (two["name"].as_str(), two["description"].as_str()),
        (Some("folder"), Some("Mine."))
    );
    assert_eq!(one["version"], two["version"]);

    let packed = place.bundle(one["id"].as_str().unwrap()).await;
    assert_eq!(one["version"], wire::hex(&Sha256::digest(&packed)));
    assert_eq!(one["size"], packed.len());
    let mut archive = ZipArchive::new(Cursor::new(packed)).unwrap();
    let names: Vec<String> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
    assert_eq!(names, ["SKILL.md", "recipes/read.sh"]);
    let mut recipe = archive.by_name("recipes/read.sh").unwrap();
    assert_eq!(recipe.unix_mode().map(|mode| mode & 0o777), Some(0o755));
    let mut bytes = Vec::new();
    recipe.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, script);
    let key = format!("blobs/skills/red/{}", one["version"].as_str().unwrap());
    assert!(place.data().join(key).is_file());
    place.end().await;
}

#[tokio::test]
async fn a_skill_is_replaced_used_and_taken_away() {
    let place = Place::start().await;
    let (_, made) = place.send_zip("pdf", &zipped(&[("SKILL.md", b"one")])).await;
    let id = made["id"].as_str().unwrap();
    let path = format!("/api/skills/{id}");
    let zip = zipped(&[("SKILL.md", b"two")]);
    let parts: [(&str, Option<&str>, &[u8]); 2] =
        [("name", None, b"pdf"), ("bundle", Some("a.zip"), &zip)];
    let (status, replaced) = answer(form(place.request(Method::PUT, &path), &parts)).await;
    assert_eq!(status, 200, "{replaced}");
    assert_eq!(replaced["id"], made["id"]);
    assert_ne!(replaced["version"], made["version"]);
    refused(&place.send_zip("pdf", &zip).await, 409, "name_taken", "name");
    refused(&place.send_zip("actana_tables", &zip).await, 409, "name_taken", "name");

    let agent = json!({"name": "a", "systemPrompt": "", "skillIds": [id]});
    let agent = place.make("/api/agents", agent).await;
    let (_, config) = place.callback(&place.session(Some(&agent)).await, "config").await;
    let told = &config["skills"][0];
    assert_eq!((&told["id"], &told["name"]), (&made["id"], &json!("pdf")));
    assert_eq!(told["version"], replaced["version"]);
    let fetched = reqwest::get(told["url"].as_str().unwrap()).await.unwrap();
    let fetched = fetched.bytes().await.unwrap();
    assert_eq!(replaced["version"], wire::hex(&Sha256::digest(&fetched)));
    refused(&place.ask(Method::DELETE, &path, Value::Null).await, 409, "in_use", "");
    let agent = format!("/api/agents/{agent}");
    assert_eq!(place.ask(Method::DELETE, &agent, Value::Null).await.0, 204);
    assert_eq!(place.ask(Method::DELETE, &path, Value::Null).await.0, 204);
    assert_eq!(place.get(&path).await.0, 404);
    place.end().await;
}

#[tokio::test]
async fn what_is_no_skill_is_refused_and_nothing_of_it_is_stored() {
    let place = Place::start().await;
    let bad = "bad_bundle";
    let zip = |files: &[(&str, &[u8])]| zipped(files);
    let mut linked = ZipWriter::new(Cursor::new(Vec::new()));
    linked.start_file("SKILL.md", SimpleFileOptions::default()).unwrap();
    linked.add_symlink("out", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    let linked = linked.finish().unwrap().into_inner();
    for bundle in [
        b"no zip at all".to_vec(),
        Vec::new(),
        zip(&[("README.md", b"")]),
        zip(&[("a/SKILL.md", b""), ("b/x", b"")]),
        zip(&[("SKILL.md", b""), ("../x", b"")]),
        zip(&[("SKILL.md", b""), ("/etc/x", b"")]),
        zip(&[("SKILL.md", b""), ("a\\b", b"")]),
        zip(&[("SKILL.md", b""), ("a", b""), ("A", b"")]),
        linked,
    ] {
        refused(&place.send_zip("x", &bundle).await, 400, bad, "bundle");
    }
    for path in ["../SKILL.md", "/SKILL.md", "a/../SKILL.md", ""] {
        refused(&place.send(&[("file", Some(path), b"x")]).await, 400, bad, "file");
    }
    let good = zip(&[("SKILL.md", b"")]);
    refused(&place.send(&[("bundle", None, &good)]).await, 400, "invalid_argument", "name");
    refused(&place.send_zip("a\tb", &good).await, 400, "invalid_argument", "name");
    refused(&place.send(&[("name", None, b"x")]).await, 400, "invalid_argument", "bundle");
    refused(&place.send(&[("other", None, b"x")]).await, 400, "invalid_argument", "other");
    let both: [(&str, Option<&str>, &[u8]); 2] =
        [("bundle", None, &good), ("file", Some("SKILL.md"), b"")];
    refused(&place.send(&both).await, 400, "invalid_argument", "file");
    assert_eq!(place.ask(Method::POST, "/api/skills", json!({})).await.0, 415);
    assert!(!place.data().join("blobs/skills").exists());
    place.end().await;
}

#[tokio::test]
async fn a_bomb_ends_at_the_limit() {
    let place = Place::start().await;
    let zeros = vec![0; 30 << 20];
    let bomb = zipped(&[("SKILL.md", b""), ("a", &zeros), ("b", &zeros)]);
    assert!(bomb.len() < 1 << 20);
    refused(&place.send_zip("x", &bomb).await, 413, "too_large", "bundle");
    // One that lies about its sizes, in both of its headers.
    let mut liar = bomb;
    let size = u32::try_from(zeros.len()).unwrap().to_le_bytes();
    while let Some(place) = liar.windows(4).position(|part| part == size) {
        liar[place..place + 4].copy_from_slice(&1u32.to_le_bytes());
    }
    let (status, answer) = place.send_zip("x", &liar).await;
    assert!(status == 400 || status == 413, "{answer}");
    let names: Vec<String> = (0..2_001).map(|number| format!("f{number}")).collect();
    let mut files: Vec<(&str, &[u8])> =
        names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    files.push(("SKILL.md", b""));
    refused(&place.send_zip("x", &zipped(&files)).await, 413, "too_large", "bundle");
    place.end().await;
}

#[tokio::test]
async fn the_skills_of_ours_are_listed_and_fetched() {
    let place = Place::start().await;
    let (status, listed) = place.get("/api/skills/built-in").await;
    assert_eq!(status, 200);
    for skill in listed["items"].as_array().unwrap() {
        let packed = place.bundle(skill["id"].as_str().unwrap()).await;
        assert_eq!(skill["version"], wire::hex(&Sha256::digest(&packed)));
        assert!(ZipArchive::new(Cursor::new(packed)).unwrap().by_name("SKILL.md").is_ok());
    }
    place.end().await;
}
