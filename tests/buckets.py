"""A real S3 server on loopback, in a process of its own, and what tests put into it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from pyarrow import fs

SECRET = "wJalr-not-to-be-seen-XUtn"
# Nothing but this server is to be asked: neither Amazon nor a cloud's service of metadata.
ENVIRON = {
    "AWS_ACCESS_KEY_ID": "key-id",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
_buckets = count(1)


@dataclass(frozen=True)
class Bucket:
    """A new bucket. Writing goes past turnlake."""

    name: str
    endpoint: str
    files: fs.S3FileSystem

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    def put(self, key: str, data: bytes) -> None:
        with self.files.open_output_stream(f"{self.name}/{key}") as file:
            file.write(data)

    def put_tree(self, root: Path, prefix: str) -> None:
        """All files below a folder, under that prefix."""
        for path in sorted(root.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(root).as_posix()}", path.read_bytes())

    def get(self, key: str) -> bytes:
        with self.files.open_input_file(f"{self.name}/{key}") as file:
            return bytes(file.read())

    def delete(self, key: str) -> None:
        self.files.delete_file(f"{self.name}/{key}")

    def keys(self, prefix: str = "") -> set[str]:
        """The keys of all objects, below a prefix."""
        selector = fs.FileSelector(f"{self.name}/{prefix}".rstrip("/"), recursive=True, allow_not_found=True)
        infos = self.files.get_file_info(selector)
        return {info.path.partition("/")[2] for info in infos if info.type == fs.FileType.File}


@contextmanager
def s3_server() -> Iterator[str]:
    """The endpoint of a server that ends with the block. Skips where moto is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("moto", "flask", "flask_cors")):
        pytest.skip("no S3 server: the dev extra brings moto")
    command = [sys.executable, "-c", _SERVER]
    variables = {**os.environ, **ENVIRON}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=variables
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.stdin.close()


def new_bucket(endpoint: str) -> Bucket:
    """An empty bucket of that server."""
    who = {"access_key": "key-id", "secret_key": SECRET}
    files = fs.S3FileSystem(endpoint_override=endpoint, region="us-east-1", allow_bucket_creation=True, **who)
    name = f"lake-{next(_buckets)}"
    files.create_dir(name)
    return Bucket(name, endpoint, files)


def set_environ(patch: pytest.MonkeyPatch, endpoint: str) -> None:
    """What a user has set who works with that server."""
    for name, value in {**ENVIRON, "AWS_ENDPOINT_URL": endpoint}.items():
        patch.setenv(name, value)
