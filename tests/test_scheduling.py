"""The examples for a nightly job do what they say, also when two meet, a signal comes or the disk is full."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from conftest import ROOT
from test_alerts_webhook import Hook, serve  # noqa: F401 - a fixture
from test_follow import until
from test_lock import HOLDER, end, first_line, start
from turnlake import cli
from turnlake.api import connect
from turnlake.errors import ModelError
from turnlake.sample.write import write_sample

EXAMPLES = ROOT / "docs" / "scheduling"
TURNLAKE = [sys.executable, "-m", "turnlake"]
MACHINE = {key: value for key, value in os.environ.items() if not key.startswith(("TURNLAKE_", "DSH_"))}
# A journal is no terminal, whatever the machine says of one.
LOUD = {**MACHINE, "FORCE_COLOR": "1", "TERM": "xterm-256color", "no_proxy": "*"}


class Home:
    """A user's home: `turnlake` in ~/.local/bin, the logs of the sample, ~/turnlake with a webhook."""

    def __init__(self, path: Path, sample: Path, hook: Hook) -> None:
        self.path, self.hook = path, hook
        self.work = path / "turnlake"
        self.work.mkdir(parents=True)
        (self.work / "webhook").write_text(hook.url + "\n")
        shutil.copytree(sample, path / ".dsh" / "sessions")
        program = path / ".local" / "bin" / "turnlake"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec {shlex.join(TURNLAKE)} "$@"\n')
        program.chmod(0o755)
        self.environment = {
            **LOUD,
            "HOME": str(path),
            "PATH": f"{program.parent}:/usr/bin:/bin",
            "SHELL": "/bin/sh",
        }

    def start(self, words: list[str], cwd: Path, **variables: str) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(words, cwd=cwd, env={**self.environment, **variables}, **pipes)

    def run(self, words: list[str], cwd: Path, **variables: str) -> tuple[int, str, str]:
        process = self.start(words, cwd, **variables)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def posted(self) -> list[Any]:
        return [body for _, _, body in self.hook.requests]

    def is_built(self) -> bool:
        with connect(self.work / "data" / "lake") as db:
            return bool(db.execute("select count(*) from marts.turns").fetchall()[0][0])


@pytest.fixture
def home(tmp_path: Path, sample: Path, serve: Callable[..., Hook]) -> Home:  # noqa: F811
    if "report" not in cli.COMMANDS:
        pytest.skip("there is no command `report` yet")
    return Home(tmp_path / "home", sample, serve())


# Cron.


def crontab() -> tuple[dict[str, str], list[str]]:
    """The variables and the entries of the example."""
    lines = [line for line in (EXAMPLES / "crontab").read_text("utf-8").splitlines() if line and line[0] != "#"]
    variables = dict(re.fullmatch(r"(\w+)=(\S+)", line).groups() for line in lines if line[0].isupper())  # type: ignore
    return variables, [line for line in lines if not line[0].isupper()]


def cron_command() -> str:
    """The command of the one entry, as cron reads it."""
    [entry] = crontab()[1]
    *when, command = entry.split(None, 5)
    ranges = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
    assert all(word == "*" or low <= int(word) <= high for word, (low, high) in zip(when, ranges, strict=True))
    # A bare % ends the command; what follows would be its input.
    assert not re.search(r"(?<!\\)%", command)
    return command


def test_the_line_for_cron_builds_reports_and_tells_what_is_new(home: Home) -> None:
    command = cron_command()
    code, out, err = home.run(["/bin/sh", "-c", command], home.path)
    assert (code, err) == (1, "")
    assert out.startswith("severity") and home.is_built()
    assert "<html" in (home.work / "report.html").read_text("utf-8")
    [body] = home.posted()
    assert len(body["fired"]) == len(out.splitlines()) - 1
    # The next night nothing is new, and cron sends no mail.
    assert home.run(["/bin/sh", "-c", command], home.path) == (0, "", "")
    assert len(home.posted()) == 1


