"""`unbroken cluster`: what the cluster offers, and whether it keeps the recovery contract."""

import os
import pwd
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from unbroken.cli import output
from unbroken.errors import SlurmError
from unbroken.slurm import client
from unbroken.slurm.command import run
from unbroken.slurm.contract import Line, first_number, judge_cluster
from unbroken.slurm.parse import parse_records

_GRADES = {"ok": "ok", "note": "note", "problem": "PROBLEM"}
_STYLES = {"ok": "green", "note": "yellow", "problem": "red"}


def command(
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON document.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 when the cluster breaks the recovery contract.")
    ] = False,
) -> None:
    """Partitions, limits, GPUs, preemption, what you may use; and line by line whether runs recover here."""
    config = client.show_config()
    partitions = parse_records(run(["scontrol", "show", "partition"]))
    nodes = parse_records(run(["scontrol", "show", "node"]))
    mine, why_not = associations()
    lines = judge_cluster(config, partitions, accounting=why_not)
    rows = [_partition(partition, nodes, config) for partition in partitions]
    if as_json:
        document = {
            "cluster": config.get("ClusterName"),
            "version": config.get("SLURM_VERSION"),
            "partitions": rows,
            "associations": mine,
            "contract": [vars(line) for line in lines],
        }
        output.print_json(document)
    else:
        _show(config, rows, mine, why_not, lines)
    if check and any(line.grade == "problem" for line in lines):
        raise typer.Exit(1)


def associations() -> tuple[list[dict[str, str]], str | None]:
    """What the user may use (account, partition, QOS, limits), and why that is not known."""
    user = pwd.getpwuid(os.getuid()).pw_name
    fields = "Account,Partition,QOS,DefaultQOS,MaxJobs,MaxSubmit,MaxWall,GrpTRES,MaxTRES"
    argv = ["sacctmgr", "--noheader", "--parsable2", "show", "associations", f"user={user}", f"format={fields}"]
    try:
        text = run(argv)
    except SlurmError as error:
        return [], str(error)
    names = fields.split(",")
    return [dict(zip(names, line.split("|"), strict=False)) for line in text.splitlines() if line], None


def _partition(partition: Mapping[str, str], nodes: list[dict[str, str]], config: Mapping[str, str]) -> dict[str, Any]:
    name = partition.get("PartitionName", "?")
    own = [node for node in nodes if name in node.get("Partitions", "").split(",")]
    states: dict[str, int] = {}
    for node in own:
        state = node.get("State", "?").lower()
        states[state] = states.get(state, 0) + 1
    gpus = sorted({node["Gres"] for node in own if node.get("Gres", "(null)") != "(null)"})
    memory = [int(node.get("RealMemory", 0)) for node in own]
    return {
        "name": name,
        "default": partition.get("Default") == "YES",
        "state": partition.get("State", "?"),
        "time_limit": partition.get("MaxTime", "?"),
        "default_time": partition.get("DefaultTime", "?"),
        "nodes": states,
        "cpus_a_node": max((int(node.get("CPUTot", 0)) for node in own), default=0),
        "memory_mb_a_node": max(memory, default=0),
        "gpus_a_node": gpus,
        "max_memory_mb_a_node": partition.get("MaxMemPerNode", ""),
        "preempt_mode": partition.get("PreemptMode") or config.get("PreemptMode", ""),
        "grace_s": first_number(partition.get("GraceTime", "")) or 0,
        "priority_tier": partition.get("PriorityTier", ""),
        "accounts": partition.get("AllowAccounts", "ALL"),
        "qos": partition.get("AllowQos", "ALL"),
    }


def _show(
    config: Mapping[str, str],
    rows: list[dict[str, Any]],
    mine: list[dict[str, str]],
    why_not: str | None,
    lines: list[Line],
) -> None:
    print(
        f"{config.get('ClusterName')}: Slurm {config.get('SLURM_VERSION')}, {config.get('SelectType')}, "
        f"KillWait {config.get('KillWait')}, preemption by {config.get('PreemptType')}"
    )
    headers = ["partition", "state", "limit", "nodes", "CPUs", "memory", "GPUs", "preemption", "grace", "tier", "for"]
    output.print_table(headers, [_cells(row) for row in rows])
    if mine:
        print("You may use (sacctmgr):")
        names = list(mine[0])
        output.print_table(names, [[row.get(name, "") for name in names] for row in mine])
    else:
        print(f"What you may use is not known: {why_not or 'sacctmgr lists nothing for you'}\n")
    print("Does a run recover here?")
    cells = [[_GRADES[line.grade], line.what, line.found, line.fix] for line in lines]
    output.print_table(["", "requirement", "found", "what to do"], cells, [_STYLES[line.grade] for line in lines])


def _cells(row: dict[str, Any]) -> list[str]:
    everyone = row["accounts"] == "ALL" and row["qos"] == "ALL"
    return [
        row["name"] + ("*" if row["default"] else ""),
        row["state"],
        row["time_limit"],
        ", ".join(f"{count} {state}" for state, count in sorted(row["nodes"].items())),
        str(row["cpus_a_node"]),
        f"{row['memory_mb_a_node'] / 1024:.0f} GiB",
        ", ".join(row["gpus_a_node"]),
        row["preempt_mode"],
        f"{row['grace_s']} s",
        str(row["priority_tier"]),
        "everyone" if everyone else f"accounts {row['accounts']}, qos {row['qos']}",
    ]
