"""Entry of the workflow. `snakemake -n` shows what is pending, `snakemake` runs it here, `--profile slurm` on Slurm."""

import signal

from snakemake.utils import min_version

min_version("9.27")

# Slurm may signal every process of a step: the Snakemake inside the job must outlive the trainer's save.
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
signal.signal(signal.SIGUSR2, signal.SIG_IGN)


configfile: "config/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/report.smk"


localrules:
    all,


rule all:
    default_target: True
    input:
        lambda wildcards: [
            target
            for slug in PROJECT.collections
            for target in collection_targets(slug)
        ],


# Last: every rule is known here.
include: "workflow/rules/targets.smk"
