"""Slurm commands that answer what a real one (22.05.8) answered, for the parsers alone; anything else is refused.

What the answers mean for a run is tested on the real cluster, tests/slurm.
"""

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from unbroken.slurm.accounting_rows import FIELDS, SEPARATOR
from unbroken.slurm.parse import QUEUE_FORMAT

ANSWERS = Path(__file__).parent / "slurm_answers"

_SQUEUE = ["squeue", "--noheader", "--array", f"--format={QUEUE_FORMAT}"]
_SACCT = ["sacct", "--duplicates", "--noheader", "--parsable2", f"--delimiter={SEPARATOR}", f"--format={FIELDS}"]
_INVALID = "slurm_load_jobs error: Invalid job id specified\n"

_SCRIPT = """#!{python} -S
import json, os, sys
argv = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
with open({log!r}, "a") as log:
    log.write(json.dumps(argv) + "\\n")
for known in json.load(open({table!r})):
    if known["argv"] == argv:
        sys.stdout.write(open(known["file"]).read() if known["file"] else "")
        sys.stderr.write(known["stderr"])
        sys.exit(known["code"])
sys.stderr.write("fake slurm: unrecognized call " + json.dumps(argv) + "\\n")
sys.exit(64)
"""


class FakeSlurm:
    """A folder on PATH with strict squeue, sacct, scontrol, scancel, sinfo."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._calls: list[dict[str, object]] = []
        self.log = folder / "calls.jsonl"
        script = _SCRIPT.format(python=sys.executable, log=str(self.log), table=str(folder / "table.json"))
        for name in ("squeue", "sacct", "scontrol", "scancel", "sinfo", "sacctmgr"):
            path = folder / name
            path.write_text(script)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        self.answer([*_SQUEUE], "squeue.txt")
        self.answer([*_SQUEUE, "--me"], "squeue.txt")
        self.answer([*_SQUEUE, "--states=all", "--jobs=10,11,4"], "squeue.txt")
        self.answer([*_SQUEUE, "--states=all", "--jobs=424242"], stderr=_INVALID, code=1)
        self.answer([*_SACCT, "--jobs=1,11,2,3,6"], "sacct.txt")
        self.answer(["scontrol", "show", "job", "9"], "show_job.txt")
        self.answer(["scontrol", "show", "job", "10"], "show_array.txt")
        self.answer(["scontrol", "show", "job", "424242"], stderr=_INVALID, code=1)
        self.answer(["scontrol", "show", "config"], "show_config.txt")
        self.answer(["scontrol", "show", "partition"], "show_partition.txt")

    def answer(self, argv: list[str], file: str | None = None, stderr: str = "", code: int = 0) -> None:
        """Answer this call so from now on."""
        self._calls = [known for known in self._calls if known["argv"] != argv]
        path = str(ANSWERS / file) if file else None
        self._calls.append({"argv": argv, "file": path, "stderr": stderr, "code": code})
        (self.folder / "table.json").write_text(json.dumps(self._calls))

    def calls(self) -> list[list[str]]:
        """Every call so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
