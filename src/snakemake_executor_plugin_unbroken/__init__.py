"""The Snakemake executor `unbroken`: submission by snakemake-executor-plugin-slurm, polling and judging by us."""

from dataclasses import dataclass, field
from typing import Optional

from snakemake_executor_plugin_slurm import ExecutorSettings as StockSettings
from snakemake_interface_executor_plugins.settings import CommonSettings

from snakemake_executor_plugin_unbroken.executor import Executor

__all__ = ["Executor", "ExecutorSettings", "common_settings"]


@dataclass
class ExecutorSettings(StockSettings):  # type: ignore[misc]
    """The stock plugin's settings, under the prefix ``unbroken-``."""

    status_command: Optional[str] = field(  # noqa: UP045 - argparse cannot call `str | None`
        default="squeue",
        metadata={
            "help": "Only for the stock plugin's advice: squeue is asked first, sacct for what it does not know."
        },
    )


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=2,
)
