"""The loop in an sbatch script of one's own: ``python -m benchmarks.compare.plain_loop FOLDER SEED``."""

import sys
from pathlib import Path

from benchmarks.compare.task import Loop

SCRIPT = """#!/bin/bash
# The job goes on until it is done: a step that ends in any other way puts the job back into the queue.
trap '' TERM USR1
srun {python} -m benchmarks.compare.plain_loop {folder} {seed} || scontrol requeue $SLURM_JOB_ID
"""

if __name__ == "__main__":
    Loop(Path(sys.argv[1]), int(sys.argv[2])).train()
