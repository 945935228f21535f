"""Make the pictures of docs/screens: every command on a real test cluster, and the report. `make screens`.

A small collection is preempted, one crashes, one waits: what a person sees then.
"""

import fcntl
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402
from rich.text import Text  # noqa: E402
from tests.integration.browser import Browser  # noqa: E402
from tests.slurm.cluster import Cluster  # noqa: E402
from tests.slurm.workflow import SlurmProject  # noqa: E402
from tests.workflow.project import status_of, wait_for  # noqa: E402

OUT = ROOT / "docs" / "screens"
WIDTH = 110
SCRATCH = "unbroken-screens-"


def run_on_terminal(argv: list[str], project: SlurmProject, seconds: float = 200) -> str:
    """What a command prints on a terminal of WIDTH columns, colours included."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 60, WIDTH, 0, 0))
    env = {**project.environment(), "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "COLORTERM": "truecolor"}
    process = subprocess.Popen(argv, cwd=project.folder, env=env, stdin=child, stdout=child, stderr=child)
    os.close(child)
    said = b""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        try:
            part = os.read(parent, 65536)
        except OSError:  # the terminal's other end is closed
            break
        if not part:
            break
        said += part
    process.wait(10)
    os.close(parent)
    return said.decode(errors="replace").replace("\r\n", "\n")


def picture(name: str, command: str, text: str) -> None:
    """docs/screens/<name>.svg: the command and its answer."""
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), color_system="truecolor")  # noqa: SIM115
    console.print(Text("$ ", "bold green") + Text(command, "bold"))
    console.print(Text.from_ansi(text.rstrip()))
    assert str(ROOT) not in text and SCRATCH not in text, f"{name} shows a path of this machine: {text}"
    (OUT / f"{name}.svg").write_text(console.export_svg(title="unbroken"))
    print(f"{name}: {len(text.splitlines())} lines")


def prepare(project: SlurmProject) -> None:
    toy = {"steps": 40, "hold_at": 20, "save_every": 5}
    project.add(
        "rivers",
        trainer="consensus",
        data={"source": "synthetic_river", "basins": 2, "days": 730, "seed": 7},
        config={"epochs": 10, "batch_size": 64, "lr": 0.003},
        grid={"hidden": [16, 32]},
        seeds=2,
    )
    project.add("preempted", config=toy, resources={"slurm_partition": "grace"}, seeds=1)
    project.add("crashing", config={"steps": 10, "crash_at": 7}, seeds=1)
    project.add("waiting", config=toy, resources={"slurm_partition": "down"}, seeds=1)


def main() -> None:
    OUT.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=SCRATCH))
    with Cluster() as cluster:
        project = SlurmProject(folder / "project", cluster)
        prepare(project)

        def show(name: str, *words: str) -> None:
            picture(name, " ".join(words), run_on_terminal(list(words), project))

        said = run_on_terminal(["snakemake", "-n", "rivers", "preempted"], project)
        picture("dry-run", "snakemake -n rivers preempted", said[said.index("Building DAG") :])
        show("check", "unbroken", "check", "rivers")
        snakemake = project.begin()
        run = project.holding("preempted")
        cluster.preempt(status_of(run)["slurm_job_id"])
        project.await_(lambda: status_of(run).get("attempt") == 2, "the second attempt")
        wait_for(lambda: status_of(project.one_run("crashing")).get("status") == "failed", "the crash")
        wait_for(lambda: len(list((folder / "project/runs/rivers").glob("*/*/result.json"))) == 4, "the rivers")
        wait_for(lambda: len(cluster.run(["squeue", "-h"]).stdout.splitlines()) == 2, "only two jobs in the queue")
        show("status", "unbroken", "status")
        show("why-preempted", "unbroken", "why", "preempted")
        show("why-crash", "unbroken", "why", f"crashing/{project.one_run('crashing').parent.name}/0")
        show("why-waiting", "unbroken", "why", cluster.run(["squeue", "-h", "-t", "PD", "-o", "%i"]).stdout.split()[0])
        show("metrics", "unbroken", "metrics", "rivers")
        show("cluster", "unbroken", "cluster")
        show("gpu", "unbroken", "gpu", "preempted/steps")
        show("preempt", "unbroken", "preempt", "preempted/")
        os.killpg(snakemake.pid, signal.SIGINT)
        snakemake.wait(60)
        show("retry", "unbroken", "retry", f"crashing/{project.one_run('crashing').parent.name}/0")
        show("drill", "unbroken", "drill", f"rivers/{project.runs('rivers')[0].parent.name}/0", "--set", "epochs=2")
        show("summary", "python", "-m", "unbroken.report", "summary", "rivers")
        report = run_on_terminal(["snakemake", "rivers", "--cores", "2"], project)
        assert "Error" not in report, report
        shutil.copy(project.folder / "results/rivers/report.html", folder / "report.html")
        project.close()
    for name, width, phone in (("report-desk", 1280, False), ("report-phone", 390, True)):
        with Browser(width, 900, phone=phone) as browser:
            browser.open(folder / "report.html")  # the report names no absolute path
            browser.screenshot(OUT / f"{name}.png")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
