"""`unbroken drill` on trainers that recover: a built-in one, a toy without torch, the examples."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.drill_kit import ROOT, by_fault, collection, command, drill
from tests.integration.launcher_kit import living, wait_for
from tests.unit.cli_kit import Cli
from tests.workflow.project import TOY
from unbroken.drill import disk
from unbroken.drill.faults import USUAL

CONSENSUS = {
    "trainer": "consensus",
    "data": {"source": "synthetic_river", "basins": 2, "days": 365, "seed": 7},
    "config": {"epochs": 6, "batch_size": 32, "hidden": 8, "lr": 0.01, "dropout": 0.1},
    "operational": {"checkpoint_interval": 4},
}


@pytest.mark.slow
def test_a_built_in_trainer_passes_every_fault(tmp_path: Path) -> None:
    faults = [fault for fault in USUAL if fault != "USR1"]
    report = drill(tmp_path, collection(tmp_path, "demo", **CONSENSUS), *faults, seed=1)
    found = by_fault(report)
    assert {name: outcome.verdict for name, outcome in found.items()} == dict.fromkeys(faults, "pass"), report.as_json()
    assert report.passed and report.whole.scale.unit == "step"
    for name in ("TERM", "DOUBLE"):
        assert found[name].lost == "nothing" and "state saved" in found[name].happened
    assert "last.pt cut to" in found["TRUNCATE"].happened and "went on at step" in found["TRUNCATE"].happened
    assert found["TRUNCATE"].lost != "nothing"
    kind = "tmpfs" if os.geteuid() == 0 else "RLIMIT_FSIZE"
    assert kind in found["FULL_DISK"].happened or "RLIMIT_FSIZE" in found["FULL_DISK"].happened
    assert "45" in found["DOUBLE_START"].happened
    mounts = Path("/proc/self/mounts").read_text()
    assert str(tmp_path) not in mounts


@pytest.mark.slow
def test_a_disk_may_take_longer_to_fill_than_the_training_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (disk.SmallMount, disk.SizeLimit):
        fill = kind.fill
        monkeypatch.setattr(kind, "fill", lambda *given, fill=fill: (time.sleep(3), fill(*given)))
    toy = {"command": f"{sys.executable} {TOY}", "config": {"steps": 60, "pace_s": 0.01, "save_every": 10}, "seeds": 1}
    report = drill(tmp_path, collection(tmp_path, "x", **toy), "FULL_DISK", seed=1)
    assert by_fault(report)["FULL_DISK"].verdict == "pass", report.as_json()


@pytest.mark.slow
def test_a_command_without_torch_by_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cli = Cli(tmp_path, capsys)
    cli.add("x", command=f"{sys.executable} {TOY}", config={"steps": 100, "pace_s": 0.01, "save_every": 10}, seeds=1)
    run = cli.runs()[0]
    run.root.mkdir(parents=True)
    (run.root / "mine").write_text("not to be touched")
    code, said = cli("drill", str(run.root), "--set", "steps=150", "--json", "--scratch", "s", "-j", "2")
    report = json.loads(said[said.index("{\n") :].rpartition("}")[0] + "}")
    assert code == 0 and report["passed"], said
    verdicts = {item["fault"]: item["verdict"] for item in report["faults"]}
    assert verdicts == {**dict.fromkeys(USUAL, "pass"), "TRUNCATE": "noted"}
    assert report["undisturbed"]["unit"] == "save" and "steps=150" in report["label"]
    lost = {item["fault"]: item["lost"] for item in report["faults"]}
    assert lost["TERM"] == "nothing"
    assert os.listdir(run.root) == ["mine"] and os.listdir("s") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "saved"),
    [("plain_torch", "state saved"), ("with_unbroken", "state saved"), ("no_handler", "nothing new saved")],
)
def test_the_examples_pass(tmp_path: Path, name: str, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = tmp_path / "examples" / name / f"{name}.yaml"
    report = drill(tmp_path, path, "TERM", changes=("epochs=16",))
    assert report.passed, report.as_json()
    assert saved in by_fault(report)["TERM"].happened


def test_a_full_disk_where_nothing_can_be_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbroken.drill.disk.os.geteuid", lambda: 1000)
    config = {"steps": 100, "ignore": False, "in_place": False}
    path = collection(tmp_path, "own", command=command("careless_trainer.py"), config=config)
    report = drill(tmp_path, path, "FULL_DISK")
    happened = by_fault(report)["FULL_DISK"].happened
    assert report.passed and "with 1, RLIMIT_FSIZE on the trainer (not root" in happened, report.as_json()


def test_a_drill_that_is_called_off_leaves_nothing_behind(tmp_path: Path) -> None:
    config = {"steps": 3000, "ignore": True, "in_place": False}
    collection(tmp_path, "own", command=command("careless_trainer.py"), config=config)
    argv = [sys.executable, "-m", "unbroken.cli", "-C", str(tmp_path), "drill", "own", "--scratch", str(tmp_path / "s")]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: list(tmp_path.glob("s/*/undisturbed/run/checkpoints/last.pt")), "a trainer")
        process.terminate()
        assert process.wait(120) == 143
    assert list((tmp_path / "s").iterdir()) == [] and living(str(tmp_path)) == []


def test_what_cannot_be_drilled_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cli = Cli(tmp_path, capsys)
    cli.add("x", command=f"{sys.executable} -c 'raise SystemExit(3)'", seeds=1)
    code, said = cli("drill", "x", "--scratch", "s")
    assert code == 1 and "the undisturbed run did not finish" in said and os.listdir("s") == []
    code, said = cli("drill", "x", "--faults", "TERM,EARTHQUAKE")
    assert code == 1 and "EARTHQUAKE" in said and "TRUNCATE" in said
    for change, why in (("epochs", "key=value"), ("seed=3", "alone"), ("command=true", "alone")):
        code, said = cli("drill", "x", "--set", change)
        assert code == 1 and why in said
    code, said = cli("drill", "nosuch")
    assert code == 2 and "no run fits" in said
