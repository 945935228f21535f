"""The metrics table, its advice, and the cluster's contract."""

from pathlib import Path

import pytest
from tests.unit.fake_slurm import ANSWERS
from tests.unit.test_slurm_diagnose import row

from unbroken.slurm import accounting
from unbroken.slurm.accounting_rows import parse_accounting, parse_duration, parse_memory_mib, parse_state
from unbroken.slurm.contract import judge_cluster
from unbroken.slurm.parse import parse_config, parse_records


def test_one_row_a_run_over_all_its_attempts() -> None:
    times = {"eligible": "2026-01-01T00:00:00+00:00", "started": "2026-01-01T00:00:30+00:00"}
    gpu = {"allocated_tres": {"cpu": "1", "gres/gpu": "2"}}
    rows = [
        row("PREEMPTED", elapsed_s=1800, **gpu, **times),
        row("CANCELLED", "0", max_rss_mib=900.0),
        row("COMPLETED", restart=1, elapsed_s=1800, cpu_used_s=45.0, **gpu, **times),
        row("COMPLETED", "0", max_rss_mib=512.0, restart=1),
    ]
    record = accounting.run_record("demo/ab/0", "lr=1", rows)
    assert (record["attempts"], record["elapsed_s"], record["queued_s"]) == (2, 3600, 60)
    assert (record["max_rss_mib"], record["memory_asked_mib"], record["memory_efficiency"]) == (900.0, 1024.0, 0.8789)
    assert (record["gpus"], record["gpu_hours"], record["cpu_efficiency"]) == (2, 2.0, 0.625)
    frame = accounting.table([record])
    assert list(frame.columns) == list(accounting.COLUMNS) and len(frame) == 1


def test_real_rows_of_a_run_with_a_requeue() -> None:
    rows = [row for row in parse_accounting((ANSWERS / "sacct.txt").read_text()) if row.raw_id == "1"]
    record = accounting.run_record("x/y/0", "", rows)
    assert (record["attempts"], record["state"], record["memory_asked_mib"]) == (2, "FAILED", 100.0)


def test_a_run_that_only_waited_has_blanks_and_no_zeros() -> None:
    record = accounting.run_record("x/y/0", "", [row("PENDING", nodes="")])
    assert record["attempts"] == 0
    assert (record["cpu_efficiency"], record["max_rss_mib"], record["cpus"]) == (None, None, None)


def test_advice_from_finished_runs_alone() -> None:
    done = accounting.run_record("a", "", [row("COMPLETED", elapsed_s=3000, cpu_used_s=4500.0, cpus=8)])
    done["max_rss_mib"] = 1000.0
    crashed = accounting.run_record("b", "", [row("FAILED", elapsed_s=90_000)])
    assert accounting.suggest([done, crashed]) == {
        "from_runs": 1,
        "runtime": 70,  # 50 min x 1.3, rounded up
        "mem_mb": 1400,
        "cpus_per_task": 2,
    }
    assert accounting.suggest([crashed]) == {}


def test_why_memory_is_blank() -> None:
    assert "measures no memory" in accounting.why_no_memory("jobacct_gather/none")
    assert "srun step" in accounting.why_no_memory("jobacct_gather/cgroup")


def test_units() -> None:
    assert [parse_memory_mib(text) for text in ("411044K", "4Gn", "1.5G", "2000M", "", "0")] == [
        401.41,
        4096.0,
        1536.0,
        2000.0,
        None,
        0.0,
    ]
    assert [parse_duration(text) for text in ("03:29.733", "1-02:00:00", "00:00:05", "")] == [
        209.733,
        93600.0,
        5.0,
        0.0,
    ]
    assert parse_state("CANCELLED by 1000") == ("CANCELLED", 1000)
    assert accounting.asked_memory(row("COMPLETED", requested_tres={}, requested_memory="2Gc", cpus=4)) == 8192.0


def test_parquet_without_pyarrow_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unbroken.cli import metrics
    from unbroken.errors import UnbrokenError

    def refuse(*_: object, **__: object) -> None:
        raise ImportError("Unable to find a usable engine")

    monkeypatch.setattr("pandas.DataFrame.to_parquet", refuse)
    with pytest.raises(UnbrokenError, match="pip install pyarrow"):
        metrics._write([accounting.run_record("a", "", [row("COMPLETED")])], None, tmp_path / "x.parquet")


def test_csv_and_parquet_hold_the_same_table(tmp_path: Path) -> None:
    import pandas

    from unbroken.cli import metrics

    records = [
        accounting.run_record("a", "", [row("PREEMPTED"), row("COMPLETED")]),
        accounting.run_record("b", "lr=0.1", []),
    ]
    csv, parquet = tmp_path / "new" / "x.csv", tmp_path / "new" / "x.parquet"
    metrics._write(records, csv, parquet)
    written = pandas.read_parquet(parquet)
    assert list(written["run"]) == ["a", "b"] and list(written.columns) == list(pandas.read_csv(csv).columns)
    pandas.testing.assert_frame_equal(written, metrics.table(records), check_dtype=False)


def contract(accounting_why: str | None = None, save_s: float | None = None, **changes: str) -> dict[str, str]:
    config = {**parse_config((ANSWERS / "show_config.txt").read_text()), **changes}
    partitions = parse_records((ANSWERS / "show_partition.txt").read_text())
    return {
        line.what: line.grade for line in judge_cluster(config, partitions, accounting=accounting_why, save_s=save_s)
    }


def test_the_test_cluster_keeps_the_contract() -> None:
    lines = contract()
    assert "problem" not in lines.values()
    assert lines["process tracking"] == "ok" and lines["preemption in cancel"] == "note"
    assert "preemption in down" not in lines


@pytest.mark.parametrize(
    ("changes", "what", "grade"),
    [
        ({"MinJobAge": "2 sec"}, "ended jobs stay visible", "problem"),
        ({"JobRequeue": "0"}, "requeue", "note"),
        ({"ProctrackType": "proctrack/linuxproc"}, "process tracking", "note"),
        ({"AccountingStorageType": "accounting_storage/none"}, "accounting", "note"),
        ({"JobAcctGatherType": "jobacct_gather/none"}, "accounting", "note"),
        ({"KillWait": "60 sec"}, "time to save at the end", "ok"),
        ({"PreemptType": "preempt/none"}, "preemption in grace", "ok"),
    ],
)
def test_a_bad_cluster_is_named(changes: dict[str, str], what: str, grade: str) -> None:
    assert contract(**changes)[what] == grade


def test_a_save_that_does_not_fit_is_a_problem() -> None:
    lines = contract(save_s=25.0)
    assert lines["time to save at the end"] == lines["preemption in grace"] == "problem"
    assert contract(save_s=5.0)["preemption in grace"] == "ok"
    assert contract("slurmdbd away")["accounting"] == "note"
