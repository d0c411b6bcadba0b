"""Logs in an object store give what the same logs on disk give, and a failing network deletes nothing."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import shutil
import zipfile
from pathlib import Path

import pytest

from buckets import ENVIRON, SECRET, Bucket
from conftest import Run
from logs import Session, as_raw, as_zstd
from test_incremental import build, contents, current, differences, ingest, marts, stored, whys
from turnlake.check import fresh
from turnlake.cli import main
from turnlake.errors import SourceError
from turnlake.lake import workers as engine
from turnlake.lake.manifest import PRINT_BYTES
from turnlake.messages.log import read_log
from turnlake.sources import container, discover, remote
from turnlake.sources.discover import find_logs
from turnlake.sources.source import Source, merge_sources, parse_source


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def tree(tmp_path: Path, sample: Path) -> Path:
    """The sample, and one of each that discovery has something to say about."""
    root = tmp_path / "tree"
    shutil.copytree(sample, root)
    session, log = Session(), as_raw(chat().lines)
    for name, data in {
        "--w--/a b#1%41/session.v4.jsonl": log,
        "--w--/torn/session.v4.jsonl.zstd": as_zstd(session.lines)[:-3],
        "--w--/gone/session.v4.jsonl": log,
        "--w--/gone/session.deleted": b"",
        "--w--/both/session.v4.jsonl": log,
        "--w--/both/session.v4.jsonl.zstd": as_zstd(session.lines),
        "--w--/both/other.jsonl": log,
        "--w--/both/Session.jsonl": log,
        "loose!.jsonl": log,
        "no-log.jsonl": b"hello\n",
        "a/b/c/notes.jsonl.bak": log,
        "other.zip": b"",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    with zipfile.ZipFile(root / "dsh-session-x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("session.v4.jsonl", as_raw(chat(id="zipped").lines))
        archive.writestr("subagents/y/session.v4.jsonl.zstd", as_zstd(chat(id="sub").lines))
    (root / "dsh-session-broken.zip").write_bytes(b"PK\x03\x04 and no more")
    return root


def chat(**members: str) -> Session:
    session = Session(4, **members)
    session.turn_start()
    session.user("Hello")
    session.turn_end()
    return session


def missing(lake: Path) -> dict[str, bool]:
    return {row["path"].split("/")[1]: row["is_missing"] for row in stored(lake, "logs")}


def troubles(lake: Path) -> list[str]:
    """What could not be reached, as findings tell it."""
    return sorted(row["code"] for row in stored(lake, "findings") if "SLOW_DOWN" in row["detail"])


# URLs.


@pytest.mark.parametrize(
    ("text", "url", "path", "access"),
    [
        ("s3://b-1", "s3://b-1", "b-1", {}),
        ("S3://b-1/x/y/", "s3://b-1/x/y", "b-1/x/y", {}),
        ("s3://b-1/a%20b/c#", "s3://b-1/a%20b/c", "b-1/a b/c", {}),
        ("s3://b-1/a b/c:d", "s3://b-1/a%20b/c%3Ad", "b-1/a b/c:d", {}),
        ("gcs://B_1/x", "gs://B_1/x", "B_1/x", {}),
        ("s3://id:se%2Fcret@b-1/x", "s3://b-1/x", "b-1/x", {"access_key": "id", "secret_key": "se/cret"}),
        ("s3://b-1/x?scheme=http&region=here", "s3://b-1/x", "b-1/x", {"region": "here", "scheme": "http"}),
    ],
)
def test_a_url_is_taken_apart(text: str, url: str, path: str, access: dict[str, str]) -> None:
    place = remote.parse_url(text)
    assert (place.url, place.path, dict(place.access)) == (url, path, access)
    assert remote.parse_url(place.url).url == place.url
    assert place.child("é?#%41/x").path == f"{path}/é?#%41/x"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("http://host/x", "http:// is no object store known here: known are s3://, gs:// and file://"),
        ("s3://", "s3:// is no place in a bucket"),
        ("s3://id:hunter2@", "is no place in a bucket"),
        ("s3://b-1//x", "is no place in a bucket"),
        ("s3://b-1/x#y", "is no place in a bucket"),
        ("s3://id:hunter2@b-1/x?endpiont=y", "unknown option 'endpiont': known are anonymous, endpoint_override"),
        ("s3://b-1?anonymous=yes&region=hunter2", "anonymous is true or false"),
        ("s3://hunter2@b-1", "only s3://KEY:SECRET@BUCKET takes credentials"),
        ("gs://id:hunter2@b-1", "only s3://KEY:SECRET@BUCKET takes credentials"),
        ("s3://id:hunter2@[b-1/x", "begins like a URL"),
        ("file://other/x", "is no file of this machine"),
    ],
)
def test_a_url_that_can_not_be_used(text: str, told: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_source(text)
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_file_url_is_the_path_it_stands_for(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    url = f"file://{tmp_path}/a%20b"
    assert parse_source(url) == parse_source(str(tmp_path / "a b"))
    assert parse_source(f"m={url}").machine == "m"


def test_one_url_by_two_endpoints_is_two_places() -> None:
    places = [remote.Place("s3://b-1", (("endpoint_override", host),)) for host in ("one", "two")]
    with pytest.raises(SourceError, match="named twice, with other options"):
        merge_sources([Source(place.url, None, place) for place in places])
    named = [Source(name, name, place) for name, place in zip("ab", places, strict=True)]
    assert merge_sources([*named, named[0]]) == tuple(named)


@pytest.mark.parametrize("asked", ["an endpoint", "Amazon"])
def test_the_region_of_a_bucket(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import fs

    monkeypatch.setattr(fs, "resolve_s3_region", lambda bucket: f"that of {bucket}")
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    assert remote._region("b-1", is_amazon=asked == "Amazon") == ("that of b-1" if asked == "Amazon" else "us-east-1")


# The same logs.


def test_a_tree_in_a_bucket_gives_the_rows_of_the_tree(tree: Path, bucket: Bucket, tmp_path: Path) -> None:
    bucket.put_tree(tree, "deep/root x")
    ours, theirs = tmp_path / "remote", tmp_path / "local"
    build(ours, f"m={bucket.url}/deep/root%20x/")
    build(theirs, f"m={tree}")
    assert contents(ours)["logs"]
    # Findings tell where a thing is.
    for read in (contents, marts):
        there = {
            table: [row.replace(str(tree), f"{bucket.url}/deep/root%20x") for row in rows]
            for table, rows in read(theirs).items()
        }
        assert differences(read(ours), there) == {}
    left_out = [
        sorted(finding for _, finding in find_logs([parse_source(text)]).findings)
        for text in (f"{bucket.url}/deep/root x", str(tree))
    ]
    assert left_out[0] == left_out[1] != []


def test_two_workers_give_what_one_gives(sample: Path, bucket: Bucket, tmp_path: Path, turnlake: Run) -> None:
    bucket.put_tree(sample, "root")
    words = ("ingest", f"{bucket.url}/root", "-q")
    for workers in "12":
        done = turnlake(*words, "--lake", workers, "--workers", workers, **ENVIRON, AWS_ENDPOINT_URL=bucket.endpoint)
        assert (done.returncode, done.stderr) == (0, "")
    assert current(tmp_path / "1").id == current(tmp_path / "2").id


def test_a_process_that_used_a_store_is_not_forked(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    remote.file_system(remote.parse_url(bucket.url))
    methods: list[str] = []

    def get_context(method: str) -> None:
        methods.append(method)
        raise InterruptedError

    monkeypatch.setattr(multiprocessing, "get_context", get_context)
    with pytest.raises(InterruptedError):
        list(engine.run(len, ["a", "b"], 2))
    assert methods == ["spawn"]


def test_machines_of_several_places_share_a_lake(tmp_path: Path, bucket: Bucket, lake: Path) -> None:
    bucket.put("one/--w--/a/session.v4.jsonl", as_raw(chat(id="a").lines))
    bucket.put("two/--w--/b/session.v4.jsonl", as_raw(chat(id="b").lines))
    (tmp_path / "here" / "c").mkdir(parents=True)
    (tmp_path / "here" / "c" / "session.v4.jsonl").write_bytes(as_raw(chat(id="c").lines))
    ingest(lake, f"x={bucket.url}/one", f"y={bucket.url}/two", tmp_path / "here")
    assert {row["session_id"]: row["machine"] for row in stored(lake, "logs")} == {"a": "x", "b": "y", "c": None}
    # What is not named now is not looked for.
    ingest(lake, f"x={bucket.url}/one")
    assert not any(row["is_missing"] for row in stored(lake, "logs"))


@pytest.mark.parametrize("name", ["session.v4.jsonl", "log", "dsh-session-x.zip", "packed"])
def test_a_source_that_is_one_object(name: str, tree: Path, bucket: Bucket) -> None:
    path = tree / name if name.endswith("zip") else tree / "--w--/torn/session.v4.jsonl.zstd"
    path = tree / "dsh-session-x.zip" if name == "packed" else path
    bucket.put(f"p/{name}", path.read_bytes())
    found = find_logs([parse_source(f"{bucket.url}/p/{name}")])
    (tree / "named").mkdir()
    shutil.copy(path, tree / "named" / name)
    local = find_logs([parse_source(str(tree / "named" / name))])
    assert [(log.path, log.size) for log in found.logs] == [(log.path, log.size) for log in local.logs]
    assert found.logs
    assert found.probed[0].kind == local.probed[0].kind
    for log in found.logs:
        with container.open_log(log) as file:
            assert file.read()


def test_one_log_is_read_and_projected(bucket: Bucket) -> None:
    bucket.put("x/session.v4.jsonl", as_raw(chat().lines))
    log = read_log(f"{bucket.url}/x/session.v4.jsonl")
    assert [message["role"] for message in log.derive_messages()] == ["user"]


def test_check_and_doctor_read_a_bucket(bucket: Bucket, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bucket.put("r/--w--/a/session.v4.jsonl", as_raw(chat().lines))
    build(lake, f"{bucket.url}/r")
    capsys.readouterr()
    for words, left_out in (([], {fresh.UNNAMED: 1}), (["--source", f"{bucket.url}/r"], {})):
        # What nobody names is not asked for.
        assert main(["check", *words, "--lake", str(lake), "--json", "--workers", "1"]) == 0
        checked = json.loads(capsys.readouterr().out)
        assert (checked["sessions"]["match"], checked["logs_not_read_again"]) == (1, left_out)
    assert main(["doctor", f"{bucket.url}/r", "--lake", str(lake), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [group["log_count"] for group in told["logs"]] == [1]
    assert told["findings"] == []


# Only what is new.


def test_only_what_is_new_is_asked_for(bucket: Bucket, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = chat()
    for _ in range(2000):
        session.user("a rather long message that fills the log " * 2)
    before = as_raw(session.lines)
    bucket.put("r/a/session.v4.jsonl", before)
    bucket.put("r/b/session.v4.jsonl", as_raw(chat(id="b").lines))
    ingest(lake, f"{bucket.url}/r")
    asked: list[tuple[str, int]] = []
    real_open = remote.open_object

    def spied(place: remote.Place) -> remote.ObjectReader:
        file = real_open(place)
        raw = file.raw
        read_at = raw.read_at

        def counted(count: int, offset: int) -> bytes:
            data = read_at(count, offset)
            asked.append((place.url, len(data)))
            return data

        monkeypatch.setattr(raw, "read_at", counted)
        return file

    monkeypatch.setattr(container, "open_object", spied)
    assert ingest(lake, f"{bucket.url}/r")["logs_unchanged"] == 2
    assert asked == []
    session.user("one more")
    after = as_raw(session.lines)
    bucket.put("r/a/session.v4.jsonl", after)
    load = ingest(lake, f"{bucket.url}/r")
    assert [read["why"] for read in load["read"]] == ["grown"]
    assert {url for url, _ in asked} == {f"{bucket.url}/r/a/session.v4.jsonl"}
    assert sum(count for _, count in asked) <= len(after) - len(before) + 4 * PRINT_BYTES < len(before) / 4


def test_a_log_that_went_and_came_back(bucket: Bucket, lake: Path) -> None:
    for name in "ab":
        bucket.put(f"r/--w--/{name}/session.v4.jsonl", as_raw(chat(id=name).lines))
    ingest(lake, f"{bucket.url}/r")
    bucket.delete("r/--w--/a/session.v4.jsonl")
    ingest(lake, f"{bucket.url}/r")
    assert missing(lake) == {"a": True, "b": False}
    bucket.put("r/--w--/a/session.v4.jsonl", as_raw(chat(id="a").lines))
    ingest(lake, f"{bucket.url}/r")
    assert missing(lake) == {"a": False, "b": False}


# A network that fails.


def test_no_server_leaves_the_lake_as_it_was(tmp_path: Path, lake: Path, turnlake: Run) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "session.v4.jsonl").write_bytes(as_raw(chat().lines))
    build(lake, tmp_path / "r")
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*") if path.is_file() and path.name != ".lock"}
    url = f"s3://id:{SECRET}@nobody/r?endpoint_override=127.0.0.1:9&scheme=http"
    done = turnlake("build", url, "--lake", str(lake), AWS_EC2_METADATA_DISABLED="true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("turnlake: SOURCE s3://nobody/r can't be used: the object store did not give it (")
    assert "NETWORK_CONNECTION" in done.stderr
    assert "AWS_ENDPOINT_URL" in done.stderr
    assert SECRET not in done.stderr
    assert "Traceback" not in done.stderr
    after = {path: path.stat().st_mtime_ns for path in lake.rglob("*") if path.is_file() and path.name != ".lock"}
    assert after == before


@pytest.mark.parametrize("place", ["", "/nothing-here"])
def test_a_place_without_objects_is_no_source(place: str, bucket: Bucket) -> None:
    bucket.put("x", b"")
    url = f"{bucket.url}{place}" if place else "s3://no-such-bucket/x"
    with pytest.raises(SourceError, match="no object is there or below it"):
        parse_source(url)


def fail(*_: object) -> None:
    raise remote.Unreached("the object store did not give it (SLOW_DOWN)")


@pytest.mark.parametrize("name", ["objects_below", "look"])
def test_a_listing_that_fails_makes_nothing_missing(
    name: str, bucket: Bucket, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("r/--w--/a/session.v4.jsonl", as_raw(chat().lines))
    ingest(lake, f"{bucket.url}/r")
    with monkeypatch.context() as patch:
        patch.setattr(discover, name, fail)
        ingest(lake, f"{bucket.url}/r", "--purge-missing")
    assert missing(lake) == {"a": False}
    assert troubles(lake) == ["unreadable_folder"]
    assert ingest(lake, f"{bucket.url}/r")["logs_unchanged"] == 1
    assert troubles(lake) == []


def test_an_archive_that_can_not_be_listed_makes_nothing_missing(
    tree: Path, bucket: Bucket, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("r/dsh-session-x.zip", (tree / "dsh-session-x.zip").read_bytes())
    ingest(lake, f"{bucket.url}/r")
    before = stored(lake, "logs")
    assert len(before) == 2

    def failing(*_: object) -> bytes:
        raise remote.StoreError("the object store did not give it (SLOW_DOWN)")

    for owner, name, failure in ((discover, "open_at", fail), (remote._Object, "read_at", failing)):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, failure)
            ingest(lake, f"{bucket.url}/r")
        assert stored(lake, "logs") == before
        assert troubles(lake) == ["unreadable_folder"]


@pytest.mark.parametrize("growth", ["grown", "changed"])
def test_logs_that_can_not_be_opened_stay_as_they_were(
    growth: str, bucket: Bucket, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = chat(id="a"), chat(id="b")
    bucket.put("r/--w--/a/session.v4.jsonl", as_raw(a.lines))
    build(lake, f"{bucket.url}/r")
    before = contents(lake)
    a.user("more")
    grown = as_raw(a.lines)
    bucket.put("r/--w--/a/session.v4.jsonl", grown if growth == "grown" else grown.replace(b"Hello", b"Jello"))
    bucket.put("r/--w--/b/session.v4.jsonl", as_raw(b.lines))
    with monkeypatch.context() as patch:
        patch.setattr(container, "open_object", fail)
        load = build(lake, f"{bucket.url}/r")
    assert load["logs_read"] == 0
    during = contents(lake)
    assert {name: rows for name, rows in during.items() if name != "findings"} == {
        name: rows for name, rows in before.items() if name != "findings"
    }
    assert troubles(lake) == ["unreadable_file", "unreadable_file"]
    load = build(lake, f"{bucket.url}/r")
    assert whys(load) == {"a": "returned", "b": "new"}
    other = lake.with_name("other")
    build(other, f"{bucket.url}/r")
    assert differences(contents(lake), contents(other)) == {}


def test_a_failure_while_a_log_is_read_is_told_and_made_good(
    bucket: Bucket, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("r/--w--/a/session.v4.jsonl", as_raw(chat().lines))

    def failing(*_: object) -> bytes:
        raise remote.StoreError("the object store did not give it (SLOW_DOWN)")

    with monkeypatch.context() as patch:
        patch.setattr(remote._Object, "read_at", failing)
        ingest(lake, f"{bucket.url}/r")
    assert [row["verdict_reason"] for row in stored(lake, "logs")] == ["unreadable"]
    ingest(lake, f"{bucket.url}/r")
    assert [row["verdict"] for row in stored(lake, "logs")] == ["clean"]


def test_an_entry_that_can_not_be_fetched_is_not_damaged(
    tree: Path, bucket: Bucket, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("r/dsh-session-x.zip", (tree / "dsh-session-x.zip").read_bytes())
    with monkeypatch.context() as patch:
        patch.setattr(container, "_fetched", fail)
        ingest(lake, f"{bucket.url}/r")
    assert stored(lake, "logs") == []
    ingest(lake, f"{bucket.url}/r")
    assert [row["verdict"] for row in stored(lake, "logs")] == ["clean", "clean"]


def test_what_the_network_says_comes_as_one_kind_of_error(bucket: Bucket) -> None:
    bucket.put("x", b"0123456789")
    with pytest.raises(FileNotFoundError):
        remote.open_object(remote.parse_url(f"{bucket.url}/y"))
    file = remote.open_object(remote.parse_url(f"{bucket.url}/x"))
    assert (file.read(3), file.read_at(3, 5), file.read_at(9, 8), file.seek(-2, 2), file.read()) == (
        b"012", b"567", b"89", 8, b"89",
    )  # fmt: skip
    with pytest.raises(OSError, match="a place before the beginning"):
        file.raw.seek(-1)
    bucket.delete("x")
    with pytest.raises(OSError):
        file.read_at(1, 0)


# What nobody is to see.


def test_credentials_and_options_are_in_no_file_and_no_text(bucket: Bucket, tmp_path: Path, turnlake: Run) -> None:
    bucket.put("r/--w--/a/session.v4.jsonl", as_raw(chat().lines))
    bucket.put("r/--w--/a/other.jsonl", b"")
    host = bucket.endpoint.removeprefix("http://")
    url = f"s3://key-id:{SECRET}@{bucket.name}/r?scheme=http&endpoint_override={host}"
    variables = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    for words in (("build", "-v", "--workers", "2"), ("build", "-v", "--full"), ("doctor", "--json")):
        done = turnlake(*words, url, "--lake", "lake", **variables)
        assert done.returncode == 0, done.stderr
        assert SECRET not in done.stdout + done.stderr
        assert host not in done.stdout + done.stderr
    files = [path for path in (tmp_path / "lake").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if any(text.encode() in path.read_bytes() for text in (SECRET, host, "key-id"))]
    assert {row["source"] for row in stored(tmp_path / "lake", "logs")} == {f"{bucket.url}/r"}


def test_a_log_carries_its_access_to_another_process_and_shows_it_to_nobody(bucket: Bucket) -> None:
    bucket.put("r/session.v4.jsonl", as_raw(chat().lines))
    url = f"s3://key-id:{SECRET}@{bucket.name}/r"
    (log,) = find_logs([parse_source(url)]).logs
    assert pickle.loads(pickle.dumps(log)).access == log.access == (("access_key", "key-id"), ("secret_key", SECRET))
    assert SECRET not in repr(log) + log.place + log.os_path + repr(parse_source(url))
