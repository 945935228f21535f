"""Row 12: settings read, expanded, hashed, checked."""

from pathlib import Path

from benchmarks.harness import Figure, absolute, median, timed
from benchmarks.options import Options
from unbroken.collection import load_collection


def write(folder: Path, settings: int) -> Path:
    """A collection of so many settings, nested and labelled as real ones are."""
    path = folder / f"expand_{settings}.yaml"
    path.write_text(
        "trainer: consensus\ndata: {source: synthetic_river, basins: 2, days: 365, seed: 1}\n"
        "config: {epochs: 3, batch_size: 64, optim: {name: adam, lr: 0.001, betas: [0.9, 0.999]}}\n"
        f"grid:\n  hidden: {list(range(1, settings // 10 + 1))}\n"
        "  optim.lr: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]\nseeds: 3\n"
    )
    return path


def measure(options: Options) -> list[Figure]:
    """1,000 settings, and a hundred times as many for the slope."""
    small, most = write(options.folder, 1_000), 20_000 if options.quick else 100_000
    large = write(options.folder, most)
    load_collection(small)
    few = [timed(lambda: load_collection(small)) for _ in range(options.rounds(15, 7))]
    many = [timed(lambda: load_collection(large)) for _ in range(options.rounds(5, 1))]
    first = absolute(12, "1,000 settings expanded, hashed, checked", 0.3, "s", [sample.wall for sample in few])
    ratio = median(s.wall for s in many) / most / (median(s.wall for s in few) / 1_000)
    slope = Figure(12, f"time a setting of {most:,} / of 1,000", ratio, 1.2, rounds=len(many))
    slope.cpu = median(s.cpu for s in many) / most / (median(s.cpu for s in few) / 1_000)
    slope.parts = {f"of_{most}_s": median(s.wall for s in many)}
    return [first, slope]
