"""Signals and kills: real ones, on real process trees."""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.integration.launcher_kit import GRACEFUL, Run, living, wait_for

WRITE_RESULT = 'echo "{}" > "$UNBROKEN_RUN_DIR/result.json"'


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGHUP"])
def test_each_stop_signal_ends_in_42(run: Run, name: str) -> None:
    process = run.python(GRACEFUL).start()
    run.ready()
    process.send_signal(getattr(signal, name))
    assert run.end(process)[0] == 42
    arrived = "SIGTERM" if name == "SIGHUP" else name
    status = run.status
    assert (status.status, status.last_signal, status.exit_code) == ("preempted", arrived, 42)
    assert (status.resubmit_count, status.early_preemptions) == (1, 0)


def test_later_signals_change_nothing(run: Run) -> None:
    slow = GRACEFUL.replace(
        "sys.exit(42)", '(run / "saving").touch()\nwhile not (run / "go").exists(): time.sleep(0.01)\nsys.exit(42)'
    )
    process = run.python(slow).start()
    run.ready()
    process.send_signal(signal.SIGTERM)
    wait_for((run.paths.root / "saving").exists, "the save")
    for _ in range(5):
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGUSR1)
    wait_for(lambda: "SIGUSR1" in run.file("signals"), "the other kind")
    (run.paths.root / "go").touch()
    assert run.end(process)[0] == 42
    assert run.file("signals").split() == ["SIGTERM", "SIGUSR1"]


def test_signals_ignored_by_snakemake_reach_the_trainer(run: Run) -> None:
    def ignore() -> None:
        for name in (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM):
            signal.signal(name, signal.SIG_IGN)

    process = run.python(GRACEFUL).start(preexec_fn=ignore)
    run.ready()
    process.send_signal(signal.SIGUSR1)
    assert run.end(process)[0] == 42


def test_nohup_is_respected(run: Run) -> None:
    process = run.python(GRACEFUL).start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    run.ready()
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGUSR2)
    assert run.end(process)[0] == 42
    assert run.file("signals").split() == ["SIGUSR2"]


def test_a_signal_before_the_handler_is_no_crash(run: Run) -> None:
    process = run.bash("touch $UNBROKEN_RUN_DIR/ready; exec sleep 1000").start()
    run.ready()
    process.terminate()
    code, said = run.end(process)
    assert code == 42 and "nothing new saved" in said
    status = run.status
    assert (status.status, status.exit_code, status.resubmit_count, status.early_preemptions) == (
        "preempted",
        -15,
        0,
        1,
    )


def test_a_signal_before_there_is_a_trainer(run: Run) -> None:
    fifo = run.folder / "spec"
    os.mkfifo(fifo)
    process = run.bash("touch $UNBROKEN_RUN_DIR/started").start(spec=f"@{fifo}")
    with open(fifo, "w") as file:  # opens when the launcher reads: its handlers are there
        process.terminate()
        file.write(json.dumps(run.spec))
    code, said = run.end(process)
    assert code == 42 and "before the trainer was started" in said
    assert not (run.paths.root / "started").exists()
    assert run.status.early_preemptions == 1


def wrapped(run: Run, shell: str) -> Run:
    """The graceful trainer behind a shell program that says TRAIN."""
    script = run.folder / "train.py"
    script.write_text(GRACEFUL)
    return run.bash(shell.replace("TRAIN", f"{sys.executable} -S {script}"))


@pytest.mark.parametrize(
    "shell",
    [
        "TRAIN; exit $?",
        "trap : USR1 TERM; TRAIN & wait; exit $?",
        "TRAIN & wait",
        "bash -c 'bash -c \"TRAIN; true\"; true'; true",
        "trap 'exit 143' TERM; trap 'exit 138' USR1; TRAIN & wait $!",
    ],
)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_a_shell_in_between_hides_nothing_c07(run: Run, shell: str, name: str) -> None:
    process = wrapped(run, shell).start()
    run.ready()
    process.send_signal(getattr(signal, name))
    assert run.end(process)[0] == 42
    assert run.status.status == "preempted"
    assert run.file("signals").split() == [name]
    assert run.paths.last.exists()


def test_a_recorded_shutdown_counts_although_the_code_is_hidden(run: Run) -> None:
    record = (
        "from unbroken.collection.run_dir import RunPaths\nfrom unbroken.run_dir.events import append_event\n"
        "append_event(RunPaths(run), 'graceful_shutdown', int(os.environ['UNBROKEN_ATTEMPT']))\nsys.exit(1)"
    )
    process = run.python(GRACEFUL.replace("sys.exit(42)", record)).start()
    run.ready()
    process.terminate()
    assert run.end(process)[0] == 42


