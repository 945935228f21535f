"""One attempt from start to end, without signals: files, refusals, failures, output."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.launcher_kit import GRACEFUL, SOURCE, Run, living

WRITE_RESULT = 'echo "{}" > "$UNBROKEN_RUN_DIR/result.json"'


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_completes_and_records(run: Run) -> None:
    run.bash('echo "$UNBROKEN_SEED $UNBROKEN_ATTEMPT $UNBROKEN_CONFIG"; ' + WRITE_RESULT)
    process = run.start()
    stdout, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert stdout.decode() == f"7 1 {run.paths.config}\n"
    assert stdout.decode() in run.paths.attempt_log(1).read_text()
    assert (run.status.status, run.status.attempt, run.status.exit_code) == ("completed", 1, 0)
    assert run.events == ["run_started", "run_completed"]
    assert json.loads(run.paths.identity.read_text()) == run.spec["identity"]
    assert run.paths.config.read_text() == "lr: 0.1\n"


def test_placeholders_are_filled_without_a_shell(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.paths = type(run.paths)(tmp_path / "a b {seed} $(touch x)")
    run.spec["command"] = ["bash", "-c", 'printf "%s\\n" "$@"; exit 3', "x", "--dir={run_dir}", "{{seed}}", "{seed}"]
    process = run.start(cwd=tmp_path)
    stdout, _ = process.communicate(timeout=120)
    assert stdout.decode().splitlines() == [f"--dir={run.paths.root}", "{seed}", "7"]
    assert not (tmp_path / "x").exists()


def test_a_finished_run_is_not_trained_again_c27(run: Run) -> None:
    run.bash("echo x >> $UNBROKEN_RUN_DIR/starts; " + WRITE_RESULT)
    assert run.run()[0] == 0
    code, said = run.run()
    assert code == 0 and "finished already" in said
    assert run.file("starts") == "x\n"


def test_a_finished_run_that_is_started_again_in_the_same_call_keeps_its_result(run: Run) -> None:
    """Requeued between its result and its end: the Snakemake in the job has deleted the result by then."""
    run.environment["UNBROKEN_CALL_ID"] = "call-1"
    run.bash("echo x >> $UNBROKEN_RUN_DIR/starts; " + WRITE_RESULT)
    assert run.run()[0] == 0
    result = run.paths.result.read_bytes()
    run.paths.result.unlink()
    code, said = run.run()
    assert code == 0 and "finished already" in said
    assert run.paths.result.read_bytes() == result
    assert (run.file("starts"), run.status.status, run.status.attempt) == ("x\n", "completed", 1)
    run.paths.result.unlink()  # by a person, who wants it made anew
    run.environment["UNBROKEN_CALL_ID"] = "call-2"
    assert run.run()[0] == 0
    assert run.file("starts") == "x\nx\n"


def test_another_identity_is_refused_and_nothing_written(run: Run) -> None:
    run.bash(WRITE_RESULT)
    assert run.run()[0] == 0
    before = sorted((path, path.stat().st_mtime_ns) for path in run.paths.root.rglob("*"))
    run.spec["identity"] = {**run.spec["identity"], "config_hash": "bb", "config": {"lr": 0.2, "model": {"hidden": 8}}}
    code, said = run.run()
    assert code == 44
    assert "lr: 0.1 -> 0.2" in said and "hidden" not in said and "move that directory away" in said
    assert before == sorted((path, path.stat().st_mtime_ns) for path in run.paths.root.rglob("*"))


def test_a_legacy_run_keeps_its_adoption_for_the_trainer(run: Run) -> None:
    run.paths.checkpoints.mkdir(parents=True)
    run.paths.last.write_bytes(b"old")
    assert run.bash(WRITE_RESULT).run()[0] == 0
    assert not run.paths.identity.exists()


def test_a_crash_is_trained_once_in_one_call(run: Run) -> None:
    run.environment["UNBROKEN_CALL_ID"] = "call-1"
    run.bash("echo x >> $UNBROKEN_RUN_DIR/starts; echo 'ValueError: boom' >&2; exit 3")
    code, said = run.run()
    assert code == 1
    for part in ("demo [lr=0.1] seed 7", "ValueError: boom", str(run.paths.attempt_log(1))):
        assert part in said
    assert (run.status.status, run.status.failure, run.status.exit_code) == ("failed", "crash", 3)
    code, said = run.run()
    assert code == 1 and "this call does not train it again" in said and "ValueError: boom" in said
    assert run.file("starts") == "x\n"
    run.environment["UNBROKEN_CALL_ID"] = "call-2"
    assert run.run()[0] == 1
    del run.environment["UNBROKEN_CALL_ID"]
    assert run.run()[0] == 1
    assert run.file("starts") == "x\n" * 3
    assert sorted(path.name for path in run.paths.logs.iterdir()) == [f"attempt_{n}.log" for n in (1, 2, 3)]


def test_no_result_is_a_failure(run: Run) -> None:
    code, said = run.bash("exit 0").run()
    assert code == 1 and "no result.json" in said
    assert run.status.failure == "no_result"


def test_no_progress_gives_up_c11(run: Run) -> None:
    run.spec["operational"]["no_progress_limit"] = 3
    run.bash("exit 42")
    assert [run.run()[0] for _ in range(3)] == [42, 42, 43]
    assert run.status.failure == "no_progress"
    code, said = run.run()
    assert code == 43 and "unbroken retry" in said
    run.spec["operational"]["no_progress_limit"] = 9
    assert run.run()[0] == 42


def test_budget_gives_up_until_raised_or_allowed(run: Run) -> None:
    from unbroken.launch.admission import allow_retry

    run.spec["operational"] = {"max_resubmit_attempts": 1, "no_progress_limit": None}
    run.bash("exit 42")
    assert [run.run()[0] for _ in range(3)] == [42, 43, 43]
    assert run.status.attempt == 2
    allow_retry(run.paths)
    assert run.run()[0] == 42
    assert "retry_allowed" in run.events


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program-anywhere"], "no such program on PATH"),
        (["/etc/passwd"], "Permission denied"),
        (["{nonsense}"], "the command asks for {nonsense}"),
    ],
)
def test_a_command_that_cannot_start(run: Run, command: list[str], said: str) -> None:
    run.spec["command"] = command
    code, stderr = run.run()
    assert code in (1, 2) and said in stderr and "Traceback" not in stderr


@pytest.mark.parametrize("spec", ["{", "[]", "{}", '{"schema_version": 9}', '{"schema_version": 1}', "@/no/such/file"])
def test_a_bad_spec_is_one_sentence(run: Run, spec: str) -> None:
    code, stderr = run.end(run.start(spec=spec))
    assert code == 2 and stderr.startswith("unbroken: ") and "Traceback" not in stderr
    assert not run.paths.root.exists()


def test_an_impossible_directory_is_one_sentence(run: Run) -> None:
    (run.folder / "run").write_text("a file")
    code, stderr = run.run()
    assert code == 1 and "Traceback" not in stderr and str(run.folder) in stderr


@pytest.mark.parametrize("torn", [b"", b'{"attempt": 1', b'{"attempt": "x"}', b"[]", b"\xff\xfe"])
def test_a_torn_status_is_set_aside(run: Run, torn: bytes) -> None:
    run.bash(WRITE_RESULT)
    run.paths.logs.mkdir(parents=True)
    run.paths.attempt_log(1).write_text("keep me")
    run.paths.status.write_bytes(torn)
    code, said = run.run()
    assert code == 0 and "set aside" in said
    assert [path.read_bytes() for path in run.paths.root.glob("run_status.unreadable-*")] == [torn]
    assert run.paths.attempt_log(1).read_text() == "keep me"
    assert run.status.attempt == 2


def test_output_is_copied_byte_for_byte(run: Run) -> None:
    run.bash("head -c 52428800 /dev/urandom | tee $UNBROKEN_RUN_DIR/copy; " + WRITE_RESULT)
    process = run.start()
    stdout, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert stdout == (run.paths.root / "copy").read_bytes()
    assert run.paths.attempt_log(1).read_bytes().startswith(stdout)


def test_a_closed_stdout_stops_nothing(run: Run) -> None:
    run.bash("head -c 1000000 /dev/zero; " + WRITE_RESULT)
    reader, writer = os.pipe()
    os.close(reader)
    assert run.run(stdout=writer)[0] == 0
    os.close(writer)
    assert run.paths.attempt_log(1).stat().st_size >= 1_000_000


def test_a_stdout_that_nobody_reads_does_not_keep_signals_away(run: Run) -> None:
    run.python(GRACEFUL)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while os.write(writer, b"x" * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(writer, True)
    process = run.start(stdout=writer)
    run.ready()
    process.terminate()
    assert run.end(process)[0] == 42
    os.close(reader), os.close(writer)


def test_non_utf8_error_message(run: Run) -> None:
    code, said = run.bash(r"printf 'caf\xe9 \xff boom\n' >&2; exit 1").run()
    assert code == 1 and "boom" in said
    assert "boom" in (run.status.reason or "")


def test_the_run_directory_may_be_a_symlink(run: Run) -> None:
    real = run.folder / "elsewhere"
    real.mkdir()
    run.paths.root.symlink_to(real)
    assert run.bash(WRITE_RESULT).run()[0] == 0
    assert (real / "result.json").exists() and run.paths.root.is_symlink()


def test_nothing_the_trainer_started_is_left(run: Run) -> None:
    mark = f"86400.{os.getpid()}"
    run.bash(f"setsid sleep {mark} & (nohup sleep {mark} &) ; (trap '' TERM; sleep {mark}) & " + WRITE_RESULT)
    code, said = run.run()
    assert code == 0 and "left behind" in said
    assert living(mark) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system: needs root")
def test_a_full_disk_is_told_and_nothing_hangs_c15(run: Run) -> None:
    run.paths.root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(run.paths.root)], check=True)
    try:
        run.bash("cat /dev/zero > $UNBROKEN_RUN_DIR/filler; exit 42")
        code, said = run.run()
        assert code == 42 and "No space left" in said and "Traceback" not in said
        code, said = run.run()
        assert code == 1 and "No space left" in said and "Traceback" not in said
    finally:
        subprocess.run(["umount", str(run.paths.root)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system: needs root")
def test_a_crash_for_a_full_disk_is_recorded_and_not_trained_again_in_the_same_call_c15(run: Run) -> None:
    run.environment["UNBROKEN_CALL_ID"] = "call-1"
    run.paths.root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(run.paths.root)], check=True)
    try:
        fill = "seq 2000; cat /dev/zero > $UNBROKEN_RUN_DIR/filler 2>/dev/null"  # the log's last block is full too
        run.bash(f"{fill}; seq 2000; echo 'CheckpointError: no space (No space left on device)' >&2; exit 1")
        assert run.run()[0] == 1
        assert (run.status.status, run.status.failure, run.status.attempt) == ("failed", "crash", 1)
        assert run.status.reason == "crashed with exit code 1: CheckpointError: no space (No space left on device)"
        for _ in range(3):  # Snakemake's retries: nothing can be written, so nothing is trained
            code, said = run.run()
            assert code == 1 and "No space left" in said and "Traceback" not in said
        assert (run.status.failure, run.status.attempt) == ("crash", 1)
        (run.paths.root / "filler").unlink()
        code, said = run.run()
        assert code == 1 and "does not train it again" in said and "no space" in said
        run.environment["UNBROKEN_CALL_ID"] = "call-2"
        run.bash(WRITE_RESULT)
        assert run.run()[0] == 0 and run.status.attempt == 2
        assert not run.paths.status_spare.exists()
    finally:
        subprocess.run(["umount", str(run.paths.root)], check=True)


def test_the_launcher_starts_light() -> None:
    heavy = {"torch", "yaml", "jsonschema", "numpy", "pandas", "subprocess", "argparse", "typer"}
    code = f"import sys, unbroken.launch.launcher; print(sorted({heavy} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True) == "[]\n"
