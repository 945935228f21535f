"""YAML in and out: one meaning per scalar, strict keys, a line number for every complaint.

PyYAML follows YAML 1.1, where ``1e-3`` is a string, ``yes`` a boolean, ``12:30`` the number 750 and the gauge id
``01013500`` the octal number 268096. Here a scalar means what YAML 1.2 says; digits with a leading zero stay text.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from unbroken.collection._sentence import complain, dotted, show

MAX_DEPTH = 50
"""Levels of nesting; deeper is taken as an accident (and Python's own recursion ends not far above)."""

MAX_ALIASED = 1_000_000
"""Values that anchors may add to those written out; stops a YAML bomb before it fills the memory."""

_TAG = "tag:yaml.org,2002:"
_SCALARS: list[tuple[str, re.Pattern[str], list[str]]] = [
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")),
    ("int", re.compile(r"(?:[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+)\Z"), list("-+0123456789")),
    (
        "float",
        re.compile(
            r"(?:[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
        ),
        list("-+.0123456789"),
    ),
    ("null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]),
    ("merge", re.compile(r"<<\Z"), ["<"]),
]


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for name, pattern, first_letters in _SCALARS:
        for letter in first_letters:
            table.setdefault(letter, []).append((_TAG + name, pattern))
    return table


_Loader: Any = type(
    "_Loader",
    (getattr(yaml, "CSafeLoader", yaml.SafeLoader),),
    {"yaml_implicit_resolvers": _resolvers(), "__doc__": "PyYAML's parser with the scalars above."},
)


def scalar(text: str) -> Any:
    """The value of one plain YAML scalar, as it is written in a cell of a table or on a command line.

    Raises ValueError, its text a half sentence, for a number that has no finite 64-bit value.
    """
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    for name, pattern, first_letters in _SCALARS[:-1]:
        if (text[:1] in first_letters) and pattern.match(text):
            return _convert(name, text)
    return text


def _convert(kind: str, text: str) -> Any:
    if kind == "bool":
        return text.lower() == "true"
    if kind == "null":
        return None
    if kind == "int":
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        if len(text) > 66 or not -(2**63) <= (number := int(text, base)) < 2**64:
            raise ValueError(f"{show(text)} is not a 64-bit integer; write a smaller one, or quote it as text")
        return number
    value = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(value):
        raise ValueError(f"{show(text)} is not a finite number; write a finite one, or quote it as text")
    return value


class Document:
    """One YAML file: its values in ``data``, and ``line`` for complaints."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text
        self._budget = len(text) + MAX_ALIASED
        node = self._compose()
        if node is None:  # an empty file: the schema says what has to stand there
            self.data: dict[str, Any] = {}
            return
        if not isinstance(node, yaml.MappingNode):
            raise complain(name, _line(node), "is not a mapping; write `key: value` lines")
        self.data = self._build(node, ())

    @classmethod
    def read(cls, path: Path) -> "Document":
        return cls(str(path), read_text(path))

    def line(self, keys: tuple[str | int, ...]) -> int | None:
        """The line where ``keys`` stands, or the nearest enclosing one that was found."""
        node: Any = self._compose()
        line: int | None = None
        for key in keys:
            if isinstance(node, yaml.MappingNode):
                found = [(k, v) for k, v in node.value if k.value == key]
                if not found:
                    break
                line, node = _line(found[0][0]), found[0][1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
                node = node.value[key]
                line = _line(node)
            else:
                break
        return line

    def _compose(self) -> Any:
        try:
            return yaml.compose(self._text, Loader=_Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            why = " ".join(part for part in (error.context, error.problem) if part)
            raise complain(
                self.name, mark.line + 1 if mark else None, f"is not valid YAML ({why}); mend that line"
            ) from None
        except RecursionError:
            raise complain(self.name, None, f"is nested deeper than {MAX_DEPTH} levels; flatten it") from None
        except (yaml.YAMLError, ValueError) as error:
            why = " ".join(str(error).split())
            raise complain(self.name, None, f"is not valid YAML ({why}); remove what cannot be read") from None

    def _build(self, node: Any, above: tuple[int, ...], key: str = "") -> Any:
        """Plain values of a node; ``above`` holds the ids of the nodes around it, ``key`` is the nearest key."""
        self._budget -= 1
        if self._budget < 0:
            raise complain(
                self.name, _line(node), f"holds anchors that expand to over {MAX_ALIASED} values; write less"
            )
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, key)
        if id(node) in above:
            raise complain(self.name, _line(node), "holds an anchor that contains itself; write the values out")
        if len(above) >= MAX_DEPTH:
            raise complain(self.name, _line(node), f"is nested deeper than {MAX_DEPTH} levels; flatten it")
        above = (*above, id(node))
        if isinstance(node, yaml.SequenceNode):
            self._expect_tag(node, "seq")
            return [self._build(child, above, key) for child in node.value]
        self._expect_tag(node, "map")
        return self._mapping(node, above)

    def _mapping(self, node: Any, above: tuple[int, ...]) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                merged = {**self._merge(value_node, above), **merged}
                continue
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != _TAG + "str":
                what = show(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "a list or mapping"
                raise complain(self.name, _line(key_node), f"has {what} as a key, which is not text; put it in quotes")
            key = self._scalar(key_node)
            if key in own:
                raise complain(self.name, _line(key_node), f"{show(key)} stands twice in one mapping; remove one")
            own[key] = self._build(value_node, above, key)
        return {**merged, **own} if merged else own

    def _merge(self, node: Any, above: tuple[int, ...]) -> dict[str, Any]:
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for part in parts:
            value = self._build(part, above)
            if not isinstance(value, dict):
                raise complain(self.name, _line(node), "`<<` merges something that is no mapping; give it `*an_anchor`")
            merged = {**value, **merged}
        return merged

    def _scalar(self, node: Any, key: str = "") -> Any:
        kind = node.tag.removeprefix(_TAG)
        try:
            if kind == "str":
                node.value.encode()
                return node.value
            for name, pattern, _ in _SCALARS[:-1]:
                if name == kind and pattern.match(node.value):
                    return _convert(name, node.value)
            if kind == "float":
                return _convert("float", str(float(node.value)))
        except UnicodeEncodeError:
            raise complain(self.name, _line(node), "holds half a surrogate pair; write the character itself") from None
        except ValueError as error:
            raise complain(self.name, _line(node), f"`{dotted([key])}`: {error}" if key else str(error)) from None
        raise complain(self.name, _line(node), f"has {show(node.value)} with the tag {node.tag}; leave the tag out")

    def _expect_tag(self, node: Any, kind: str) -> None:
        if node.tag != _TAG + kind:
            raise complain(self.name, _line(node), f"has a value with the tag {node.tag}; leave the tag out")


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def read_text(path: Path) -> str:
    """The text of a file a person wrote; raises CollectionError."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise complain(str(path), None, f"is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise complain(str(path), None, f"cannot be read ({why}); check the path and its permissions") from None


_Dumper: Any = type(
    "_Dumper",
    (getattr(yaml, "CSafeDumper", yaml.SafeDumper),),
    {"ignore_aliases": lambda self, data: True, "__doc__": "Quotes text that YAML 1.1 or ours would not read as text."},
)
for _name, _pattern, _first_letters in _SCALARS:
    _Dumper.add_implicit_resolver(_TAG + _name, _pattern, _first_letters)


def dump_yaml(config: Mapping[str, Any]) -> str:
    """The text of config.yaml: sorted keys, read back as the same values by our loader and by ``yaml.safe_load``."""
    return str(yaml.dump(dict(config), Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=2**30))


def load_yaml(path: Path) -> dict[str, Any]:
    """The values of a YAML file, e.g. a run's config.yaml, under the rules above; raises CollectionError."""
    return Document.read(path).data
