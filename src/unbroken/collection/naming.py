"""The name of each setting: its hash for the machine, its label for a person."""

from typing import Any

from unbroken.collection import identity
from unbroken.collection._sentence import Place, dotted, show
from unbroken.collection.model import Setting
from unbroken.collection.nested import Keys, get

MAX_LABEL_VALUE = 40

Config = dict[str, Any]


def name_settings(configs: list[Config], origins: list[str], seen: set[Keys], place: Place) -> tuple[Setting, ...]:
    """Hash, label and check for repeated settings."""
    hashes = [identity.config_hash(config) for config in configs]
    by_id: dict[str, int] = {}
    for number, full in enumerate(hashes):
        other = by_id.setdefault(identity.setting_id(full), number)
        if other == number:
            continue
        what = "give the same setting" if hashes[other] == full else "share the first 12 digits of their hash"
        fix = "remove one" if hashes[other] == full else "change any value of one"
        both = origins[other] if origins[other] == origins[number] else f"{origins[other]} and {origins[number]}"
        raise place.error((), f"{both} {what} twice ({show(configs[number])}); {fix}")
    labels = _labels(configs, seen)
    return tuple(
        Setting(identity.setting_id(full), full, config, label)
        for full, config, label in zip(hashes, configs, labels, strict=True)
    )


def _labels(configs: list[Config], seen: set[Keys]) -> list[str]:
    """``hidden=32 lr=0.01``: the keys that vary, sorted."""
    parts: list[list[str]] = [[] for _ in configs]
    for keys in sorted(seen):
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