def test_the_variables_for_cron_are_plain_values() -> None:
    variables, _ = crontab()
    assert set(variables) == {"MAILTO", "PATH"}
    # Cron expands nothing in them.
    assert not any("$" in value or "~" in value for value in variables.values())


def test_two_nightly_jobs_that_meet_tell_a_thing_once(home: Home) -> None:
    words = ["/bin/sh", "-c", cron_command()]
    both = [home.start(words, home.path) for _ in range(2)]
    outs = [process.communicate(timeout=300) for process in both]
    assert sorted(process.returncode for process in both) == [0, 1]
    assert [err for _, err in outs] == ["", ""]
    assert len(home.posted()) == 1 and home.is_built()


def test_a_build_that_fails_is_told_and_nothing_old_is_reported(home: Home) -> None:
    shutil.rmtree(home.path / ".dsh")
    code, out, err = home.run(["/bin/sh", "-c", cron_command()], home.path)
    assert (code, out) == (2, "") and len(err.splitlines()) == 1 and ".dsh/sessions" in err
    assert not (home.work / "report.html").exists() and home.posted() == []


# Systemd.


def unit(name: str) -> dict[str, dict[str, list[str]]]:
    """The settings of a unit file, each with all its values."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in (EXAMPLES / name).read_text("utf-8").splitlines():
        if section := re.fullmatch(r"\[(\w+)\]", line):
            found[section[1]] = {}
        elif line and line[0] not in "#;":
            key, _, value = line.partition("=")
            list(found.values())[-1].setdefault(key, []).append(value)
    return found


def commands(service: dict[str, list[str]], home: Path) -> Iterator[list[str]]:
    for line in service["ExecStart"]:
        yield [word.replace("%h", str(home)) for word in shlex.split(line)]


def test_the_unit_for_systemd_builds_reports_and_tells_what_is_new(home: Home) -> None:
    service = unit("turnlake.service")["Service"]
    [folder] = service["WorkingDirectory"]
    where = Path(folder.replace("%h", str(home.path)))
    # Several commands run one after the other, up to the first that fails, only in a unit of this type.
    assert service["Type"] == ["oneshot"]
    done = [home.run(words, where) for words in commands(service, home.path)]
    assert [code for code, _, _ in done] == [0, 0, 1]
    assert [err for _, _, err in done] == ["", "", ""]
    assert home.is_built() and (where / "report.html").exists() and len(home.posted()) == 1


def test_the_timer_starts_that_unit_every_day() -> None:
    timer = unit("turnlake.timer")
    assert timer["Install"]["WantedBy"] == ["timers.target"]
    # It starts the unit of its own name.
    assert "Unit" not in timer["Timer"] and (EXAMPLES / "turnlake.service").exists()
    assert re.fullmatch(r"\*-\*-\* \d\d:\d\d", timer["Timer"]["OnCalendar"][0])


def test_systemd_finds_no_fault_with_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze here")
    program = tmp_path / ".local" / "bin" / "turnlake"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    units = [shutil.copy(EXAMPLES / name, tmp_path) for name in ("turnlake.service", "turnlake.timer")]
    environment = {**MACHINE, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        [analyze, "--user", "verify", *map(str, units)], env=environment, text=True, capture_output=True, check=False
    )
    # What it does not know it only warns of.
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# A CI job.


def test_the_steps_of_the_ci_job_build_report_and_tell_what_is_new(home: Home, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="no PyYAML to read the job with")
    workflow = yaml.safe_load((EXAMPLES / "nightly.yml").read_text("utf-8"))
    # YAML 1.1 reads the key `on` as a truth.
    [schedule] = workflow[True]["schedule"]
    assert len(schedule["cron"].split()) == 5
    runner = {"RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    done = []
    for step in workflow["jobs"]["nightly"]["steps"]:
        secrets = dict.fromkeys(step.get("env", {}), home.hook.url)
        done.append(home.run(["bash", "-e", "-c", step["run"]], tmp_path, **runner, **secrets))
    assert [code for code, _, _ in done] == [0, 0, 1]
    assert [err for _, _, err in done] == ["", "", ""]
    assert "|" in (tmp_path / "summary").read_text("utf-8") and home.is_built() and len(home.posted()) == 1
    assert (tmp_path / "webhook").stat().st_mode & 0o077 == 0


def test_the_page_shows_the_files() -> None:
    page = (ROOT / "docs" / "scheduling.md").read_text("utf-8")
    for path in EXAMPLES.iterdir():
        assert f"(scheduling/{path.name})" in page


# What a job prints.


def run(*words: str, **variables: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*TURNLAKE, *words], env={**LOUD, **variables}, text=True, capture_output=True, check=False, timeout=300
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def lake(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of the sample, which its first build made in silence."""
    lake = tmp_path_factory.mktemp("scheduling") / "lake"
    assert run("build", str(sample), "--lake", str(lake), "-q") == (0, "", "")
    return lake


