"""States, exit codes and pending reasons in words."""

import pytest
from tests.unit.fake_slurm import ANSWERS

from unbroken.slurm import exit_status, states
from unbroken.slurm.reasons import explain
from unbroken.slurm.states import StateClass, classify, is_final, is_success

_RESOURCES = ("BB", "Billing", "Energy", "GRES", "License", "Mem", "Memory", "Node", "Unknown")


def all_reasons() -> list[str]:
    """Every code of job_reason_codes.html (25.05) and of libslurmfull 22.05; the families spelled out."""
    single = (ANSWERS / "single_reasons.txt").read_text().split()
    for owner in ("Assoc", "QOS"):
        single += [f"{owner}Grp{what}{minutes}" for what in _RESOURCES for minutes in ("", "Minutes", "RunMinutes")]
        single += [f"{owner}Grp{what}Limit" for what in ("Cpu", "CPUMinutes", "CPURunMinutes", "Jobs", "Mem", "Node")]
        single += [f"{owner}Grp{what}Limit" for what in ("SubmitJobs", "Wall")]
        single += [f"{owner}Max{what}{per}" for what in _RESOURCES for per in ("PerJob", "PerNode", "MinutesPerJob")]
        single += [f"{owner}Max{what}PerJobLimit" for what in ("Cpu", "CpuMinutes", "Node", "WallDuration")]
        single += [f"{owner}MaxCpuPerNode"]
    single += ["AssocMaxJobsLimit", "AssocMaxSubmitJobLimit"]
    single += [f"QOSMax{what}PerUser" for what in _RESOURCES]
    single += [f"QOSMax{what}PerUserLimit" for what in ("Cpu", "Jobs", "Node", "SubmitJob")]
    single += [f"QOSMin{what}" for what in _RESOURCES]
    single += [f"Max{what}PerAccount" for what in (*_RESOURCES, "Cpu", "Jobs", "SubmitJobs")]
    return single


@pytest.mark.parametrize("code", all_reasons())
def test_every_documented_reason_has_words_and_a_fix(code: str) -> None:
    reason = explain(code)
    assert reason.code == code
    assert "does not know" not in reason.words
    assert reason.fix.endswith((".", "?")) and "  " not in reason.words and ",." not in f"{reason.words}."


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("JobHeldUser", "held", "holds it"),
        ("PartitionDown", "partition", "down"),
        ("Resources", "waits", "in use"),
        ("QOSMaxGRESPerUser", "limit", "one user has reached the limit of GPUs"),
        ("AssocGrpCPUMinutesLimit", "limit", "all jobs of its account together"),
        ("AssocMaxWallDurationPerJobLimit", "limit", "asks for more time limit than its account allows for one job"),
        ("QOSMinGRES", "request", "less GPUs"),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-3]", "waits", "[UnavailableNodes:n[1-3]]"),
        ("ReqNodeNotAvail,_UnavailableNodes:n1", "waits", "[UnavailableNodes:n1]"),
        ("launch failed requeued held", "held", "could not start it"),
        ("launch_failed_requeued_held", "held", "could not start it"),
        ("job_requeued_in_held_state", "held", "somebody"),
        ("SomethingNew", "waits", "does not know"),
    ],
)
def test_reasons_in_words(code: str, kind: str, words: str) -> None:
    reason = explain(code)
    assert (reason.kind, words in reason.words) == (kind, True), reason


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ("COMPLETED", StateClass.OK),
        ("CD", StateClass.OK),
        ("CANCELLED by 0", StateClass.FAILED),
        ("CANCELLED+", StateClass.FAILED),
        ("COMPLETING", StateClass.ENDING),
        ("PREEMPTED", StateClass.FAILED),
        ("REVOKED", StateClass.FAILED),
        ("SPECIAL_EXIT", StateClass.REQUEUED),
        ("REQUEUE_HOLD", StateClass.REQUEUED),
        ("OUT_OF_MEMORY", StateClass.FAILED),
        ("R", StateClass.RUNNING),
        ("PD", StateClass.PENDING),
        ("QUANTUM_LEAP", StateClass.UNKNOWN),
        ("", StateClass.UNKNOWN),
    ],
)
def test_states(state: str, found: StateClass) -> None:
    assert classify(state) is found
    assert is_success(state) == (found is StateClass.OK)
    assert is_final(state) == (found in {StateClass.OK, StateClass.FAILED})
    assert states.in_words(state)


@pytest.mark.parametrize(
    ("code", "signal", "words"),
    [
        (0, 0, "ended normally"),
        (1, 0, "ended with an error"),
        (42, 0, "state is saved"),
        (43, 0, "gave up"),
        (44, 0, "belongs to another setting"),
        (45, 0, "another live trainer"),
        (0, 9, "SIGKILL"),
        (0, 15, "SIGTERM"),
        (137, 0, "SIGKILL"),
        (139, 0, "SIGSEGV"),
        (143, 0, "SIGTERM"),
        (138, 0, "SIGUSR1"),
        (0, 125, "out of memory"),
        (127, 0, "not found"),
        (7, 0, "error of its own"),
    ],
)
def test_exit_pairs(code: int, signal: int, words: str) -> None:
    text = exit_status.pair_in_words(code, signal)
    assert text.startswith(f"{code}:{signal} = ") and words in text


def test_a_kill_is_no_proof_of_memory() -> None:
    assert exit_status.is_out_of_memory(0, 125)
    assert not exit_status.is_out_of_memory(0, 9)
    assert not exit_status.is_out_of_memory(137, 0)
    assert [exit_status.signal_of(*pair) for pair in ((0, 9), (137, 0), (-9, 0), (1, 0), (0, 125))] == [9, 9, 9, 0, 0]
