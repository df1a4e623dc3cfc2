//! The bag by its routes: uploads, collisions, limits, content, zip, writeback.

mod scene;

use std::io::{Cursor, Read};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use reqwest::Method;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use wire::workspace::ChatId;

use scene::{Scene, form, read, token};

fn names(stored: &Value) -> Vec<&str> {
    let files = stored["files"].as_array().unwrap();
    files.iter().map(|file| file["name"].as_str().unwrap()).collect()
}

async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn a_form_is_stored_listed_and_read_back() {
    let scene = Scene::start().await;
    let chat = scene.chat().await;
    let (status, stored) =
        scene.upload(&chat, &[("a b.txt", b"hello"), ("../x/pic", b"\x89PNG\r\n\x1a\n...")]).await;
    assert_eq!(status, 201, "{stored}");
    assert_eq!(names(&stored), ["a b.txt", "pic"]);
    let first = &stored["files"][0];
    assert_eq!(first["mimeType"], "text/plain");
    assert_eq!(stored["files"][1]["mimeType"], "image/png");
    assert_eq!(first["source"], "user");
    assert_eq!(first["chatId"], chat.as_str());
    let key = format!("assistant-chat-bag/red/{chat}/a%20b.txt");
    assert_eq!(first["storageKey"], key.as_str());
    assert_eq!(std::fs::read(scene.data.path().join("blobs").join(&key)).unwrap(), b"hello");
    assert_eq!(scene.names(&chat).await, ["a b.txt", "pic"]);

    let id = first["id"].as_str().unwrap();
    let path = format!("/api/assistant/conversations/{chat}/files/{id}");
    assert_eq!(scene.get(&path).await.1, *first);
    let content = scene.ask(Method::GET, &format!("{path}/content")).send().await.unwrap();
    let header = |name: &str| content.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-security-policy"), "sandbox");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("content-length"), "5");
    let disposition = "attachment; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt";
    assert_eq!(header("content-disposition"), disposition);
    let tag = header("etag");
    assert_eq!(tag, format!("\"{}\"", first["sha256"].as_str().unwrap()));
    assert_eq!(content.bytes().await.unwrap(), "hello");

    let again = scene.ask(Method::GET, &format!("{path}/content")).header("if-none-match", &tag);
    assert_eq!(again.send().await.unwrap().status(), 304);
    let part = scene.ask(Method::GET, &format!("{path}/content")).header("range", "bytes=1-2");
    let part = part.send().await.unwrap();
    assert_eq!((part.status().as_u16(), part.bytes().await.unwrap()), (206, "el".into()));

    assert_eq!(scene.ask(Method::DELETE, &path).send().await.unwrap().status(), 204);
    assert_eq!(scene.get(&path).await.0, 404);
    assert_eq!(scene.names(&chat).await, ["pic"]);
    // The name stays taken, so that no content is ever overwritten.
    let (_, stored) = scene.upload(&chat, &[("a b.txt", b"other")]).await;
    assert_eq!(names(&stored), ["a b-1.txt"]);
    scene.end().await;
}

#[tokio::test]
async fn files_of_one_request_are_listed_in_the_order_they_were_sent() {
    let scene = Scene::start().await;
    let chat = scene.chat().await;
    // So many that some of them come in the same millisecond.
    let sent: Vec<String> = (0..20).rev().map(|number| format!("{number:02}")).collect();
    let files: Vec<(&str, &[u8])> = sent.iter().map(|name| (name.as_str(), &b""[..])).collect();
    let (status, stored) = scene.upload(&chat, &files).await;
    assert_eq!((status, names(&stored).len()), (201, 20), "{stored}");
    assert_eq!(scene.names(&chat).await, sent);
    scene.end().await;
}

#[tokio::test]
async fn a_body_of_its_own_is_a_file_too() {
    let scene = Scene::start().await;
    let chat = scene.chat().await;
    let path = format!("/api/assistant/conversations/{chat}/files/r%C3%A9sum%C3%A9.pdf");
    for expected in ["résumé.pdf", "résumé-1.pdf"] {
        let sent = scene.ask(Method::PUT, &path).body("%PDF-1.7").send().await.unwrap();
        let (status, stored) = read(sent).await;
        assert_eq!((status, stored["name"].as_str()), (201, Some(expected)), "{stored}");
        assert_eq!(stored["mimeType"], "application/pdf");
    }
    scene.end().await;
}

