"""A published lake is what the lake is, for every reader, whole at any instant, and sent only once."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.dataset
import pytest

from buckets import ENVIRON, SECRET, Bucket
from conftest import Run
from logs import Session, as_raw
from test_incremental import build, stored
from turnlake.api import MARTS, connect
from turnlake.cli import main
from turnlake.errors import DeliveryError, LakeError, UsageError
from turnlake.lake.state import Lake
from turnlake.publish.manifest import MANIFEST, is_ours, keys_to_keep, paths_of, read_manifest
from turnlake.publish.publish import publish
from turnlake.publish.target import Target, open_target
from turnlake.rows.tables import TABLES


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def lake(tmp_path: Path, root: Path) -> Path:
    """A lake of one short session."""
    say(root, 1)
    build(tmp_path / "lake", root)
    return tmp_path / "lake"


def say(root: Path, turns: int) -> None:
    """A session of so many turns in place of the one there."""
    session = Session(4)
    for _ in range(turns):
        session.turn()
    (root / "--w--" / "s1").mkdir(parents=True, exist_ok=True)
    (root / "--w--" / "s1" / "session.v4.jsonl").write_bytes(as_raw(session.lines))


def state_id(lake: Path) -> str:
    """The state that the lake's database was built from."""
    state = Lake(lake).published_state()
    assert state is not None
    return state.id


def manifest_of(bucket: Bucket, prefix: str = "p") -> dict[str, Any]:
    return read_manifest(bucket.get(f"{prefix}/{MANIFEST}"), "it")


def below(bucket: Bucket, prefix: str = "p") -> set[str]:
    return {key.removeprefix(f"{prefix}/") for key in bucket.keys(prefix)}


def assert_whole(bucket: Bucket, manifest: dict[str, Any], prefix: str = "p") -> None:
    """Each file that the manifest names is there, as it says."""
    for files in manifest["tables"].values():
        for file in files:
            data = bucket.get(f"{prefix}/{file['path']}")
            assert (len(data), hashlib.sha256(data).hexdigest()) == (file["bytes"], file["sha256"])


def assert_settled(bucket: Bucket, manifest: dict[str, Any], prefix: str = "p") -> None:
    """There is what the manifest needs and nothing else; folders hold the same bytes as the files it names."""
    assert below(bucket, prefix) == keys_to_keep(manifest)
    for files in manifest["tables"].values():
        for file in files:
            assert bucket.get(f"{prefix}/{file['in_folder']}") == bucket.get(f"{prefix}/{file['path']}")


def test_a_published_lake_holds_its_files_and_a_manifest(lake: Path, bucket: Bucket) -> None:
    outcome = publish(lake, open_target(f"{bucket.url}/p"))
    manifest = manifest_of(bucket)
    assert manifest == outcome.manifest
    assert outcome.is_news
    assert manifest["state"] == state_id(lake)
    assert manifest["before"] is None
    assert {name for name in manifest["tables"] if name.startswith("raw.")} == {f"raw.{name}" for name in TABLES}
    with connect(lake) as db:
        marts = {f"marts.{name}" for (name,) in db.execute(MARTS).fetchall()}
    assert {name for name in manifest["tables"] if name.startswith("marts.")} == marts
    assert_whole(bucket, manifest)
    assert_settled(bucket, manifest)


def test_what_is_there_is_not_sent_again(lake: Path, root: Path, bucket: Bucket) -> None:
    target = open_target(f"{bucket.url}/p")
    first = publish(lake, target)
    again = publish(lake, target)
    assert (again.is_news, again.uploaded, again.copied, again.removed) == (False, (), (), ())
    assert again.manifest == first.manifest
    say(root, 3)
    build(lake, root)
    second = publish(lake, target)
    new = paths_of(second.manifest) - paths_of(first.manifest)
    assert {file.path for file in second.uploaded} == new
    # The first state's rows stay in their part, and no mart of prices changes by a turn.
    assert new < paths_of(second.manifest)
    assert second.manifest["before"] == {"id": first.manifest["id"], "paths": sorted(paths_of(first.manifest))}


def test_the_state_before_stays_for_its_readers_and_leaves_the_folders(lake: Path, root: Path, bucket: Bucket) -> None:
    target = open_target(f"{bucket.url}/p")
    manifests = []
    for turns in (1, 2, 3):
        say(root, turns)
        build(lake, root)
        manifests.append(publish(lake, target).manifest)
        assert_settled(bucket, manifest_of(bucket))
        for manifest in manifests[-2:]:
            assert_whole(bucket, dict(manifest))
    gone = paths_of(manifests[0]) - paths_of(manifests[1]) - paths_of(manifests[2])
    assert gone
    assert not gone & below(bucket)


def test_equal_lakes_give_equal_objects(lake: Path, root: Path, bucket: Bucket, tmp_path: Path) -> None:
    publish(lake, open_target(f"{bucket.url}/p"))
    other = tmp_path / "other"
    build(other, root)
    outcome = publish(other, open_target(f"{bucket.url}/p"))
    assert (outcome.is_news, outcome.uploaded) == (False, ())


