"""One run directory, several launchers: never two live trainers."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.launcher_kit import GRACEFUL, Run, living, wait_for

_UTS = ["unshare", "--uts", "sh", "-c", 'hostname other-host && exec "$@"', "sh"]


def another_host() -> list[str]:
    """A command prefix under which a program sees another host name, as on a second node."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or subprocess.run([*_UTS, "true"]).returncode != 0:
        pytest.skip("needs root and unshare for a second host name")
    return _UTS


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run(tmp_path).python(GRACEFUL)
    made.environment["UNBROKEN_HEARTBEAT_SECONDS"] = "0.2"
    return made


def test_twenty_launchers_one_trainer(run: Run) -> None:
    processes = [run.start() for _ in range(20)]
    run.ready()
    wait_for(lambda: sum(process.poll() is not None for process in processes) == 19, "19 refusals")
    (winner,) = (process for process in processes if process.poll() is None)
    winner.terminate()
    ends = {process.pid: run.end(process) for process in processes}
    assert ends.pop(winner.pid)[0] == 42
    assert {code for code, _ in ends.values()} == {45}
    assert all(f"held by process {winner.pid} on {os.uname().nodename}" in said for _, said in ends.values())
    assert [path.name for path in run.paths.logs.iterdir()] == ["attempt_1.log"]


def test_a_live_holder_on_another_host_is_seen_by_its_heartbeat(run: Run) -> None:
    prefix = another_host()
    process = run.start(*prefix)
    run.ready()
    code, said = run.run()
    assert code == 45 and "other-host" in said
    process.terminate()
    assert run.end(process)[0] == 42


def test_a_frozen_holder_is_fenced(run: Run) -> None:
    prefix = another_host()
    frozen = run.start(*prefix)
    run.ready()
    (run.paths.root / "ready").unlink()
    (trainer,) = (pid for pid in living(str(run.folder / "train.py")) if pid != frozen.pid and "-S" in _words(pid))
    frozen.send_signal(signal.SIGSTOP)
    second = run.start()
    run.ready()
    frozen.send_signal(signal.SIGCONT)
    code, said = run.end(frozen)
    assert code == 45 and "taken over" in said
    assert not Path(f"/proc/{trainer}").exists()
    assert run.status.pid == second.pid, "the fenced launcher wrote nothing"
    second.terminate()
    assert run.end(second)[0] == 42
    assert run.status.attempt == 2


def _words(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[1:2]


def test_a_removed_lease_ends_the_trainer(run: Run) -> None:
    process = run.start()
    run.ready()
    shutil.rmtree(run.paths.leases)
    assert run.end(process)[0] == 45
    assert not living(str(run.folder / "train.py"))