#[tokio::test]
async fn many_uploads_of_one_name_at_once_all_get_their_own() {
    let scene = Scene::start().await;
    let chat = scene.chat().await;
    let content: Vec<String> = (0..500).map(|number| format!("content {number}")).collect();
    let uploads = content.iter().map(|content| scene.upload_one(&chat, content));
    let stored = stream::iter(uploads).buffer_unordered(100).collect::<Vec<_>>().await;
    let mut given: Vec<String> = stored;
    given.sort();
    given.dedup();
    assert_eq!(given.len(), 500);
    assert!(given.contains(&"same.txt".to_owned()) && given.contains(&"same-499.txt".to_owned()));
    assert_eq!(scene.blobs().len(), 500);
    scene.end().await;
}

impl Scene {
    /// Uploads one file, and reads it back; what it is called.
    async fn upload_one(&self, chat: &ChatId, content: &str) -> String {
        let (status, stored) = self.upload(chat, &[("same.txt", content.as_bytes())]).await;
        assert_eq!(status, 201, "{stored}");
        let id = stored["files"][0]["id"].as_str().unwrap();
        let path = format!("/api/assistant/conversations/{chat}/files/{id}/content");
        let read = self.ask(Method::GET, &path).send().await.unwrap();
        assert_eq!(read.text().await.unwrap(), content);
        names(&stored)[0].to_owned()
    }
}

#[tokio::test]
async fn a_file_that_is_too_large_is_refused_and_nothing_of_its_form_is_stored() {
    let scene = Scene::start().await;
    let chat = scene.chat().await;
    let large = vec![b'x'; (100 << 20) + 1];
    let (status, refused) = scene.upload(&chat, &[("small", b"1"), ("large", &large)]).await;
    assert_eq!((status, refused["code"].as_str()), (413, Some("too_large")), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("104857600"), "{refused}");
    assert!(scene.names(&chat).await.is_empty());
    assert!(scene.blobs().is_empty());
    // By its declared length, and by what really comes.
    let path = format!("/api/assistant/conversations/{chat}/files/large");
    let declared = scene.ask(Method::PUT, &path).body(large.clone());
    let chunks = large.chunks(1 << 20).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec()));
    let chunks = stream::iter(chunks.collect::<Vec<_>>());
    let undeclared = scene.ask(Method::PUT, &path).body(reqwest::Body::wrap_stream(chunks));
    for request in [declared, undeclared] {
        let (status, refused) = read(request.send().await.unwrap()).await;
        assert_eq!((status, refused["code"].as_str()), (413, Some("too_large")), "{refused}");
    }
    assert!(scene.blobs().is_empty());
    // The names are free again.
    let (_, stored) = scene.upload(&chat, &[("small", b"1")]).await;
    assert_eq!(names(&stored), ["small"]);
    scene.end().await;
}

#[tokio::test]
async fn what_is_no_upload_is_refused_by_name() {
    let scene = Scene::start().await;
    let chat = scene.chat().await;
    let path = format!("/api/assistant/conversations/{chat}/files");
    let check = async |content_type: &str, body: &str, expected: (u16, &str)| {
        let request = scene.ask(Method::POST, &path).header("content-type", content_type);
        let (status, refused) = read(request.body(body.to_owned()).send().await.unwrap()).await;
        let code = refused["code"].as_str().unwrap_or_default();
        assert_eq!((status, code), expected, "{body}: {refused}");
    };
    let multipart = "multipart/form-data; boundary=X";
    check("application/json", "{}", (415, "invalid_argument")).await;
    check("multipart/form-data", "", (415, "invalid_argument")).await;
    check(multipart, "--X--\r\n", (400, "invalid_argument")).await;
    check(multipart, "", (400, "upload_broken")).await;
    let part = |disposition: &str| {
        format!("--X\r\nContent-Disposition: form-data; {disposition}\r\n\r\nx\r\n--X--\r\n")
    };
    check(multipart, &part("name=\"other\"; filename=\"a\""), (400, "invalid_argument")).await;
    check(multipart, &part("name=\"file\""), (400, "invalid_argument")).await;
    let cut = "--X\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nabc";
    check(multipart, cut, (400, "upload_broken")).await;
    assert!(scene.blobs().is_empty() && scene.names(&chat).await.is_empty());
    let elsewhere = scene.upload(&ChatId::from_random([1; 15]), &[("a", b"x")]).await;
    assert_eq!(elsewhere.0, 404);
    scene.end().await;
}

#[tokio::test]
async fn a_client_that_breaks_off_leaves_nothing() {
    let scene = Scene::start().await;
    let chat = scene.chat().await;
    let part = "--X\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
    let mut client = TcpStream::connect(scene.address).await.unwrap();
    let head = format!(
        "POST /api/assistant/conversations/{chat}/files HTTP/1.1\r\nHost: x\r\nX-API-Key: red\r\n\
         Content-Type: multipart/form-data; boundary=X\r\nContent-Length: 90000000\r\n\r\n\
         {part}one whole file\r\n{part}"
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&vec![b'x'; 20 << 20]).await.unwrap();
    wait_until("a blob is begun", || !scene.blobs().is_empty()).await;
    drop(client);
    wait_until("everything is taken back", || scene.blobs().is_empty()).await;
    assert!(scene.names(&chat).await.is_empty());
    scene.end().await;
}

