"""What recovery costs, measured: one file a row of docs/performance.md. ``python -m benchmarks --help``."""
