"""Real SLURM: slurmctld, slurmd and munged of this machine, whose jobs are the workers of a sweep."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.sweep import open_executor
from tests.distributed.conftest import POINTS, ROOT, text_of, until

_missing = [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if shutil.which(name) is None]
needs_slurm = pytest.mark.skipif(
    bool(_missing) or os.geteuid() != 0,
    reason=f"SLURM CANNOT BE TESTED HERE: missing: {', '.join(_missing) or 'root'} (apt install slurm-wlm)",
)
pytestmark = pytest.mark.distributed

_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000
PartitionName=short Nodes={host} Default=YES MaxTime=60 State=UP
"""


def free_ports() -> tuple[int, int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        return sockets[0].getsockname()[1], sockets[1].getsockname()[1]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cluster of this machine; SLURM's commands in this process know it."""
    for name in ("state", "spool"):
        (tmp_path / name).mkdir()
    key = tmp_path / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    host = platform.node().partition(".")[0]
    (tmp_path / "slurm.conf").write_text(_CONF.format(host=host, folder=tmp_path, ports=free_ports()))
    (tmp_path / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    files = [f"--{each}-file={tmp_path / each}" for each in ("key", "pid", "log", "seed")]
    commands = [
        ["munged", "--force", "--foreground", f"--socket={tmp_path}/munge.socket", *files],
        ["slurmctld", "-D"],
        ["slurmd", "-D"],
    ]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (tmp_path / f"{command[0]}.out").open("wb") as output:
                started.append(subprocess.Popen(command, stdout=output, stderr=output))
            until(lambda: (tmp_path / "munge.socket").exists())
        until(lambda: "idle" in said("sinfo", "--noheader", "--format=%T"))
        yield
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(timeout=30)


def said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout


@needs_slurm
def test_jobs_give_what_one_process_gives_and_are_gone_afterwards(slurm: None, serial: str) -> None:
    options = {"queue": "short", "walltime": "'00:10:00'", "memory": "500 MB"}
    jobs: set[str] = set()

    def look(share: float, point: str) -> None:
        if not jobs:
            jobs.update(said("squeue", "--noheader", "--format=%j %P").splitlines())

    found = clustersim.sweep(POINTS, look, executor=open_executor("slurm", 2, options))
    assert text_of(found) == serial
    assert jobs == {"dask-worker short"}
    until(lambda: not said("squeue", "--noheader", "--states=PENDING,RUNNING").strip())


def test_slurm_needs_a_number_of_workers_and_options_that_it_has() -> None:
    with pytest.raises(InputError, match="slurm needs the number of workers"):
        open_executor("slurm", 0)
    wrong = open_executor("slurm", 1, {"no": "1"})
    with pytest.raises(InputError, match="SLURMCluster does not take these options"), wrong:
        pass
