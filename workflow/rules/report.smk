"""Summary and report of a collection, over the runs that are finished; a target by its slug."""


localrules:
    summarise_collection,
    report_collection,


report: "../report/workflow.rst"


wildcard_constraints:
    collection="[a-z0-9][a-z0-9_-]*",


def finished_by(wildcards):
    return run_results(wildcards.collection)


def collection_file(wildcards):
    return str(PROJECT.collection_path(wildcards.collection))


rule summarise_collection:
    input:
        results=finished_by,
        collection=collection_file,
    output:
        report(
            f"{PROJECT.results_dir}/{{collection}}/summary.csv",
            caption="../report/summary.rst",
            category="{collection}",
            labels={"table": "summary"},
        ),
    params:
        runs_dir=str(PROJECT.runs_dir),
    message:
        "Summing up {wildcards.collection}"
    script:
        "../scripts/summarise.py"


rule report_collection:
    input:
        results=finished_by,
        collection=collection_file,
    output:
        report(
            f"{PROJECT.results_dir}/{{collection}}/report.html",
            caption="../report/report.rst",
            category="{collection}",
            labels={"table": "report"},
        ),
    params:
        runs_dir=str(PROJECT.runs_dir),
    message:
        "Writing the report of {wildcards.collection}"
    script:
        "../scripts/make_report.py"


for SLUG in COLLECTIONS:

    rule:
        name:
            SLUG
        input:
            collection_targets(SLUG),


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


onstart:
    settle_code()


onsuccess:
    tell_outcome()
    settle_code(ended=True)


onerror:
    tell_outcome()
    settle_code(ended=True)
