//! A real S3 server, SeaweedFS: one for all tests of this binary, one bucket
//! for each case. And what only blobs in a bucket promise.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use store::{Blobs, PutError};

use super::{LIMIT, Place, chunks, read};

const KEY: &str = "tests";
const SECRET: &str = "not-much-of-a-secret";

/// Starts the program `$1` below `$2`, says so, and takes all of it away once
/// nobody holds the other end of its input any more: that is when the tests
/// have ended, in whatever way. The other arguments are ports.
const SUPERVISOR: &str = r#"
    exec 2>&1
    # Whoever started this reads one line and no more.
    trap '' PIPE
    cd "$2"
    "$1" -logtostderr=true server -dir=data -ip=127.0.0.1 -ip.bind=127.0.0.1 \
        -master.telemetry=false -master.volumeSizeLimitMB=64 -volume.max=400 \
        -volume.minFreeSpace=1MiB -filer -s3 -s3.config=s3.json \
        -s3.port.iceberg=0 -s3.port.lance=0 -filer.localSocket="$2/filer" -s3.localSocket="$2/s3" \
        -s3.port="$3" -filer.port="$4" -master.port="$5" -volume.port="$6" \
        -s3.port.grpc="$7" -filer.port.grpc="$8" -master.port.grpc="$9" -volume.port.grpc="${10}" \
        > server.log 2>&1 < /dev/null &
    server=$!
    until curl --silent --fail --noproxy '*' --output health "http://127.0.0.1:$3/healthz"; do
        kill -0 $server || { tail -n 20 server.log; break; }
        sleep 0.1
    done
    test -e health && echo ready
    read -r _
    kill -KILL $server
    cd /
    rm -r "$2"
    rm -f /tmp/seaweedfs-s3-grpc-$7.sock /tmp/seaweedfs-filer-grpc-$8.sock \
        /tmp/seaweedfs-master-grpc-$9.sock /tmp/seaweedfs-volume-grpc-${10}.sock
"#;

/// The server, or why there is none.
static SERVER: LazyLock<Result<Server, &'static str>> = LazyLock::new(start);
static BUCKETS: AtomicU32 = AtomicU32::new(0);

struct Server {
    port: u16,
    /// Where the server's own files can be looked at.
    filer: u16,
    /// Its input is open as long as this program runs.
    _supervisor: Child,
}

pub(super) struct Bucket {
    server: &'static Server,
    name: String,
}

/// A bucket with nothing in it, or `None` where there is no server.
pub(super) fn fresh() -> Option<Bucket> {
    match &*SERVER {
        Ok(server) => {
            let number = BUCKETS.fetch_add(1, Ordering::Relaxed);
            Some(Bucket { server, name: format!("bucket-{number}") })
        }
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    }
}

impl Place for Bucket {
    fn blobs(&self) -> Blobs {
        self.open("bags/here", SECRET)
    }

    fn everything(&self) -> Vec<String> {
        self.below(&format!("/buckets/{}", self.name))
    }
}

impl Bucket {
    fn open(&self, prefix: &str, secret: &str) -> Blobs {
        let endpoint = format!("http://127.0.0.1:{}", self.server.port);
        let url = format!("s3://{}/{prefix}?endpoint={endpoint}&region=eu-west-9", self.name);
        Blobs::s3_in(&url, |name| match name {
            "AWS_ACCESS_KEY_ID" => Some(KEY.to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some(secret.to_owned()),
            _ => None,
        })
        .unwrap()
    }

    /// The server's files below a directory, parts of unfinished ones too.
    fn below(&self, directory: &str) -> Vec<String> {
        let encoded = directory.replace('%', "%25").replace(' ', "%20").replace('#', "%23");
        let request =
            format!("GET {encoded}/?limit=10000 HTTP/1.0\r\nAccept: application/json\r\n\r\n");
        let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server.filer)).unwrap();
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        if head.starts_with("HTTP/1.0 404") {
            return Vec::new();
        }
        assert!(head.starts_with("HTTP/1.0 200"), "{directory}: {head}");
        let listing: Value = serde_json::from_str(body).unwrap();
        let mut files = Vec::new();
        for entry in listing["Entries"].as_array().into_iter().flatten() {
            let path = entry["FullPath"].as_str().unwrap().to_owned();
            let mode = entry["Mode"].as_u64().unwrap();
            // Go's bit of a directory.
            if mode >> 31 & 1 == 1 { files.extend(self.below(&path)) } else { files.push(path) }
        }
        files
    }
}

fn start() -> Result<Server, &'static str> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/weed");
    if !program.is_file() {
        return Err("there is no SeaweedFS; `cargo xtask test` installs it");
    }
    let directory = tempfile::Builder::new().prefix("mayfly-s3").tempdir().unwrap().keep();
    std::fs::create_dir(directory.join("data")).unwrap();
    let users = serde_json::json!({"identities": [{
        "name": "tests",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List"],
    }]});
    std::fs::write(directory.join("s3.json"), users.to_string()).unwrap();
    let ports = free_ports();
    let mut supervisor = Command::new("sh")
        .args(["-c", SUPERVISOR, "sh"])
        .args([&program, &directory])
        .args(ports.map(|port| port.to_string()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A Ctrl-C is for the tests; the supervisor has to outlive them.
        .process_group(0)
        .spawn()
        .unwrap();
    let said = BufReader::new(supervisor.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    assert_eq!(said, "ready");
    Ok(Server { port: ports[0], filer: ports[1], _supervisor: supervisor })
}

/// Ports nobody has now; all are held until the last one is known.
fn free_ports() -> [u16; 8] {
    let held = [(); 8].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

#[tokio::test]
async fn the_prefix_keeps_two_servers_of_one_bucket_apart() {
    let Some(bucket) = fresh() else { return };
    let (one, two) = (bucket.open("one", SECRET), bucket.open("", SECRET));
    one.put("a", chunks(b"first"), LIMIT).await.unwrap();
    two.put("a", chunks(b"second"), LIMIT).await.unwrap();
    assert_eq!(read(&one, "a").await, b"first");
    assert_eq!(read(&two, "one/a").await, b"first");
    assert_eq!(read(&two, "a").await, b"second");
}

#[tokio::test]
async fn a_wrong_secret_is_refused_and_not_told() {
    let Some(bucket) = fresh() else { return };
    let refused = bucket.open("", "hunter2").check().await.unwrap_err();
    assert!(matches!(refused, PutError::Store(_)), "{refused:?}");
    assert_eq!(refused.to_string(), "the blob store did not answer");
    assert!(!format!("{refused:?}").contains("hunter2"));
    assert!(bucket.everything().is_empty());
}

#[tokio::test]
async fn a_server_that_is_away_is_an_error() {
    // Nobody listens on port 1.
    let blobs = Blobs::s3_in("s3://bucket?endpoint=http://127.0.0.1:1", |name| {
        name.contains("ACCESS_KEY").then(|| "x".to_owned())
    });
    let refused = blobs.unwrap().check().await.unwrap_err();
    assert!(matches!(refused, PutError::Store(_)), "{refused:?}");
}
