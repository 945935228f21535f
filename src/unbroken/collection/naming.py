"""The name of each setting: its hash for the machine, its label for a person."""

from typing import Any, NamedTuple

from unbroken.collection import identity
from unbroken.collection._sentence import Place, dotted, show
from unbroken.collection.model import Setting
from unbroken.collection.nested import Keys, get

MAX_LABEL_VALUE = 40

Config = dict[str, Any]


class Point(NamedTuple):
    """A setting that has no name yet, and where in the file it comes from."""

    config: Config
    origin: str
    at: tuple[str | int, ...]


def name_settings(points: list[Point], varied: list[Keys], place: Place) -> tuple[Setting, ...]:
    """Hash and label the points; ``varied`` are the keys that may differ. Repeated settings are refused."""
    hashes = [identity.config_hash(point.config) for point in points]
    labels = _labels([point.config for point in points], varied)
    by_id: dict[str, int] = {}
    for number, full in enumerate(hashes):
        other = by_id.setdefault(identity.setting_id(full), number)
        if other == number:
            continue
        one, two = points[other], points[number]
        both = f"{one.origin} and {two.origin}" if one.origin != two.origin else f"two points of {one.origin}"
        text = f"{both} give the same setting ({show(labels[number])[1:-1]}); remove one"
        if hashes[other] != full:
            text = f"{both} share the first {identity.ID_LENGTH} digits of their hash; change any value of one"
        raise place.error(two.at or one.at, text)
    return tuple(
        Setting(identity.setting_id(full), full, point.config, label)
        for full, point, label in zip(hashes, points, labels, strict=True)
    )


def _labels(configs: list[Config], varied: list[Keys]) -> list[str]:
    """``hidden=32 lr=0.01``: the keys that vary, sorted."""
    parts: list[list[str]] = [[] for _ in configs]
    for keys in varied:
        values = [get(config, keys) for config in configs]
        texts = ["" if value is identity.ABSENT else identity.canonical_json(value) for value in values]
        if len(set(texts)) < 2:
            continue
        name = dotted([".".join(keys)])
        for part, value, text in zip(parts, values, texts, strict=True):
            if text and not (isinstance(value, dict) and value):
                part.append(f"{name}={_short(value, text)}")
    return [" ".join(part) or "base" for part in parts]


def _short(value: Any, text: str) -> str:
    if isinstance(value, str) and value.isascii() and value.isprintable() and value and not set(value) & set(" '\"="):
        text = value
    return text if len(text) <= MAX_LABEL_VALUE else f"{text[: MAX_LABEL_VALUE - 3]}..."
