"""A target that looks like a collection, and that no rule makes, is one message that names those near it."""

import contextlib
import io

from unbroken.collection.targets import is_slug, no_such_target


def given_targets():
    """Snakemake's own reading of its command line: only it can tell a target from the value of an option."""
    from snakemake.cli import parse_args

    with contextlib.redirect_stderr(io.StringIO()):
        try:
            return set(parse_args(sys.argv[1:])[1].targets)
        except SystemExit:  # started in some other way than by its command
            return set()


def is_made(target):
    made = (rule.is_producer(target) for rule in workflow.rules)
    return workflow.is_rule(target) or any(made)


def check_targets():
    unknown = {word for word in sys.argv[1:] if is_slug(word) and not is_made(word)}
    for target in sorted(unknown and unknown & given_targets()):
        raise WorkflowError(no_such_target(target, PROJECT.collections_dir))


# In a Snakefile that includes ours more rules may follow; a Snakemake inside a job has no slip to tell of.
if not (workflow.remote_exec or workflow.subprocess_exec):
    if len(workflow.included_stack) == 2:
        check_targets()
