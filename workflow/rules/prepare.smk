"""Input data that must be there before training."""


localrules:
    make_manifest,


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


def training_input(wildcards):
    """The manifest of the consensus trainer; the other trainers make their data from the seed."""
    setting = run_of(wildcards).point.config
    if setting.get("trainer") != "consensus" or "data" not in setting:
        return []
    return f"data/{wildcards.collection}/{data_id(setting)}/manifest_train.csv"


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
