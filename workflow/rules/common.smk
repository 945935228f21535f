"""Validated configuration and the functions of the rules. No rule stands here."""

import functools
import inspect
import os
import shlex
import sys
import uuid
from pathlib import Path

from snakemake.common import overwrite_function_params
from snakemake.exceptions import WorkflowError

from unbroken.collection import load_config
from unbroken.collection.identity import config_hash
from unbroken.collection.project import check_folder, check_given
from unbroken.collection.targets import named_slugs, slugs_in
from unbroken.errors import UnbrokenError
from unbroken.launch.memory import memory_to_ask
from unbroken.run_dir.files import write_json
from unbroken.slurm.submission import check_extra
from unbroken.snapshot.settle import settle

# One id for this call and every job, retry and requeue of it: the launcher does not train a crashed run twice in it.
os.environ.setdefault("UNBROKEN_CALL_ID", uuid.uuid4().hex)


def wanted_slugs(project):
    """The collections this call needs: those listed in config.yaml and those that the command line names.

    A Snakemake inside a job is named its one target, and need not read the others.
    """
    there = slugs_in(project.collections_dir)
    named = named_slugs(there, sys.argv[1:])
    return (
        named
        if workflow.remote_exec
        else list(dict.fromkeys([*project.collections, *named]))
    )


def load_all():
    """The project's configuration and its collections by slug; a user's mistake is one message."""
    try:
        check_folder(os.getcwd())
        check_given(workflow.config_settings.config_args)
        project = load_config(config)
        collections = {slug: project.load(slug) for slug in wanted_slugs(project)}
        check_extra(str(profile_default("slurm_extra") or ""))
        for collection in collections.values():
            check_extra(str(collection.resources.get("slurm_extra", "")))
    except UnbrokenError as error:
        raise WorkflowError(str(error)) from None
    return project, collections


def profile_default(resource):
    """What the profile's default-resources say of a resource: a number, an expression's text, or None."""
    found = workflow.resource_settings._parsed_default_resources.get(resource)
    return None if found is None else found.raw if found.is_evaluable() else found.value


PROJECT, COLLECTIONS = load_all()


def asked_for_every_run(function):
    """Keep the parameters: Snakemake asks for them several times for each job, and working them out takes 40 us."""
    overwrite_function_params(function, inspect.signature(function).parameters)
    return function


def run_of(wildcards):
    return COLLECTIONS[wildcards.collection].run(wildcards.setting, int(wildcards.seed))


RUN_DIR = f"{PROJECT.runs_dir}/{{collection}}/{{setting}}/seed_{{seed}}"


@functools.cache
def run_results(slug):
    """The result of every run of a collection: what its training is finished by."""
    return [
        f"{PROJECT.runs_dir}/{slug}/{setting.id}/seed_{seed}/result.json"
        for setting in COLLECTIONS[slug].settings
        for seed in COLLECTIONS[slug].seeds
    ]


def collection_targets(slug):
    """Every result, then what is made of them.

    The results are named too: a summary that an interrupted call has written over the runs finished so far would
    otherwise satisfy Snakemake.
    """
    made = f"{PROJECT.results_dir}/{slug}"
    return [*run_results(slug), f"{made}/summary.csv", f"{made}/report.html"]


def slurm_resources(slug):
    """Resources of a collection's jobs: its own `resources:`; what it leaves open comes from the profile."""
    own = {
        key: value
        for key, value in COLLECTIONS[slug].resources.items()
        if key != "mem_mb"
    }
    base = COLLECTIONS[slug].resources.get("mem_mb") or profile_default("mem_mb")
    if isinstance(base, int):
        own["mem_mb"] = memory_request(base)
    return own


def memory_request(base):
    """More memory for a run that was killed for it; asked anew before each submission, and it never raises."""

    @asked_for_every_run
    def mem_mb(wildcards):
        run = run_of(wildcards)
        return memory_to_ask(run.paths(PROJECT.runs_dir), base, run.of.operational)

    return mem_mb


@asked_for_every_run
def training_here(wildcards, input):
    """The run as people read it, and the command that trains it; one function, for Snakemake takes long over each."""
    run = run_of(wildcards)
    return {
        "label": f"{run.collection} {run.label} seed={run.seed}",
        "command": launch_command(run, input),
    }


def launch_command(run, manifests):
    """Starts the launcher; what it is told about the run is JSON in a file of Snakemake's own folder.

    In a file, because Snakemake prints the command of a job that failed. Written anew by every job that starts, so
    that it is never older than the collection.
    """
    name = f"{run.collection}/{run.setting}/seed_{run.seed}"
    spec = f".snakemake/unbroken/{name}.json"
    if not starts_elsewhere(run.collection):
        write_spec(run, manifests, Path(spec).absolute())
    run_dir = shlex.quote(f"{PROJECT.runs_dir}/{name}")
    return f"{PYTHON} -m unbroken.launch --run-dir {run_dir} --spec @{spec}"


