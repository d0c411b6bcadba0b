"""A Dask cluster of worker processes on this machine, for tests: run as a program, it stays until its stdin ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Cluster:
    """A running cluster: the scheduler's HOST:PORT, and the process of each worker by the folder of its files."""

    def __init__(self, address: str, workers: dict[str, int]) -> None:
        self.address = address
        self.workers = {Path(folder): pid for folder, pid in workers.items()}

    def batches(self) -> dict[Path, int]:
        """The folders of batches that are on the workers now, and the process of each worker."""
        return {path: pid for folder, pid in self.workers.items() for path in folder.glob("turnlake-*")}


@contextmanager
def running(scratch: Path, workers: int, **settings: object) -> Iterator[Cluster]:
    """A cluster of that many processes, with settings of Dask."""
    words = [sys.executable, __file__, str(scratch), str(workers), json.dumps(settings)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            address, pids = json.loads(process.stdout.readline())
            yield Cluster(address.removeprefix("tcp://"), pids)
        finally:
            process.stdin.close()
            process.wait(60)


def main() -> None:
    import dask
    from distributed import LocalCluster

    dask.config.set(json.loads(sys.argv[3]))
    options = {"n_workers": int(sys.argv[2]), "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(local_directory=sys.argv[1], memory_limit=0, **options) as cluster:
        pids = {nanny.worker_dir: nanny.pid for nanny in cluster.workers.values()}
        print(json.dumps([cluster.scheduler_address, pids]), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
