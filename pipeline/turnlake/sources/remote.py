"""Object storage: URLs, the file systems behind them, what is below a URL, and objects as files read by ranges.

PyArrow's file systems do the talking; they are loaded once a URL is used. An error of the network is an OSError.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from turnlake.errors import SourceError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# What it takes to open a place besides its URL, as options of its file system. Never shown or stored.
Access = tuple[tuple[str, str], ...]

# One request brings so many bytes of a log, or all there are.
RANGE_BYTES = 4 << 20
CONNECT_TIMEOUT_S = 5
REQUEST_TIMEOUT_S = 30
# What the SDK of Google tries by itself before it gives up; its own default is a quarter of an hour.
GS_PATIENCE = timedelta(seconds=30)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_OPTIONS = {
    "s3": ("anonymous", "endpoint_override", "region", "scheme"),
    "gs": ("anonymous", "endpoint_override", "project_id", "scheme"),
}
_LOCAL_HOSTS = ("", "localhost")
# Which request it was and how long it took would make each telling of one trouble another finding.
_REASONS = re.compile(r"(?:AWS Error |google::cloud::Status\()(.+?)(?:; Details|\(Request ID| error_info=|$)")
_REASON_CHARS = 200


class StoreError(OSError):
    """An object store that did not give what it was asked for."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EIO, reason)


class Unreached(StoreError):
    """An object that could not be opened, or a place that could not be listed, though it may be as it was."""


@dataclass(frozen=True, slots=True)
class Place:
    """A bucket or what is below a prefix of it. `url` names it, without credentials and options, which are `access`."""

    url: str
    access: Access = field(default=(), repr=False)

    @property
    def scheme(self) -> str:
        """The scheme of the URL, which tells the kind of store."""
        return self.url.partition("://")[0]

    @property
    def path(self) -> str:
        """Bucket and key as file systems take them."""
        return unquote(self.url.partition("://")[2])

    def child(self, key: str) -> Place:
        """The place of that key below this one."""
        return Place(f"{self.url}/{quote(key)}", self.access)


class StoredObject(NamedTuple):
    """An object: its key below the place it was looked for, "" for that place itself, its bytes and its time."""

    key: str
    size: int
    mtime_ns: int


def is_url(text: str) -> bool:
    """Whether a text is a URL and not a path."""
    return _SCHEME.match(text) is not None


def local_path(url: str) -> str | None:
    """The path that a `file:` URL stands for; None for any other. SourceError for one of another machine."""
    if not url.lower().startswith("file://"):
        return None
    parts = urlsplit(url)
    if parts.netloc not in _LOCAL_HOSTS or not parts.path.startswith("/"):
        raise SourceError(f"{url!r} is no file of this machine: write file:///PATH")
    return unquote(parts.path)


def parse_url(text: str) -> Place:
    """A URL as typed: `s3://BUCKET/PREFIX` or `gs://…`, percent-encoded, options behind `?`.

    SourceError for another scheme, an unknown option, or what is no such URL; it holds no credentials.
    """
    try:
        parts = urlsplit(text)
        bucket, user, password = parts.hostname, parts.username, parts.password
    except ValueError as error:
        raise SourceError("a SOURCE or target that begins like a URL is none: write s3://BUCKET/PREFIX") from error
    scheme = {"gcs": "gs"}.get(parts.scheme, parts.scheme)
    if scheme not in _OPTIONS:
        raise SourceError(f"{scheme}:// is no object store known here: known are s3://, gs:// and file://")
    # The host as written: `hostname` is in lower case, and a bucket of Google may hold capitals.
    bucket = parts.netloc.rpartition("@")[2]
    if not bucket or parts.fragment or "//" in parts.path:
        raise SourceError(f"{scheme}://{bucket}{parts.path} is no place in a bucket: write {scheme}://BUCKET/PREFIX")
    key = "/".join(map(quote, map(unquote, parts.path.strip("/").split("/"))))
    url = f"{scheme}://{bucket}/{key}".rstrip("/")
    return Place(url, tuple(sorted((_options(scheme, url, parts) | _credentials(scheme, url, user, password)).items())))


def _options(scheme: str, url: str, parts: SplitResult) -> dict[str, str]:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS[scheme]:
            raise SourceError(f"{url} has an unknown option {name!r}: known are {', '.join(_OPTIONS[scheme])}")
    if options.get("anonymous", "true") not in ("true", "false"):
        raise SourceError(f"{url}: anonymous is true or false")
    return options