def test_a_trainer_that_ignores_term_goes_on_to_its_end(run: Run) -> None:
    go = "$UNBROKEN_RUN_DIR/go"
    shell = f"trap '' TERM; touch $UNBROKEN_RUN_DIR/ready; until [ -e {go} ]; do sleep 0.02; done; " + WRITE_RESULT
    process = run.bash(shell).start()
    run.ready()
    process.terminate()
    wait_for(lambda: "SIGTERM passed on" in run.paths.attempt_log(1).read_text(), "the forwarded signal")
    (run.paths.root / "go").touch()
    assert run.end(process)[0] == 0


def test_without_graceful_shutdown_a_signal_just_ends_it(run: Run) -> None:
    run.spec["operational"]["enable_graceful_shutdown"] = False
    process = run.bash("trap 'exit 5' TERM; touch $UNBROKEN_RUN_DIR/ready; while :; do sleep 0.02; done").start()
    run.ready()
    process.terminate()
    assert run.end(process)[0] == 42
    assert run.status.status == "preempted"


def test_a_real_error_after_a_signal_is_a_crash(run: Run) -> None:
    process = run.python(GRACEFUL.replace("sys.exit(42)", "raise RuntimeError('disk gone')")).start()
    run.ready()
    process.terminate()
    code, said = run.end(process)
    assert code == 1 and "disk gone" in said


def test_kill_9_of_the_trainer_may_be_tried_again_and_is_bounded(run: Run) -> None:
    run.environment["UNBROKEN_CALL_ID"] = "one"
    run.spec["operational"]["no_progress_limit"] = 2
    codes = []
    for _ in range(3):
        codes.append(run.bash("kill -9 $$").run()[0])
    assert codes == [1, 43, 43]
    assert (run.status.failure, run.status.attempt) == ("no_progress", 2)


def test_kill_9_of_the_launcher_ends_the_trainer_and_is_recovered(run: Run) -> None:
    mark = f"86401.{os.getpid()}"
    process = run.bash(f"sleep {mark} & touch $UNBROKEN_RUN_DIR/ready; sleep {mark}").start()
    run.ready()
    wait_for(lambda: len(living(mark)) >= 3, "the trainer and its children")
    process.kill()
    process.wait()
    process.stdout.close(), process.stderr.close()  # type: ignore[union-attr]
    code, said = run.bash(WRITE_RESULT).run()
    assert code == 0 and "took the run directory over" in said and "ended without a word" in said
    assert living(mark) == []
    assert run.events.count("lease_taken_over") == 1
    assert (run.status.attempt, run.status.status) == (2, "completed")


def _memory_group(name: str) -> Path | None:
    """A new memory cgroup below our own, where the kernel lets us."""
    with contextlib.suppress(OSError, StopIteration):
        line = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if ":memory:" in line)
        for base in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/memory" + line.split(":")[2])):
            group = base / name
            with contextlib.suppress(OSError):
                group.mkdir()
                (group / "memory.limit_in_bytes").write_text("67108864")
                return group
    return None


def test_out_of_memory_is_recognised_and_tried_again_in_the_same_call(run: Run) -> None:
    group = _memory_group(f"unbroken_test_{os.getpid()}")
    if group is None:
        pytest.skip("no writable memory cgroup (v1) here")
    try:
        run.environment["UNBROKEN_CALL_ID"] = "one"
        run.spec["resources"]["mem_mb"] = 64
        run.python("hog = bytearray()\nwhile True: hog.extend(b'x' * 1000000)")
        enter = f'echo $$ > {group}/cgroup.procs; exec "$@"'
        codes = [run.run("bash", "-c", enter, "bash")[0] for _ in range(5)]
        assert codes == [1] * 5
        assert (run.status.failure, run.status.out_of_memory_count, run.status.attempt) == ("out_of_memory", 4, 4)
        assert run.status.mem_mb_asked == 64 and (run.status.mem_mb_used or 0) > 30
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text(), "the group to be empty")
        group.rmdir()


def test_a_signal_after_the_result_is_a_finished_run(run: Run) -> None:
    """The trainer has written its result and has no handler any more."""
    process = run.bash("echo '{}' > $UNBROKEN_RUN_DIR/result.json; touch $UNBROKEN_RUN_DIR/ready; sleep 60").start()
    run.ready()
    process.terminate()
    assert run.end(process)[0] == 0
    assert run.status.status == "completed" and "after the result" in (run.status.reason or "")
