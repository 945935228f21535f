"""What a test does with a running cluster: commands, jobs, preemption."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from .config import NODE_CPUS, Layout
from .host import SBIN
from .processes import HANG_S, MARKER, POLL_S

GONE = "GONE"  # the state of a job that the controller has forgotten (MinJobAge)
_CLIENT_PREFIXES = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SQUEUE_", "SACCT_", "SINFO_", "SALLOC_", "SCANCEL_")


class CommandFailed(subprocess.CalledProcessError):
    """A command ended with an error; says what it printed."""

    def __str__(self) -> str:
        return f"{shlex.join(map(str, self.cmd))} exited {self.returncode}: {self.stderr or self.output or ''}"


class Client:
    """The commands of one instance. `Cluster` adds its life."""

    layout: Layout
    nodes: list[str]

    @property
    def env(self) -> dict[str, str]:
        """The environment for commands outside the jobs: ours without Slurm's variables, plus this cluster's conf."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(_CLIENT_PREFIXES)}
        path = env.get("PATH", "/usr/bin:/bin") + ":" + SBIN
        if self.layout.bin.exists():  # wrappers that know the conf, where there is no private /etc/slurm
            path = f"{self.layout.bin}:{path}"
        return env | {"PATH": path, "SLURM_CONF": str(self.layout.slurm_conf), MARKER: str(self.layout.root)}

    @cached_property
    def version(self) -> tuple[int, int]:
        """Slurm's version, as (24, 11)."""
        year, month = self.run(["sinfo", "--version"]).stdout.split()[-1].split(".")[:2]
        return int(year), int(month)

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        check: bool = True,
        timeout: float = HANG_S,
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end with the cluster's environment; `env` adds to it. Output is captured as text."""
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        if "stdout" not in kwargs and "stderr" not in kwargs:
            kwargs["capture_output"] = True
        words = [str(a) for a in argv]
        done = subprocess.run(words, env=self.env | dict(env or {}), text=True, timeout=timeout, check=False, **kwargs)
        if check and done.returncode:
            raise CommandFailed(done.returncode, words, done.stdout, done.stderr)
        return done

    def popen(
        self, argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, **kwargs: Any
    ) -> subprocess.Popen[str]:
        """Start a command (Snakemake, for one) with the cluster's environment; `stop` ends it at the latest."""
        return subprocess.Popen([str(a) for a in argv], env=self.env | dict(env or {}), text=True, **kwargs)

    def sbatch(
        self,
        script: str,
        *args: str,
        partition: str = "normal",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> str:
        """Submit a shell script given as text (`#!/bin/sh` unless it says otherwise); return the job id.

        `args` go to sbatch. Output goes to a file of the instance (see `output`) unless `args` name one.
        """
        text = script if script.startswith("#!") else f"#!/bin/sh\n{script}\n"
        argv = ["sbatch", "--parsable", f"--partition={partition}", f"--output={self._output('%j')}", *args]
        done = subprocess.run(
            argv,
            input=text,
            env=self.env | dict(env or {}),
            cwd=cwd or self.layout.root,
            text=True,
            capture_output=True,
        )
        if done.returncode:
            raise CommandFailed(done.returncode, argv, done.stdout, done.stderr)
        return done.stdout.strip().split(";")[0]

    def output(self, job: str) -> str:
        """What the job printed so far."""
        path = self._output(job)
        return path.read_text(errors="replace") if path.exists() else ""

    def scontrol_show(self, job: str) -> dict[str, str]:
        """The fields of `scontrol show job`, empty when the controller does not know the job."""
        done = self.run(["scontrol", "-o", "show", "job", job], check=False)
        if done.returncode:
            return {}
        return dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)

    def state(self, job: str) -> str:
        """JobState as the controller sees it, or `GONE`."""
        return self.scontrol_show(job).get("JobState", GONE)

    def wait_state(self, job: str, states: str | Collection[str], timeout: float = HANG_S) -> str:
        """Wait until the job is in one of the states (names as in squeue's %T); return that state."""
        wanted = {states} if isinstance(states, str) else set(states)
        deadline = time.monotonic() + timeout
        while True:
            fields = self.scontrol_show(job)
            state = fields.get("JobState", GONE)
            if state in wanted:
                return state
            if time.monotonic() > deadline:
                reason = fields.get("Reason", "")
                raise TimeoutError(f"job {job} is {state} ({reason}) after {timeout:g} s, not {' or '.join(wanted)}")
            time.sleep(POLL_S * 2)

    def wait_output(self, job: str, text: str, timeout: float = HANG_S) -> str:
        """Wait until the job has printed `text`; return all of its output."""
        deadline = time.monotonic() + timeout
        while text not in (said := self.output(job)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job} ({self.state(job)}) did not print {text!r} in {timeout:g} s: {said!r}")
            time.sleep(POLL_S)
        return said

    def sacct(
        self, job: str, fields: str = "JobID,JobName,State,ExitCode,MaxRSS,ReqMem,Elapsed,NodeList"
    ) -> list[dict[str, str]]:
        """The accounting rows of the job and its steps, every restart included."""
        done = self.run(["sacct", "-D", "-P", "-j", job, f"--format={fields}"])
        head, *rows = [line.split("|") for line in done.stdout.splitlines()]
        return [dict(zip(head, row, strict=True)) for row in rows]

    def cancel(self, job: str) -> None:
        """scancel."""
        self.run(["scancel", job])

    def preempt(self, target: str, seconds: float = 1) -> str:
        """Submit a job of `high` that pushes `target` (a job or a node) out, and return its id; it runs for `seconds`.

        It needs a whole node, because Slurm offers no way to name a victim: among preemptable jobs of one node it picks
        as it likes. A job's neighbours on its node are therefore preempted with it (submit with `--nodelist` to keep
        jobs apart; Slurm spreads them anyway). Jobs of `high` and `short` are never preempted.
        """
        node = target if target in self.nodes else self._first(self.scontrol_show(target)["NodeList"])
        args = [f"--nodelist={node}", f"--cpus-per-task={NODE_CPUS}", "--mem=100M", "--job-name=preemptor", "--time=5"]
        return self.sbatch(f"sleep {seconds:g}", *args, partition="high")

    def _first(self, nodelist: str) -> str:
        return self.run(["scontrol", "show", "hostnames", nodelist]).stdout.split()[0]

    def _output(self, job: str) -> Path:
        return self.layout.log / f"job-{job}.out"
