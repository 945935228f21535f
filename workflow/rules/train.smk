"""One training rule for each collection, so that what a collection leaves open comes from the profile."""

for SLUG in COLLECTIONS:

    rule:
        name:
            f"train_{SLUG}"
        input:
            *training_inputs(SLUG),
        output:
            # The only declared output: Snakemake deletes what is declared before each attempt and after a failure.
            f"{RUN_DIR}/result.json",
        wildcard_constraints:
            collection=SLUG,
            setting="[0-9a-f]{12}",
            seed="[0-9]+",
        resources:
            **slurm_resources(SLUG),
            # mpi present and false: the job step starts us without srun (we bring our own), the submission is ordinary.
            mpi=0,
        params:
            run=training_step if IN_SLURM_JOB else training_here,
        message:
            "Training {params.run[label]}"
        shell:
            # exec: no shell stays between Slurm and the launcher, to die of a signal before the save is finished.
            "exec {params.run[command]}"
