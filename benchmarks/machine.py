"""On what the figures were measured: facts, no names of machines or people."""

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any


def facts(folder: Path) -> dict[str, Any]:
    """Processor, memory, disk, software, and how busy the machine is."""
    return {
        "processor": _first("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_gb": round(int(_first("/proc/meminfo", "MemTotal").split()[0]) / 1e6, 1),
        "file_system": _file_system(folder),
        "disk_free_gb": round(shutil.disk_usage(folder).free / 1e9),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "torch": version("torch"),
        "snakemake": version("snakemake"),
        "slurm": _output(["slurmd", "-V"]),
        "gpu": "none",
        "niceness": os.nice(0),
        "load_average": [round(value, 1) for value in os.getloadavg()],
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]),
    }


def _first(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return ""


def _file_system(folder: Path) -> str:
    return _output(["stat", "-f", "-c", "%T", str(folder)]) or "unknown"


def _output(argv: list[str]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return "none"