#[tokio::test]
async fn a_server_that_stops_does_not_take_half_a_body_for_a_whole_one() {
    let scene = Scene::start().await;
    let chat = scene.chat().await;
    let mut client = TcpStream::connect(scene.address).await.unwrap();
    let head = format!(
        "PUT /api/assistant/conversations/{chat}/files/half HTTP/1.1\r\nHost: x\r\n\
         X-API-Key: red\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"
    );
    client.write_all(head.as_bytes()).await.unwrap();
    let store = scene.store.clone();
    let files = async || store.bag_totals(chat.as_str()).await.unwrap().0;
    // A file is reserved as soon as its upload is under way.
    for _ in 0..500 {
        if files().await == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(files().await, 1);
    let data = scene.end().await;
    assert_eq!(files().await, 0);
    drop(data);
}

#[tokio::test]
async fn a_run_writes_back_once_and_all_or_nothing() {
    let scene = Scene::start().await;
    let chat = scene.chat().await;
    let session = scene.session(&chat).await;
    let write = async |address: &str, token: &str, files: &[(&str, &[u8])]| {
        let request = scene.bare(Method::POST, address).header("authorization", token);
        read(form(request, files).send().await.unwrap()).await
    };
    let results = format!("/api/assistant/sandbox/{session}/results");
    let upload = token("otp_upload", &session);
    let (status, refused) = write(&results, "otp_unknown", &[("a", b"x")]).await;
    assert_eq!((status, refused["code"].as_str()), (401, Some("otp_unknown")), "{refused}");
    let (status, refused) = write(&results, &token("otp_run", &session), &[("a", b"x")]).await;
    assert_eq!((status, refused["code"].as_str()), (401, Some("otp_unknown")), "{refused}");

    scene.upload(&chat, &[("report.md", b"# old")]).await;
    let (status, stored) = write(&results, &upload, &[("report.md", b"# new"), ("b", b"")]).await;
    assert_eq!(status, 200, "{stored}");
    assert_eq!(names(&stored), ["report-1.md", "b"]);
    let fields: Vec<&String> = stored["files"][0].as_object().unwrap().keys().collect();
    assert_eq!(fields.len(), 6, "{fields:?}");
    assert_eq!(scene.names(&chat).await, ["report.md", "report-1.md", "b"]);
    let id = stored["files"][0]["id"].as_str().unwrap();
    let path = format!("/api/assistant/conversations/{chat}/files/{id}");
    assert_eq!(scene.get(&path).await.1["source"], "sandbox");

    let (status, refused) = write(&results, &upload, &[("c", b"x")]).await;
    assert_eq!((status, refused["code"].as_str()), (401, Some("otp_used")), "{refused}");

    // The other address; more files than may be.
    let session = scene.session(&chat).await;
    let writeback = format!("/api/assistant/sandbox/{session}/assets/writeback");
    let many = [("n", &b"x"[..]); 21];
    let upload = format!("Bearer {}", token("otp_upload", &session));
    let (status, refused) = write(&writeback, &upload, &many).await;
    assert_eq!((status, refused["code"].as_str()), (413, Some("too_large")), "{refused}");
    assert_eq!(scene.names(&chat).await, ["report.md", "report-1.md", "b"]);
    assert_eq!(scene.blobs().len(), 3);
    scene.end().await;
}

#[tokio::test]
async fn the_bag_is_a_zip_behind_an_address_that_cannot_be_changed() {
    let scene = Scene::start().await;
    let chat = scene.chat().await;
    let config = async |chat: &ChatId| {
        let session = scene.session(chat).await;
        let path = format!("/api/assistant/sandbox/{session}/config");
        let request = scene.bare(Method::GET, &path);
        let request = request.header("authorization", token("otp_run", &session));
        let (status, config) = read(request.send().await.unwrap()).await;
        assert_eq!(status, 200, "{config}");
        config
    };
    assert!(config(&chat).await.get("assets").is_none_or(Value::is_null));
    scene.upload(&chat, &[("a.txt", b"hello"), ("A.txt", b"other")]).await;
    let assets = config(&chat).await["assets"].clone();
    let url = assets["url"].as_str().unwrap().to_owned();
    assert_eq!(assets["files"].as_array().unwrap().len(), 2);

    let zip = scene.bare(Method::GET, &url).send().await.unwrap();
    assert_eq!(zip.status(), 200);
    let zip = zip.bytes().await.unwrap();
    let mut archive = zip::ZipArchive::new(Cursor::new(zip)).unwrap();
    let mut content = String::new();
    archive.by_name("a.txt").unwrap().read_to_string(&mut content).unwrap();
    assert_eq!((content.as_str(), archive.len()), ("hello", 2));
    assert!(archive.by_name("A-1.txt").is_ok());

    let other = scene.chat().await;
    let refused = async |url: String, expected: (u16, &str)| {
        let (status, refused) = read(scene.bare(Method::GET, &url).send().await.unwrap()).await;
        assert_eq!((status, refused["code"].as_str().unwrap()), expected, "{url}");
    };
    let bad = (403, "bad_signature");
    refused(url.replace(chat.as_str(), other.as_str()), bad).await;
    refused(url.replace("exp=", "exp=1"), bad).await;
    refused(url.replace("workspace=red", "workspace=blue"), bad).await;
    refused(format!("{url}0"), bad).await;
    refused(url.replace("sig=", "sig=0"), bad).await;
    let (bare, _) = url.split_once('?').unwrap();
    assert_eq!(scene.bare(Method::GET, bare).send().await.unwrap().status(), 400);
    assert!(scene.store.delete_conversation("red", &chat, chrono::Utc::now()).await.unwrap());
    refused(url, (404, "not_found")).await;
    scene.end().await;
}

#[tokio::test]
async fn a_file_is_copied_to_the_workspace_only_when_asked() {
    let scene = Scene::start().await;
    let chat = scene.chat().await;
    let (_, stored) = scene.upload(&chat, &[("a.txt", b"hello")]).await;
    assert_eq!(scene.get("/api/workspace/files").await.1["items"], serde_json::json!([]));
    let id = stored["files"][0]["id"].as_str().unwrap();
    let path = format!("/api/assistant/conversations/{chat}/files/{id}/promote");
    let mut promoted = Value::Null;
    for expected in ["a.txt", "a-1.txt"] {
        let (status, file) = read(scene.ask(Method::POST, &path).send().await.unwrap()).await;
        assert_eq!((status, file["name"].as_str()), (201, Some(expected)), "{file}");
        promoted = file;
    }
    assert_eq!(promoted["storageKey"], "workspace-files/red/a-1.txt");
    assert_ne!(promoted["id"], stored["files"][0]["id"]);
    assert_eq!(scene.names(&chat).await, ["a.txt"]);
    assert!(scene.store.delete_conversation("red", &chat, chrono::Utc::now()).await.unwrap());
    let path = format!("/api/workspace/files/{}/content", promoted["id"].as_str().unwrap());
    let content = scene.ask(Method::GET, &path).send().await.unwrap();
    assert_eq!(content.text().await.unwrap(), "hello");
    scene.end().await;
}

#[tokio::test]
async fn the_workspaces_files_are_for_its_members_alone() {
    let scene = Scene::start().await;
    let chat = scene.chat().await;
    let session = scene.session(&chat).await;
    let bearer = format!("Bearer {}", token("asbx_", &session));
    let upload = scene.bare(Method::POST, "/api/workspace/files").header("authorization", &bearer);
    let (status, stored) = read(form(upload, &[("a.txt", b"hello")]).send().await.unwrap()).await;
    assert_eq!((status, &stored["files"][0]["source"]), (201, &"sandbox".into()), "{stored}");
    let id = stored["files"][0]["id"].as_str().unwrap();
    let path = format!("/api/workspace/files/{id}");
    let as_team = async |team: &str, method: Method, path: &str| {
        let request = scene.bare(method, path).header("x-api-key", team);
        request.send().await.unwrap().status().as_u16()
    };
    for path in [path.clone(), format!("{path}/content")] {
        assert_eq!(as_team("red", Method::GET, &path).await, 200);
        assert_eq!(as_team("blue", Method::GET, &path).await, 404);
    }
    assert_eq!(as_team("blue", Method::DELETE, &path).await, 404);
    let bag = format!("/api/assistant/conversations/{chat}/files");
    assert_eq!(as_team("blue", Method::GET, &bag).await, 404);
    // A sandbox has no business in the bag but its own writeback.
    let sandbox = scene.bare(Method::GET, &bag).header("authorization", &bearer);
    assert_eq!(sandbox.send().await.unwrap().status(), 403);
    assert_eq!(as_team("red", Method::DELETE, &path).await, 204);
    assert_eq!(as_team("red", Method::GET, &path).await, 404);
    scene.end().await;
}
