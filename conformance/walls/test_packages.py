"""Packages are installed inside a sandbox, from an internet that the test itself serves."""

import base64
import hashlib
import os
import shutil
import signal
import subprocess
import zipfile
from pathlib import Path

import pytest

import daemon
from serving import Server
from town import NAME_SERVER, SERVICE, Town

if not shutil.which("dpkg-deb") or not shutil.which("nft"):
    pytest.skip("needs dpkg-deb and nft", allow_module_level=True)

CONTROL = """Package: mayfly-greeting
Version: 1.0
Architecture: all
Maintainer: Nobody <nobody@a.test>
Description: says hello
"""


def debian_repository(place: Path) -> None:
    """One package, and the list of it."""
    tree = place.parent / "package"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(CONTROL)
    program = tree / "usr/local/bin/greeting"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho hello from a package\n")
    program.chmod(0o755)
    place.mkdir()
    package = place / "greeting.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, package], check=True, capture_output=True)
    content = package.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    entry = f"{CONTROL}Filename: ./greeting.deb\nSize: {len(content)}\nSHA256: {digest}\n"
    (place / "Packages").write_text(entry)
    shutil.rmtree(tree)


def python_index(place: Path) -> None:
    """One wheel, written by hand, and the page that names it."""
    directory = place / "mayfly-greeting"
    directory.mkdir(parents=True)
    name = "mayfly_greeting-1.0-py3-none-any.whl"
    info = "mayfly_greeting-1.0.dist-info"
    files = {
        "mayfly_greeting.py": "WORDS = 'hello from a wheel'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: mayfly-greeting\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    with zipfile.ZipFile(directory / name, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
            record += f"{path},sha256={digest.decode()},{len(text)}\n"
        wheel.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    (directory / "index.html").write_text(f'<a href="{name}">{name}</a>')


@pytest.fixture(scope="module")
def door():
    """The door of a sandbox of the default template, in a town with both repositories."""
    with Town() as town:
        files = Path(town.files.name)
        debian_repository(files / "debian")
        python_index(files / "simple")
        data = Path(town.files.name + "-data")
        data.mkdir()
        try:
            server = Server(data, "--network", "internet", "--dns", NAME_SERVER)
            yield data / "sandboxes" / server.create() / "door"
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(timeout=60) == 0
            server.__exit__()
        finally:
            subprocess.run(["rm", "-rf", "--one-file-system", data], check=True)


def run(door: Path, line: str) -> str:
    outcome = daemon.start(door, ["/bin/bash", "-l", "-c", line], "user", None, 240)
    assert outcome.code == 0, outcome.output
    return outcome.output


def test_apt_get_installs_a_package_with_sudo(door):
    source = f"deb [trusted=yes] http://{SERVICE}/debian ./"
    run(door, f"echo '{source}' | sudo tee /etc/apt/sources.list.d/greeting.list")
    only = "-o Dir::Etc::sourcelist=/etc/apt/sources.list.d/greeting.list -o Dir::Etc::sourceparts=-"
    run(door, f"sudo apt-get {only} update")
    run(door, f"sudo apt-get {only} install --yes mayfly-greeting")
    assert run(door, "greeting") == "hello from a package\n"
    assert not os.path.exists("/usr/local/bin/greeting")


def test_pip_installs_a_wheel(door):
    # By its name, so that the name is looked up too.
    index = "--index-url http://index.test/simple --trusted-host index.test"
    environment = "python3 -m venv --without-pip ~/e 2>/dev/null; python3 -m pip --version"
    if daemon.start(door, ["/bin/bash", "-l", "-c", environment], "user", None, 60).code != 0:
        pytest.skip("there is no pip in the host's /usr, which this sandbox sees")
    run(door, f"python3 -m pip install --quiet --target ~/wheels {index} mayfly-greeting")
    words = "PYTHONPATH=~/wheels python3 -c 'import mayfly_greeting; print(mayfly_greeting.WORDS)'"
    assert run(door, words) == "hello from a wheel\n"
