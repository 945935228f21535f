"""The DataLoader factory: order and workers from generators of their own; workers that ignore the stop signals."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset

from unbroken.data.baseline_loader import baseline_loader
from unbroken.training.order import epoch_order

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Numbers(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return 23


class Handlers(Numbers):
    """What a worker does on each stop signal, and whether it was signalled and lives."""

    def __getitem__(self, index: int) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        names = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)
        return int(all(signal.getsignal(name) == signal.SIG_IGN for name in names))


def ids(**options: Any) -> list[int]:
    return [int(i) for batch in baseline_loader(Numbers(), 4, **options) for i in batch]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_generator_gives_the_permutation_of_its_seed(workers: int) -> None:
    before = torch.get_rng_state()
    found = ids(shuffle=True, generator=torch.Generator().manual_seed(12), workers=workers)
    assert found == epoch_order(10, 2, 23).tolist()
    assert ids(workers=workers) == list(range(23))
    assert torch.equal(torch.get_rng_state(), before), "the global generator is not touched"


def test_one_shared_generator_would_not_do() -> None:
    """Why there are two: FIELD-NOTES, "Exact resume"."""
    loader: Any = torch.utils.data.DataLoader(Numbers(), 4, shuffle=True, generator=torch.Generator().manual_seed(12))
    assert [int(i) for batch in loader for i in batch] != epoch_order(10, 2, 23).tolist()


@pytest.mark.parametrize("first", range(7))
def test_from_any_batch_on(first: int) -> None:
    whole = ids(shuffle=True, generator=torch.Generator().manual_seed(5))
    assert ids(shuffle=True, generator=torch.Generator().manual_seed(5), first_batch=first) == whole[4 * first :]


def test_without_a_generator_it_is_the_historical_loader() -> None:
    torch.manual_seed(3)
    ours = ids(shuffle=True)
    torch.manual_seed(3)
    theirs: Any = torch.utils.data.DataLoader(Numbers(), 4, shuffle=True)
    assert ours == [int(i) for batch in theirs for i in batch]
    with pytest.raises(ValueError, match="first_batch needs a generator"):
        ids(shuffle=True, first_batch=1)


def test_workers_ignore_the_signals() -> None:
    assert [int(i) for batch in baseline_loader(Handlers(), 4, workers=2) for i in batch] == [1] * 23


@pytest.mark.parametrize("where", ["global first; first = ", "first = "])
def test_a_worker_that_sleeps_does_not_keep_the_process_from_ending_c02(where: str) -> None:
    program = f"""
import sys, time
from torch.utils.data import Dataset
from unbroken.data.baseline_loader import baseline_loader
class Slow(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        time.sleep(300 if index >= 8 else 0)
        return index
def main():
    {where}iter(baseline_loader(Slow(), 4, workers=2))
    next(first)
    time.sleep(0.3)
    print("ready", flush=True)
    sys.exit(42)
main()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as run:
        assert run.stdout is not None and run.stdout.readline() == b"ready\n"
        assert run.wait(60) == 42, "a worker sleeps for 300 s"
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _session(pid) == run.pid]


def _session(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[3]) if fields[0] != "Z" else 0