def _credentials(scheme: str, url: str, user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    if scheme != "s3" or not user or not password:
        raise SourceError(f"{url}: only s3://KEY:SECRET@BUCKET takes credentials; better leave them to the environment")
    return {"access_key": unquote(user), "secret_key": unquote(password)}


def file_system(place: Place) -> Any:
    """The `pyarrow.fs.FileSystem` of a place, connected as its options and the environment say."""
    bucket = place.path.partition("/")[0]
    return _connected(place.scheme, place.access, bucket, _endpoint(os.environ))


def was_used() -> bool:
    """Whether this process has talked to an object store: then it has threads, and may not be forked."""
    return _connected.cache_info().currsize > 0


def _endpoint(environ: Mapping[str, str]) -> str | None:
    # The variables of the AWS tools, which Arrow does not look at.
    return environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")


@lru_cache(maxsize=64)
def _connected(scheme: str, access: Access, bucket: str, endpoint: str | None) -> Any:
    from pyarrow import fs

    options: dict[str, Any] = dict(access)
    if "anonymous" in options:
        options["anonymous"] = options["anonymous"] == "true"
    if scheme == "gs":
        return fs.GcsFileSystem(retry_time_limit=GS_PATIENCE, **options)
    if endpoint:
        options.setdefault("endpoint_override", endpoint)
    if "region" not in options:
        options["region"] = _region(bucket, is_amazon="endpoint_override" not in options)
    timeouts = {"connect_timeout": CONNECT_TIMEOUT_S, "request_timeout": REQUEST_TIMEOUT_S}
    return fs.S3FileSystem(allow_delayed_open=True, **timeouts, **options)


def _region(bucket: str, *, is_amazon: bool) -> str:
    """The region of a bucket. Amazon is asked; other stores seldom care, but it is part of the signature."""
    if is_amazon:
        from pyarrow import fs

        return str(fs.resolve_s3_region(bucket))
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def look(place: Place) -> StoredObject | None:
    """The object at a place, None where the place holds objects below it.

    FileNotFoundError where there is neither, Unreached where the store does not tell.
    """
    from pyarrow import fs

    with _as_store_error(Unreached):
        info = file_system(place).get_file_info(place.path)
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(errno.ENOENT, "no object is there or below it", place.url)
    return _stored("", info) if info.type == fs.FileType.File else None


def objects_below(place: Place) -> list[StoredObject]:
    """All objects below a place, by one listing. Unreached where the store does not give it whole."""
    from pyarrow import fs

    with _as_store_error(Unreached):
        selector = fs.FileSelector(place.path, recursive=True)
        infos = file_system(place).get_file_info(selector)
    start = len(place.path) + 1
    return [_stored(info.path[start:], info) for info in infos if info.type == fs.FileType.File]


def _stored(key: str, info: Any) -> StoredObject:
    return StoredObject(key, info.size, info.mtime_ns)


def open_object(place: Place) -> ObjectReader:
    """An object, to read by ranges of up to RANGE_BYTES. FileNotFoundError where it is gone, Unreached otherwise."""
    with _as_store_error(Unreached):
        file = file_system(place).open_input_file(place.path)
        size = file.size()
    return ObjectReader(_Object(file, size), max(1, min(size, RANGE_BYTES)))


class ObjectReader(io.BufferedReader):
    """An open object, as any buffered file; StoreError where the store fails while it is read."""

    def read_at(self, count: int, offset: int) -> bytes:
        """So many bytes from there, beside the buffer."""
        return cast(_Object, self.raw).read_at(count, offset)


class _Object(io.RawIOBase):
    """An object of fixed size; each read is a request."""

    def __init__(self, file: Any, size: int) -> None:
        self._file = file
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, "a place before the beginning")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        data = self.read_at(len(view), self._position)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def read_at(self, count: int, offset: int) -> bytes:
        count = min(count, self._size - offset)
        if count <= 0:
            return b""
        with _as_store_error(StoreError):
            return bytes(self._file.read_at(count, offset))

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@contextmanager
def _as_store_error(kind: type[StoreError]) -> Iterator[None]:
    """Turns what Arrow raises about a store, which is of many types, into one."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "no such object") from error
    except (OSError, ValueError) as error:
        raise kind(f"the object store did not give it ({reason_of(error)})") from error


def reason_of(error: Exception) -> str:
    """Why a store failed, in its own words."""
    text = " ".join(str(error).split())
    found = _REASONS.search(text)
    return (found[1].strip() if found else text)[:_REASON_CHARS]
