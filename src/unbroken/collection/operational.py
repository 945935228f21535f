"""Operational keys: how a run is run, never what it is; none of them is part of its identity."""

from typing import Any

DEFAULTS: dict[str, Any] = {
    "allow_world_size_change": False,
    "async_saves": True,
    "auto_resume": True,
    "checkpoint_interval": "auto",
    "early_preemption_limit": 20,
    "enable_graceful_shutdown": True,
    "grace_guard": True,
    "job_code_snapshot_enabled": False,
    "keep_best": 0,
    "keep_every": 0,
    "keep_last": 2,
    "log_every": 10,
    "max_resubmit_attempts": 50,
    "memory_cap_mb": None,
    "memory_growth": 1.5,
    "no_progress_limit": 3,
    "num_workers": 0,
    "profiling": {},
    "requeue": True,
    "resources": {},
    "time_limit_margin": None,
    "tracking": {},
}
"""Every operational key with its value where none is given; config/README.md explains them."""

OPERATIONAL_KEYS: frozenset[str] = frozenset(DEFAULTS)
"""Left out of the identity wherever they stand: in `operational:`, flat in `config:`, or in an old run's config."""

_FALSE = frozenset(["false", "no", "off", "0", ""])


def parse_flag(value: Any) -> bool:
    """A switch that may have become text on its way: "false", "no", "off", "0" and 0 are false."""
    return value.strip().lower() not in _FALSE if isinstance(value, str) else bool(value)


def complete(given: dict[str, Any]) -> dict[str, Any]:
    """``given`` (checked by the schema) with the defaults filled in and the switches parsed."""
    values = {**DEFAULTS, **given}
    values["job_code_snapshot_enabled"] = parse_flag(values["job_code_snapshot_enabled"])
    return values
