"""The launcher: starts the trainer inside the job, watches it, judges its end. Standard library only."""
