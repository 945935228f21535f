"""A trainer of another making: it does not import us, keeps the contract, and does as its config says.

Config keys: steps; hold_at (wait at this step until the run directory has a file `release`); crash_at; kill_at;
hog_mb (take so much memory at the first step); save_every; pace_s (of a step); save_s (the save after a signal
takes so long); deaf (no signal handlers); result (false: end without one).
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import yaml

stop = False


def on_signal(number: int, frame: object) -> None:
    global stop
    stop = True


def save(last: Path, step: int, total: int) -> None:
    last.parent.mkdir(parents=True, exist_ok=True)
    beside = last.with_suffix(".part")
    beside.write_text(json.dumps({"step": step, "total": total}))
    os.replace(beside, last)


def main() -> None:
    config = yaml.safe_load(Path(os.environ["UNBROKEN_CONFIG"]).read_text())
    run = Path(os.environ["UNBROKEN_RUN_DIR"])
    if not config.get("deaf"):
        for name in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
            signal.signal(name, on_signal)
    last = run / "checkpoints" / "last.pt"
    state = json.loads(last.read_text()) if last.exists() else {"step": 0, "total": 0}
    with open(run / "starts.txt", "a") as starts:
        starts.write(f"{os.getpid()} {state['step']}\n")
    step, total = state["step"], state["total"]
    hog = bytearray(int(config.get("hog_mb", 0)) << 20)
    while step < config["steps"]:
        while config.get("hold_at") == step and not (run / "release").exists() and not stop:
            (run / "holding").touch()
            time.sleep(0.01)
        if stop:
            time.sleep(config.get("save_s", 0))
            save(last, step, total)
            sys.exit(42)
        if config.get("crash_at") == step:
            raise ValueError(f"loss is nan at step {step}")
        if config.get("kill_at") == step:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(config.get("pace_s", 0))
        step, total = step + 1, total * 31 % 1_000_003 + step + int(os.environ["UNBROKEN_SEED"])
        if step % config.get("save_every", 1) == 0:
            save(last, step, total)
    if config.get("result", True):
        (run / "result.json").write_text(json.dumps({"total": total, "steps": step, "hog": len(hog)}))


main()
