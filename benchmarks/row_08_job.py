"""Row 8: from Slurm's start of the job to the trainer's first line, on the test cluster, less a bare srun."""

import json
import sys
from pathlib import Path

from tests.slurm.cluster import Cluster
from tests.slurm.workflow import SlurmProject

from benchmarks.harness import Figure, absolute, median
from benchmarks.options import Options
from benchmarks.processes import ROOT

STAGES = (
    ("batch script to Snakemake", "-m snakemake"),
    ("Snakemake to srun", "srun "),
    ("srun to the launcher", "-m unbroken.launch"),
    ("launcher to the trainer", "first_line.py"),
)
"""(what, a piece of the command line of the process whose start ends it)."""

BARE = "#!/bin/sh\n{python} -c 'import time; print(time.time())'\nsrun {python} -c 'import time; print(time.time())'\n"


def measure(options: Options) -> list[Figure]:
    """Jobs one after the other, so that none waits for another's start."""
    with Cluster(node_count=1) as cluster:
        project = SlurmProject(options.folder / "job", cluster)
        try:
            runs = options.rounds(5, 2)
            project.add("first", command=f"{sys.executable} {ROOT / 'benchmarks/first_line.py'}", seeds=runs)
            process = project.begin("--jobs", "1")
            if project.finish(process, timeout=600) != 0:
                raise RuntimeError(project.log()[-400:])
            found = [json.loads(path.read_text()) for path in (project.folder / "runs").rglob("first_line.json")]
        finally:
            project.close()
        bare = median(_bare_srun(cluster, options.folder) for _ in range(runs))
    whole = [one["first_line"] - one["processes"][0][0] for one in found]
    figure = absolute(8, "start of the job to the trainer's first line", 3.0, "s", [total - bare for total in whole])
    figure.parts |= {"bare srun python -c pass": bare, **_stages(found)}
    return [figure]


def _bare_srun(cluster: Cluster, folder: Path) -> float:
    """Seconds that `srun python -c pass` takes more inside a job than python alone."""
    script, out = folder / "bare.sh", folder / "bare.out"
    script.write_text(BARE.format(python=sys.executable))
    cluster.run(["sbatch", "--wait", "-o", str(out), str(script)])
    first, second = (float(line) for line in out.read_text().split())
    return second - first


def _stages(found: list[dict[str, object]]) -> dict[str, float]:
    parts: dict[str, list[float]] = {name: [] for name, _ in STAGES}
    parts["CPU time of the job by then"] = []
    for one in found:
        processes: list[tuple[float, str]] = one["processes"]  # type: ignore[assignment]
        before = processes[0][0]
        for name, piece in STAGES:
            starts = [start for start, command in processes if piece in command[: len(piece) + 200]]
            if starts:
                parts[name].append(starts[0] - before)
                before = starts[0]
        parts["CPU time of the job by then"].append(one["cpu_s"])  # type: ignore[arg-type]
    return {name: median(values) for name, values in parts.items() if values}
