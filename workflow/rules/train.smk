"""One training rule for each collection, so that what a collection leaves open comes from the profile."""

for SLUG in COLLECTIONS:

    rule:
        name:
            f"train_{SLUG}"
        input:
            lambda wildcards: ancient(training_input(wildcards)),
        output:
            # The only declared output: Snakemake deletes what is declared before each attempt and after a failure.
            result=f"{PROJECT.runs_dir}/{{collection}}/{{setting}}/seed_{{seed}}/result.json",
        wildcard_constraints:
            collection=SLUG,
            setting="[0-9a-f]{12}",
            seed="[0-9]+",
        resources:
            **slurm_resources(SLUG),
            # mpi present and false: the job step starts us without srun (we bring our own), the submission is ordinary.
            mpi=0,
        params:
            label=lambda wildcards: f"{wildcards.collection} {run_of(wildcards).label} seed={wildcards.seed}",
            run_dir=lambda wildcards, output: str(Path(output.result).parent),
            spec=launch_spec,
            step=lambda wildcards, threads, resources: step_command(threads, resources),
            python=sys.executable,
        message:
            "Training {params.label}"
        shell:
            # exec: no shell stays between Slurm and the launcher, to die of a signal before the save is finished.
            "exec {params.step} {params.python:q} -m unbroken.launch --run-dir {params.run_dir:q} --spec {params.spec:q}"
