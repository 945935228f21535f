"""Row 11: the launcher's own start, and the memory it keeps while the trainer runs."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.harness import Figure, absolute, median, timed_process
from benchmarks.options import Options

TRAINER = "date +%s.%N > started; touch ready; while [ ! -e go ]; do sleep 0.02; done; echo 1 > result.json"


def spec(folder: Path) -> dict[str, object]:
    """A launch spec whose trainer tells when it was started."""
    identity = {"schema_version": 1, "config_hash": "0" * 64, "collection": "b", "seed": 0, "trainer": "command"}
    return {
        "schema_version": 1, "collection": "b", "setting": "0" * 12, "seed": 0, "label": "base",
        "identity": {**identity, "config": {}}, "config_yaml": "a: 1\n", "processes": 1, "operational": {},
        "resources": {}, "config_hash": "0" * 64, "command": ["sh", "-c", f"cd {folder}; {TRAINER}"],
    }  # fmt: skip


def once(folder: Path, watch: bool = False) -> tuple[float, float]:
    """(seconds from the launcher's start to the trainer's, megabytes of the launcher beside it where asked for)."""
    folder.mkdir()
    path = folder / "spec.json"
    path.write_text(json.dumps(spec(folder)))
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("UNBROKEN_", "SLURM_"))}
    began = time.time()
    command = [sys.executable, "-m", "unbroken.launch", "--run-dir", str(folder), "--spec", f"@{path}"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (folder / "ready").exists():
        assert process.poll() is None, "the launcher ended"
        time.sleep(0.005)
    memory = _memory_mb(process.pid) if watch else 0.0
    (folder / "go").touch()
    assert process.wait() == 0
    return float((folder / "started").read_text()) - began, memory


def _memory_mb(launcher: int) -> float:
    """Resident, once its threads stand."""
    time.sleep(0.1)
    lines = Path(f"/proc/{launcher}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


def measure(options: Options) -> list[Figure]:
    """To the first statement of the trainer, a shell; the interpreter's own start is told beside it."""
    folder = options.folder / "launcher"
    folder.mkdir()
    rounds = options.rounds(31, 9)
    starts = [once(folder / str(number))[0] for number in range(rounds + 3)][3:]  # one after the other, machine awake
    start = absolute(11, "launcher's start to the trainer's", 80.0, "ms", [1e3 * seconds for seconds in starts])
    python = [timed_process([sys.executable, "-c", "pass"])[0].wall for _ in starts]
    start.parts["python_-c_pass_ms"] = 1e3 * median(python)
    memory = [once(folder / f"watched_{number}", watch=True)[1] for number in range(5)]
    return [start, absolute(11, "launcher's memory", 30.0, "MB", memory)]
