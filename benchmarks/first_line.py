"""The trainer of row 8: its first line notes the time and every process of its job, with when each was started."""

import time

FIRST_LINE = time.time()

import json  # noqa: E402
import os  # noqa: E402
from pathlib import Path  # noqa: E402


def job_processes(job: str) -> tuple[list[tuple[float, str]], float]:
    """(start, command line) of each process of a Slurm job, oldest first; the CPU seconds of all of them."""
    boot = time.time() - float(Path("/proc/uptime").read_text().split()[0])
    ticks = os.sysconf("SC_CLK_TCK")
    found, cpu = [], 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"SLURM_JOB_ID={job}\0".encode() in (folder / "environ").read_bytes():
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                cpu += sum(int(field) for field in fields[11:15]) / ticks
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.append((boot + int(fields[19]) / ticks, command))
        except OSError:
            continue
    return sorted(found), cpu


def main() -> None:
    run = Path(os.environ["UNBROKEN_RUN_DIR"])
    processes, cpu = job_processes(os.environ["SLURM_JOB_ID"])
    content = {"first_line": FIRST_LINE, "processes": processes, "cpu_s": cpu}
    (run / "first_line.json").write_text(json.dumps(content))
    (run / "result.json").write_text("{}")


main()