def test_quiet_jobs_that_went_well_print_nothing(sample: Path, lake: Path, tmp_path: Path) -> None:
    for words in (
        ("build", str(sample)),
        ("ingest", str(sample), "--full"),
        ("model",),
        ("alerts", "--since", "2026-11-01"),
        ("sample", str(tmp_path / "new"), "--sessions", "1", "--mb", "0.1"),
    ):
        assert run(*words, "--lake", str(lake), "-q") == (0, "", ""), words


def test_a_quiet_job_that_is_not_fine_says_why(sample: Path, lake: Path, tmp_path: Path) -> None:
    for command in ("build", "ingest"):
        code, out, err = run(command, str(sample), "--lake", str(lake), "-q", "--strict")
        assert (code, out) == (1, "") and "2 logs refused" in err and len(err.splitlines()) == 1
    code, out, err = run("build", str(tmp_path / "gone"), "--lake", str(lake), "-q")
    assert (code, out) == (2, "") and len(err.splitlines()) == 1


def test_json_is_printed_however_quiet(sample: Path, lake: Path) -> None:
    for command in ("build", "ingest"):
        _, out, err = run(command, str(sample), "--lake", str(lake), "-q", "--json")
        assert json.loads(out)["logs_seen"] and err == ""


def test_a_journal_gets_plain_lines(sample: Path, lake: Path) -> None:
    """No bar, no colour, no line that is written over, whatever the environment says of terminals."""
    for words in (("build", str(sample), "-v"), ("ingest", str(sample), "--full"), ("model",), ("alerts", "-v")):
        _, out, err = run(*words, "--lake", str(lake))
        assert out and not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", out + err), words
        assert all(line.strip() for line in err.splitlines()), words


# When two meet.


def test_a_build_that_will_not_wait_says_who_builds(tmp_path: Path, sample: Path) -> None:
    holder = start(HOLDER, tmp_path)
    assert first_line(holder) == "held"
    for command in ("build", "ingest"):
        code, out, err = run(command, str(sample), "--lake", str(tmp_path), "--no-wait", "-q")
        assert (code, out) == (2, "")
        assert err == (f"turnlake: another build is running (pid {holder.pid}). Wait for it, or leave out --no-wait.\n")
    end(holder)


