"""The lease: who holds, who is dead, who was first."""

import errno
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from unbroken.collection.run_dir import RunPaths
from unbroken.errors import LeaseHeld, SlurmError
from unbroken.run_dir import lease
from unbroken.run_dir.holder import Holder, Life
from unbroken.run_dir.lease import acquire, holder


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path / "run")


def plant(paths: RunPaths, number: int = 1, **changes: object) -> Holder:
    """A lease of some other process."""
    paths.leases.mkdir(parents=True, exist_ok=True)
    base = Holder.me("other", "2026-01-01T00:00:00.000Z", 0.02, None, 0)
    made = replace(base, **{"number": number, "host": "far-away", **changes})  # type: ignore[arg-type]
    (paths.leases / f"{number:06d}.json").write_bytes(made.dump())
    return made


def test_take_release_take(paths: RunPaths) -> None:
    assert holder(paths) is None
    first = acquire(paths)
    found = holder(paths)
    assert found is not None and found.pid == os.getpid() and found.number == 1
    with pytest.raises(LeaseHeld, match=f"process {os.getpid()} on {os.uname().nodename}"):
        acquire(paths)
    first.release()
    assert holder(paths) is None and json.loads(first.file.read_text())["released"] is True
    second = acquire(paths, "12", 1)
    assert second.mine.number == 2 and second.taken_from is None
    assert "Slurm job 12 (restart 1)" in str(holder(paths))


def test_a_dead_process_of_this_machine_is_replaced_at_once(paths: RunPaths) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead = plant(paths, host=os.uname().nodename, pid=child.pid, process_start="1")
    assert holder(paths) is None
    taken = acquire(paths)
    assert taken.taken_from == dead and taken.mine.number == 2


def test_a_reused_process_id_is_another_process(paths: RunPaths) -> None:
    plant(paths, host=os.uname().nodename, pid=os.getpid(), process_start="1")
    assert acquire(paths).mine.number == 2


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    from unbroken.run_dir.holder import process_start

    while process_start(child.pid):
        time.sleep(0.005)
    assert Path(f"/proc/{child.pid}").exists()
    child.wait()


def test_a_silent_holder_of_another_host_is_replaced_after_its_beats(paths: RunPaths) -> None:
    plant(paths)
    begin = time.monotonic()
    assert acquire(paths).mine.number == 2
    assert time.monotonic() - begin >= 0.02 * lease.BEATS_UNTIL_DEAD


@pytest.mark.parametrize("clock", [0.0, 4e9], ids=["clock long ago", "clock far ahead"])
def test_a_beating_holder_is_alive_whatever_its_clock_says(paths: RunPaths, clock: float) -> None:
    plant(paths, heartbeat_s=0.5)
    stop = threading.Event()

    def beat() -> None:
        count = 0
        while not stop.wait(0.02):
            count += 1
            os.utime(paths.leases / "000001.json", (clock + count, clock + count))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(LeaseHeld, match="far-away"):
            acquire(paths)
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"JobState": "RUNNING", "Restarts": "0"}, Life.ALIVE),
        ({"JobState": "COMPLETING", "Restarts": "0"}, Life.ALIVE),
        ({"JobState": "COMPLETED", "Restarts": "0"}, Life.DEAD),
        ({"JobState": "CANCELLED"}, Life.DEAD),
        ({"JobState": "NODE_FAIL", "Restarts": "0"}, Life.UNKNOWN),
        ({"JobState": "RUNNING", "Restarts": "1"}, Life.UNKNOWN),
        (None, Life.UNKNOWN),
    ],
)
def test_what_slurm_says_of_a_holder(paths: RunPaths, answer: dict[str, str] | None, expected: Life) -> None:
    far = plant(paths, slurm_job_id="9")
    assert far.life("10", 0, lambda _: answer) is expected


def test_a_slurm_that_does_not_answer_proves_nothing(paths: RunPaths) -> None:
    def away(_: str) -> None:
        raise SlurmError("away")

    assert plant(paths, slurm_job_id="9").life(ask_slurm=away) is Life.UNKNOWN
    assert plant(paths, slurm_job_id="9", slurm_cluster="elsewhere").life(ask_slurm=away) is Life.UNKNOWN


def test_the_same_job_requeued_supersedes_itself(paths: RunPaths) -> None:
    old = plant(paths, slurm_job_id="9", restart_count=0)
    assert old.life("9", 1) is Life.SUPERSEDED
    assert old.life("9", 0) is Life.UNKNOWN
    # The same number again: Slurm would speak of the asker's own job.
    assert old.life("9", 0, lambda _: {"JobState": "RUNNING", "Restarts": "0"}) is Life.UNKNOWN
    assert acquire(paths, "9", 1).taken_from == old


def test_a_holder_that_was_taken_for_dead_notices(paths: RunPaths) -> None:
    mine = acquire(paths)
    assert mine.beat()
    plant(paths, number=2)
    assert not mine.beat()
    mine.release()
    assert '"released": false' in mine.file.read_text()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"number": 1}', b"\xff"])
def test_a_torn_lease_is_watched_then_replaced(
    paths: RunPaths, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT_S", 0.02)
    paths.leases.mkdir(parents=True)
    (paths.leases / "000004.json").write_bytes(content)
    assert holder(paths) is None
    assert acquire(paths).mine.number == 5


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_without_hard_links(paths: RunPaths, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    acquire(paths)
    with pytest.raises(LeaseHeld):
        acquire(paths)
    assert [path.name for path in paths.leases.iterdir()] == ["000001.json"]


def test_a_lost_answer_of_the_file_server_is_understood(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def link(source: Path, target: Path) -> None:
        real(source, target)
        raise FileExistsError(errno.EEXIST, "sent twice")

    monkeypatch.setattr(os, "link", link)
    assert acquire(paths).mine.number == 1


def test_old_numbers_are_cleaned_up_but_a_few(paths: RunPaths) -> None:
    for _ in range(20):
        acquire(paths).release()
    numbers = sorted(int(path.stem) for path in paths.leases.iterdir())
    assert numbers[-1] == 20 and 8 <= len(numbers) <= 10


_RACE = """
import sys, time
from pathlib import Path
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import LeaseHeld
from unbroken.run_dir.lease import acquire
held = Path(sys.argv[1]) / "held"
for _ in range(40):
    try:
        mine = acquire(RunPaths(Path(sys.argv[1])))
    except LeaseHeld:
        continue
    held.touch(exist_ok=False)
    held.unlink()
    mine.release()
"""


def test_processes_that_race_never_hold_together(paths: RunPaths) -> None:
    paths.root.mkdir()
    source = Path(lease.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    argv = [sys.executable, "-c", _RACE, str(paths.root)]
    racers = [subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE) for _ in range(8)]
    assert [racer.communicate()[1] for racer in racers] == [b""] * 8
