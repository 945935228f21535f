"""Which code a run's attempts run: pinned by ``job_code_snapshot_enabled``, or recorded at each start."""
