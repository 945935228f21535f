"""Which number to change, where stopping does not fit the time that Slurm leaves."""

from unbroken.launch.grace import time_needed, warnings


def test_the_longest_of_stop_and_saves_counts() -> None:
    events = [
        {"event": "checkpoint_saved", "attempt": 2, "seconds": 7.5},
        {"event": "checkpoint_saved", "attempt": 1, "seconds": 99},
        {"event": "checkpoint_saved", "attempt": 2, "seconds": "?"},
    ]
    assert time_needed(3.0, events, 2) == 7.5
    assert time_needed(8.0, events, 2) == 8.0


def test_each_limit_has_its_sentence() -> None:
    assert warnings(1.0, 60, 30, None) == []
    (lead,) = warnings(55, 60, 300, None)
    assert "--signal=USR1@N" in lead and "111" in lead
    (kill_wait,) = warnings(28, 60, 30, 0)
    assert "KillWait, 30 s" in kill_wait
    (grace_time,) = warnings(28, 60, 30, 30)
    assert "GraceTime is 30 s" in grace_time
