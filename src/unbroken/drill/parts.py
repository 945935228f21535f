"""The parts of a training's state in the order of cause and effect, how to tell them by name, what to do about each.

A wrong order of the data spoils the gradients, these the optimizer, and that the weights: the first difference counts.
"""

import re

ADVICE: dict[str, str] = {
    "order": (
        "derive each epoch's order from seed + epoch alone, save the epoch and the number of effective batches done, "
        "and slice those off after a resume"
    ),
    "torch RNG": (
        "save torch.get_rng_state() and restore it after building the iterator: iter(DataLoader) draws from it too "
        "(or give the loader a generator of its own)"
    ),
    "CUDA RNG": "save torch.cuda.get_rng_state_all() and restore it with set_rng_state_all",
    "NumPy RNG": "save numpy.random.get_state() and restore it after everything that draws from it has been built",
    "Python RNG": "save random.getstate() and restore it after everything that draws from it has been built",
    "optimizer": "save optimizer.state_dict() and load it once model and optimizer are built",
    "scheduler": "save the scheduler's state_dict() and load it after the optimizer's; step it once a batch, not again",
    "scaler": "save GradScaler.state_dict() and load it",
    "weights": (
        "save the whole model.state_dict() (and the EMA) between two optimizer steps, and load it before the first"
    ),
    "metrics": (
        "after a resume cut the file back to the rows up to the checkpoint's step, and save running sums with the state"
    ),
    "result": (
        "it is made from something that no checkpoint holds, such as an average of the weights, a best value or a "
        "plain variable: save that with the state (in Unbroken's library: Parts(ema=...) or Parts(extras=...))"
    ),
    "other": "find out what writes it: it is not a function of the config, or it is not restored",
}
"""In the order of cause and effect."""

RANDOM = ("torch RNG", "CUDA RNG", "NumPy RNG", "Python RNG")
STATES = ("order", *RANDOM, "optimizer", "scheduler", "scaler", "weights")
"""What no healthy training has different in two undisturbed runs."""
POSITION = "position"

_WORDS = (
    (POSITION, re.compile(r"^(global_?)?(step|epoch|batch|iter|iteration|update)s?(_?(idx|index|count))?$|^position")),
    ("metrics", re.compile(r"metric|loss|^eval|valid|best|history|score|accuracy|pending_row", re.I)),
    ("order", re.compile(r"order|sampler|permutation|^perm$|indices|shuffle|loader", re.I)),
    ("rng", re.compile(r"rng|random|generator|seed_state", re.I)),
    ("scheduler", re.compile(r"sched|lr_lambda", re.I)),
    ("scaler", re.compile(r"scaler|^amp$", re.I)),
    ("optimizer", re.compile(r"^opt|optim", re.I)),
    ("weights", re.compile(r"model|weight|^net|^ema|module|^state_dict|encoder|decoder|param", re.I)),
)  # fmt: skip
_SEGMENT = re.compile(r"[^.\[\]]+")


def part_of(path: str) -> str:
    """The part that a key such as ``states.optimizer.state[0].exp_avg`` belongs to, by the first telling word in it."""
    for word in _SEGMENT.findall(path):
        for part, pattern in _WORDS:
            if pattern.search(word):
                return _random_kind(path) if part == "rng" else part
    return "other"


def _random_kind(path: str) -> str:
    name = path.lower()
    if "cuda" in name:
        return "CUDA RNG"
    if "numpy" in name or re.search(r"\bnp\b|np_|_np", name):
        return "NumPy RNG"
    return "Python RNG" if "python" in name or re.search(r"\bpy\b|py_", name) else "torch RNG"


def rank(part: str) -> int:
    """Lower is earlier in the chain of causes."""
    names = list(ADVICE)
    return names.index(part) if part in names else len(names)