def training_step(wildcards, input, threads, resources):
    """The same through `srun`, inside a Slurm job.

    Only as a direct child of slurmstepd does the launcher get Slurm's signals under cgroup tracking, and only a step
    of its own keeps its exit code in accounting.
    """
    gpus = next(
        (resources.get(key) for key in ("gpu", "gpus") if resources.get(key)), None
    )
    gpu_option = f" --gpus={gpus}" if gpus else ""
    cpus = resources.get("cpus_per_task") or threads
    step = f"srun --ntasks=1 --nodes=1 --cpus-per-task={cpus} --cpu-bind=quiet --job-name=launcher{gpu_option}"
    here = training_here(wildcards, input)
    return {**here, "command": f"{step} {here['command']}"}


PYTHON = shlex.quote(sys.executable)
IN_SLURM_JOB = bool(workflow.remote_exec and os.environ.get("SLURM_JOB_ID"))
OF_THE_ALLOCATION = (
    "CONF",
    "JOB_ID",
    "JOBID",
    "CLUSTER_NAME",
    "SUBMIT_DIR",
    "SUBMIT_HOST",
)

if IN_SLURM_JOB:
    # What sbatch sets for its own step would silently become options of ours.
    for variable in list(os.environ):
        own = variable.startswith("SLURM_") and variable[6:] not in OF_THE_ALLOCATION
        if own or variable.startswith(("SRUN_", "SBATCH_")):
            del os.environ[variable]


@functools.cache
def starts_elsewhere(slug):
    """Whether this Snakemake only plans the training: a dry run, or one that submits jobs."""
    if workflow.dryrun or not workflow.non_local_exec:
        return workflow.dryrun
    return not workflow.is_local(workflow.get_rule(f"train_{slug}"))


def write_spec(run, manifests, path):
    """The launch spec of a run, with its manifest where it has one."""
    spec = run.launch_spec()
    if manifests:
        # Absolute: pinned code runs elsewhere. Braces doubled: the command is a template.
        manifest = os.path.abspath(str(manifests[0]))
        manifest = manifest.replace("{", "{{").replace("}", "}}")
        spec["command"] += ["--manifest", manifest]
    write_json(path, spec, durable=False)


def settle_code(ended=False):
    """Pin the code of what is to be trained, where the collection asks for it; unpin it where it does not, or is done."""
    if workflow.remote_exec or workflow.subprocess_exec:
        return
    needed = () if ended else workflow.dag.needrun_jobs()
    to_train = {
        job.wildcards.collection for job in needed if job.rule.name.startswith("train_")
    }
    try:
        for line in settle(
            COLLECTIONS.values(), to_train, PROJECT.runs_dir, [PROJECT.results_dir]
        ):
            print(line, file=sys.stderr)
    except UnbrokenError as error:
        raise WorkflowError(str(error)) from None


def manifest_data(wildcards):
    """The `data:` of the settings that a manifest is made for; its path carries their hash."""
    for setting in COLLECTIONS[wildcards.collection].settings:
        if data_id(setting.config) == wildcards.data_id:
            return dict(setting.config["data"])
    raise WorkflowError(
        f"no setting of {wildcards.collection} has the data {wildcards.data_id}"
    )


def data_id(setting_config):
    return config_hash(setting_config["data"])[:12]


def training_inputs(slug):
    """The input functions of a collection's training: the manifest of the consensus trainer, if it has `data:`.

    The other trainers make their data from the seed.
    """
    if COLLECTIONS[slug].trainer != "consensus":
        return []
    known = {
        setting.id: f"data/{slug}/{data_id(setting.config)}/manifest_train.csv"
        for setting in COLLECTIONS[slug].settings
        if "data" in setting.config
    }

    @asked_for_every_run
    def manifest(wildcards):
        return ancient(known.get(wildcards.setting, []))

    return [manifest]


def tell_outcome():
    """Summary and report over what is finished, a line for each collection of this call; not inside jobs."""
    if workflow.remote_exec or workflow.subprocess_exec:
        return
    from unbroken.report import conclude

    made = {str(path) for job in workflow.dag.finished_jobs for path in job.output}
    wanted = {
        job.wildcards.collection
        for job in workflow.dag.jobs
        if "collection" in job.wildcards.keys()
    }
    for slug in sorted(wanted & set(COLLECTIONS)):
        for line in conclude(COLLECTIONS[slug], PROJECT, made):
            print(line, file=sys.stderr)