def test_waiting_is_no_trouble(tmp_path: Path, sample: Path) -> None:
    holder = start(HOLDER, tmp_path)
    first_line(holder)
    words = [*TURNLAKE, "build", str(sample), "--lake", str(tmp_path), "--workers", "1"]
    loud, quiet = (
        subprocess.Popen([*words, *more], env=LOUD, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for more in ([], ["-q"])
    )
    assert loud.stderr
    said = loud.stderr.readline()
    assert said == f"another build is running (pid {holder.pid}); waiting for it to end\n"
    end(holder)
    assert quiet.communicate(timeout=300) == ("", "")
    assert loud.communicate(timeout=300)[0].startswith("logs ")
    assert (quiet.returncode, loud.returncode) == (0, 0)


# A signal.


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the workers below /proc")
@pytest.mark.parametrize("to_all", [False, True], ids=["the build", "its whole group"])
def test_sigterm_ends_a_build_and_its_workers_and_leaves_the_lake_as_it_was(tmp_path: Path, to_all: bool) -> None:
    write_sample(tmp_path / "root", sessions=30, megabytes=30, version=4, seed=1)
    lake = tmp_path / "lake"
    words = [*TURNLAKE, "build", str(tmp_path / "root"), "--lake", str(lake), "--workers", "2", "-q"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(words, env=LOUD, start_new_session=True, **pipes)
    # Both work by then: raised while Python forks one, an exception would be told and forgotten.
    until(lambda: len(children(process.pid)) == 2 and any(lake.glob(".build-*/**/*.parquet")))
    workers = children(process.pid)
    if to_all:
        os.killpg(process.pid, signal.SIGTERM)
    else:
        process.terminate()
    assert process.communicate(timeout=120) == ("", "turnlake: terminated\n")
    assert process.returncode == cli.TERMINATED
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    assert [path.name for path in lake.iterdir()] == [".lock"]
    assert subprocess.run([*TURNLAKE, "ingest", *words[4:]], env=LOUD, check=False).returncode == 0


def test_a_signal_that_a_library_made_another_error_of_is_still_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        except KeyboardInterrupt:
            raise RuntimeError("query interrupted") from None
        return 0

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(cli, "dispatch", interrupted)
    assert cli.main(["doctor"]) == cli.TERMINATED
    assert capsys.readouterr().err == "turnlake: terminated\n"
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_failure_after_a_signal_of_before_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def terminated(_: object) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
        return 0

    def failing(_: object) -> int:
        raise RuntimeError

    monkeypatch.setattr(cli, "dispatch", terminated)
    assert cli.main([]) == cli.TERMINATED
    monkeypatch.setattr(cli, "dispatch", failing)
    assert cli.main([]) == cli.INTERNAL_FAILURE


# A full disk.


def test_a_full_disk_is_named_and_leaves_the_lake_as_it_was(tmp_path: Path, sample: Path) -> None:
    """On a small disk of its own, which a namespace of its own holds."""
    inside = 'mount -t tmpfs -o size=$1 none "$2" && shift 2 && "$@"; code=$?; ls -A "$LAKE"; exit $code'
    words = [*TURNLAKE, "build", str(sample), "--lake", str(tmp_path / "disk" / "lake"), "--workers", "1", "-q"]
    (tmp_path / "disk").mkdir()
    for size, stage in (("256k", "reading the logs"), ("6m", "building the models")):
        done = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inside, "sh", size,
             str(tmp_path / "disk"), *words],
            env={**LOUD, "LAKE": str(tmp_path / "disk" / "lake")}, text=True, capture_output=True, check=False,
        )  # fmt: skip
        if "unshare:" in done.stderr or "mount:" in done.stderr:
            pytest.skip("no disk can be made here")
        [line] = done.stderr.splitlines()
        assert done.returncode == cli.INTERNAL_FAILURE, stage
        assert line.startswith("turnlake: turnlake build failed, for the disk is full. Free some space"), stage
        assert not any(name.startswith((".build", "turnlake.duckdb")) for name in done.stdout.split()), stage


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_by_the_number_of_its_error(number: int) -> None:
    assert cli.is_disk_full(OSError(number, os.strerror(number)))
    assert not cli.is_disk_full(OSError(errno.EIO, os.strerror(errno.EIO)))


def test_a_full_disk_behind_another_error() -> None:
    error = ModelError("a.sql: it failed")
    error.__cause__ = duckdb.IOException('IO Error: Could not write file "x": No space left on device')
    assert cli.is_disk_full(error) and not cli.is_disk_full(ModelError("a.sql: it failed"))


def test_a_full_disk_under_stdout() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        done = subprocess.run(
            [*TURNLAKE, "prices", "show", "deepseek-v4-pro"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == cli.INTERNAL_FAILURE and "the disk is full" in done.stderr
