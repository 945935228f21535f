"""Structure checks by JSON schema, each finding told as one sentence."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from unbroken.collection._sentence import Place, dotted, nearest, show
from unbroken.collection.operational import OPERATIONAL_KEYS

SCHEMAS = Path(__file__).parent / "schemas"
"""In the package, so that an installed wheel has them; workflow/schemas links here."""

_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "empty",
}
_FORMS = {
    "pattern": "which has a character or form that is not allowed here",
    "minimum": "which is too small",
    "minLength": "which is empty",
}
_NO_NEWLINE = r"(?!\n)"
"""After a pattern's `$`, which in Python matches before a newline too."""


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator  # 90 ms, so not on every import of the package
    from jsonschema.validators import extend

    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    file = "collection" if name == "operational" else name
    schema = json.loads((SCHEMAS / f"{file}.schema.json").read_text(encoding="utf-8"))
    if name == "operational":  # these keys alone, where they stand flat in `config:`
        schema = {**schema["$defs"]["operational"], "$defs": schema["$defs"]}
    validator: Any = extend
    return validator(Draft202012Validator, type_checker=types)(schema)


def known_keys(name: str) -> list[str]:
    """The top-level keys of a schema."""
    return sorted(_validator(name).schema["properties"])


def check(name: str, data: Any, place: Place, prefix: tuple[str | int, ...] = ()) -> None:
    """Raise CollectionError for the first thing in ``data``, found at ``prefix``, that the schema does not allow."""
    error = next(_validator(name).iter_errors(data), None)
    if error is None:
        return
    keys: tuple[str | int, ...] = (*prefix, *error.absolute_path)
    text = _sentence(name, error, keys)
    if error.validator == "additionalProperties":
        keys = (*keys, _unknown(error))
    raise place.error(keys, text)


def _unknown(error: Any) -> str:
    return next(str(key) for key in error.instance if key not in error.schema.get("properties", {}))


def _sentence(name: str, error: Any, keys: tuple[str | int, ...]) -> str:
    kind, value = error.validator, error.instance
    where = f"`{dotted(keys)}`" if keys else "the file"
    if kind == "additionalProperties":
        return _unknown_key(name, _unknown(error), error.schema["properties"], keys)
    if kind == "oneOf" and "trainer" in value and "command" in value:
        return "has both `trainer` and `command`; keep one"
    if kind in ("required", "oneOf"):
        return _missing(error.schema, value, where)
    if kind in ("minItems", "minProperties"):
        return f"{where} is empty; give it at least one entry or remove it"
    if kind == "uniqueItems":
        return f"{where} names something twice; remove one"
    wanted_text = _hint(error.schema)
    if isinstance(value, str) and "boolean" in wanted_text:
        wanted_text += " without quotes"
    how = f", {_FORMS[kind]}" if kind in _FORMS else ""
    return f"{where} is {show(value)}{how}; write {wanted_text}"


def _missing(schema: dict[str, Any], value: dict[str, Any], where: str) -> str:
    """All that has to stand there and does not, in one sentence."""
    keys = [key for key in schema.get("required", ()) if key not in value]
    said = [f"has no `{key}`" for key in keys]
    add = [f"`{key}:` with {_hint(schema['properties'].get(key, {}))}" for key in keys]
    if "oneOf" in schema and not {"trainer", "command"} & set(value):
        said.append("names neither `trainer` nor `command`")
        add.append(f"`trainer:` with {_hint(schema['properties']['trainer'])}, or `command:`")
    what = f"{where} {' and '.join(said)}" if value else "is empty"
    return f"{what}; add {', and '.join(add)}"


def _unknown_key(name: str, key: str, known: dict[str, Any], keys: tuple[str | int, ...]) -> str:
    inside = f" in `{dotted(keys)}`" if keys else ""
    if name == "collection" and not keys and key in OPERATIONAL_KEYS:
        return f"`{dotted([key])}` is an operational key; move it under `operational:`"
    top = [] if not keys else [word for word in known_keys(name) if word == key]
    fix = nearest(key, known) or (
        "it belongs at the top level of the file" if top else f"use one of {', '.join(sorted(known))}"
    )
    if name == "collection" and not keys and not nearest(key, known):
        fix = "an experiment key belongs under `config:`, else remove it"
    return f"`{dotted([key])}` is no known key{inside}; {fix}"


def _hint(schema: dict[str, Any]) -> str:
    """What the schema allows, in words."""
    if "$ref" in schema:
        return "a mapping"
    if "enum" in schema:
        return "one of " + ", ".join(dict.fromkeys(json.dumps(value).strip('"') for value in schema["enum"]))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(_hint(part) for part in schema["anyOf"])
    kinds = schema.get("type", "object")
    words = " or ".join(_TYPES[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))
    if "minimum" in schema:
        words += f" of at least {schema['minimum']}"
    if "pattern" in schema:
        words += f" that matches {schema['pattern'].removesuffix(_NO_NEWLINE)}"
    return words
