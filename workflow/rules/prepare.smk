"""Input data that must be there before training."""


localrules:
    make_manifest,


rule make_manifest:
    output:
        "data/{collection}/{data_id}/manifest_train.csv",
    wildcard_constraints:
        collection="[a-z0-9][a-z0-9_-]*",
        data_id="[0-9a-f]{12}",
    params:
        data=manifest_data,
        camels_root=str(PROJECT.data_roots.get("camels", "")),
    message:
        "Making the manifest of {wildcards.collection}"
    script:
        "../scripts/make_manifest.py"
