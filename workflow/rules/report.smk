"""Summary and report of a collection, over the runs that are finished; a target by its slug."""


localrules:
    summarise_collection,
    report_collection,


report: "../report/workflow.rst"


wildcard_constraints:
    collection="[a-z0-9][a-z0-9_-]*",


rule summarise_collection:
    input:
        results=lambda wildcards: run_results(wildcards.collection),
        collection=lambda wildcards: str(PROJECT.collection_path(wildcards.collection)),
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
        results=lambda wildcards: run_results(wildcards.collection),
        collection=lambda wildcards: str(PROJECT.collection_path(wildcards.collection)),
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
            # A function: only the collection that is asked for is spelled out.
            lambda wildcards, slug=SLUG: collection_targets(slug),


onstart:
    settle_code()


onsuccess:
    tell_outcome()
    settle_code(ended=True)


onerror:
    tell_outcome()
    settle_code(ended=True)