def end_at(patch: pytest.MonkeyPatch, operation: str, number: int) -> None:
    """Lets the operation of that number and kind fail; an object on its way is left cut off."""
    real, calls = getattr(Target, operation), itertools.count()

    def ending(target: Target, key: str, *rest: Any) -> None:
        if next(calls) < number:
            real(target, key, *rest)
            return
        if operation == "upload":
            with target.files.open_output_stream(f"{target.base}/{key}") as stream:
                stream.write(b"cut")
        raise DeliveryError("the network ended")

    patch.setattr(Target, operation, ending)


ENDINGS = (("upload", 0), ("upload", 2), ("write", 0), ("copy", 0), ("copy", 2), ("remove", 0), ("remove", 1))


def test_publishing_that_ends_anywhere_leaves_a_whole_state_and_goes_on(
    lake: Path, root: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(prefix: str, operation: str, number: int) -> None:
        with monkeypatch.context() as patch:
            end_at(patch, operation, number)
            with pytest.raises(DeliveryError, match="the network ended"):
                publish(lake, open_target(f"{bucket.url}/{prefix}"))

    ended("0", "upload", 3)
    assert below(bucket, "0")
    assert MANIFEST not in below(bucket, "0")
    first = publish(lake, open_target(f"{bucket.url}/0")).manifest
    assert_settled(bucket, manifest_of(bucket, "0"), "0")
    for key in below(bucket, "0"):
        for prefix in range(1, len(ENDINGS)):
            bucket.files.copy_file(f"{bucket.name}/0/{key}", f"{bucket.name}/{prefix}/{key}")
    say(root, 2)
    build(lake, root)
    for prefix, (operation, number) in enumerate(ENDINGS):
        ended(str(prefix), operation, number)
        manifest = manifest_of(bucket, str(prefix))
        assert (manifest["id"] == first["id"]) == (operation in ("upload", "write"))
        assert_whole(bucket, manifest, str(prefix))
        publish(lake, open_target(f"{bucket.url}/{prefix}"))
        second = manifest_of(bucket, str(prefix))
        assert second["before"]["id"] == first["id"]
        assert_settled(bucket, second, str(prefix))


# Readers.


@pytest.fixture
def sample_bucket(sample: Path, bucket: Bucket, tmp_path: Path) -> tuple[Path, Bucket]:
    build(tmp_path / "lake", sample)
    publish(tmp_path / "lake", open_target(f"{bucket.url}/p"))
    return tmp_path / "lake", bucket


def test_polars_reads_it(sample_bucket: tuple[Path, Bucket]) -> None:
    lake, bucket = sample_bucket
    options = {
        "aws_endpoint_url": bucket.endpoint,
        "aws_allow_http": "true",
        "aws_access_key_id": "key-id",
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
    }
    with connect(lake) as db:
        turns = db.sql("from marts.turns order by session_id, turn").pl()
        events = db.sql("select count(*) from raw.events").fetchall()[0][0]
    folder = pl.scan_parquet(f"{bucket.url}/p/marts/turns/*.parquet", storage_options=options)
    assert folder.sort("session_id", "turn").collect().equals(turns)
    named = [f"{bucket.url}/p/{file['path']}" for file in manifest_of(bucket)["tables"]["raw.events"]]
    counted = pl.scan_parquet(named, storage_options=options).select(pl.len()).collect().item()
    globbed = pl.scan_parquet(f"{bucket.url}/p/events/*.parquet", storage_options=options).select(pl.len())
    assert counted == globbed.collect().item() == events > 0


def test_a_pyarrow_dataset_and_duckdb_read_it(sample_bucket: tuple[Path, Bucket]) -> None:
    lake, bucket = sample_bucket
    manifest = manifest_of(bucket)
    with connect(lake) as db:
        names = db.execute(MARTS).fetchall()
        expected = {name: sorted(map(repr, db.sql(f'from marts."{name}"').fetchall())) for (name,) in names}
    with duckdb.connect() as db:
        db.execute("set TimeZone = 'UTC'")
        for name, rows in expected.items():
            paths = [f"{bucket.name}/p/{file['path']}" for file in manifest["tables"][f"marts.{name}"]]
            table = pyarrow.dataset.dataset(paths, filesystem=bucket.files)
            assert table.count_rows() == len(rows)
            assert sorted(map(repr, db.from_arrow(table).fetchall())) == rows
        folder = pyarrow.dataset.dataset(f"{bucket.name}/p/logs", filesystem=bucket.files)
        assert folder.to_table().num_rows == len(stored(lake, "logs"))


# Targets that can't be.


def test_a_folder_is_a_target(lake: Path, root: Path, tmp_path: Path) -> None:
    target = open_target(f"file://{tmp_path}/to%20here/x")
    publish(lake, target)
    say(root, 2)
    build(lake, root)
    (tmp_path / "to here/x/logs" / f"logs-{'0' * 16}.parquet.new").write_bytes(b"left over")
    manifest = publish(lake, target).manifest
    folder = tmp_path / "to here/x"
    with connect(lake) as db, duckdb.connect() as shell:
        expected = db.sql("from marts.turns order by all").fetchall()
        assert shell.sql(f"from '{folder}/marts/turns/*.parquet' order by all").fetchall() == expected
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == keys_to_keep(manifest)


@pytest.mark.parametrize("name", ["lake", "lake/x", "."])
def test_a_folder_around_or_in_the_lake_is_none(name: str, lake: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lie in one another"):
        publish(lake, open_target(f"file://{tmp_path}/{name}"))


@pytest.mark.parametrize(
    ("key", "data", "told"),
    [
        ("p/mine.txt", b"x", "holds mine.txt, which is of no publishing"),
        ("p/events/session.v4.jsonl", b"x", "holds events/session.v4.jsonl, which is of no publishing"),
        ("p/manifest.json", b'{"made_by": "turnlake export"}', "is none that turnlake published"),
        ("p/manifest.json", b"[]", "is none that turnlake published"),
    ],
)
def test_what_is_not_ours_stays(key: str, data: bytes, told: str, lake: Path, bucket: Bucket) -> None:
    bucket.put(key, data)
    with pytest.raises(UsageError, match=told):
        publish(lake, open_target(f"{bucket.url}/p"))
    assert bucket.keys() == {key}


def test_what_lies_beside_a_published_lake_stays(lake: Path, root: Path, bucket: Bucket) -> None:
    target = open_target(f"{bucket.url}/p")
    publish(lake, target)
    bucket.put("p/events/mine.parquet", b"x")
    say(root, 2)
    build(lake, root)
    publish(lake, target)
    assert below(bucket) - keys_to_keep(manifest_of(bucket)) == {"events/mine.parquet"}


def test_a_damaged_part_is_not_published(lake: Path, bucket: Bucket) -> None:
    state = Lake(lake).published_state()
    assert state is not None
    part = state.part_files("events")[0]
    data = bytearray(part.read_bytes())
    data[10] ^= 1
    part.write_bytes(data)
    with pytest.raises(LakeError, match="is damaged"):
        publish(lake, open_target(f"{bucket.url}/p"))
    assert MANIFEST not in below(bucket)


def test_keys_that_are_ours() -> None:
    digest = "0123456789abcdef"
    assert is_ours(f"events/part-1-{digest}.parquet")
    assert is_ours(f".files/marts/turns/turns-{digest}.parquet.new")
    assert not is_ours(f"x/events/part-1-{digest}.parquet")
    assert not is_ours(f"marts/../turns-{digest}.parquet")
    assert not is_ours("events/part-1.parquet")


# The command.


def test_the_command_tells_what_it_did(lake: Path, bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"s3://key-id:{SECRET}@{bucket.name}/p"
    capsys.readouterr()
    assert main(["publish", url, "--lake", str(lake)]) == 0
    told = capsys.readouterr()
    assert told.out.startswith(f"published {bucket.url}/p: state {state_id(lake)}, as ")
    assert SECRET not in told.out + told.err + bucket.get(f"p/{MANIFEST}").decode()
    assert main(["publish", url, "--lake", str(lake), "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["url"], done["is_news"], done["uploaded"]) == (f"{bucket.url}/p", False, [])


@pytest.mark.parametrize(
    ("url", "code", "told"),
    [
        ("bucket/lake", 2, "is no URL: write s3://BUCKET/PREFIX"),
        ("ftp://host/x", 2, "known are s3://, gs:// and file://"),
        (f"s3://id:{SECRET}@nobody/x?endpoint_override=127.0.0.1:9&scheme=http", 3, "s3://nobody/x can't be published"),
        ("s3://no-such-bucket/x", 3, "NO_SUCH_BUCKET"),
    ],
)
def test_a_url_that_can_not_be_published_to(
    url: str, code: int, told: str, lake: Path, bucket: Bucket, turnlake: Run
) -> None:
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*") if path.name != ".publish-lock"}
    done = turnlake("publish", url, "--lake", str(lake), **ENVIRON, AWS_ENDPOINT_URL=bucket.endpoint)
    assert (done.returncode, done.stdout) == (code, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr
    after = {path: path.stat().st_mtime_ns for path in lake.rglob("*") if path.name != ".publish-lock"}
    assert {path: time for path, time in after.items() if path != lake} == {
        p: t for p, t in before.items() if p != lake
    }


def test_no_lake_is_told_before_a_store_is_asked(tmp_path: Path, turnlake: Run) -> None:
    done = turnlake("publish", f"file://{tmp_path}/x", "--lake", "none")
    assert done.returncode == 2
    assert "there is no lake at" in done.stderr
    assert not (tmp_path / "none").exists()
