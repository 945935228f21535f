"""Training that can be interrupted: stop flag, checkpoints, resume, order, session, loop. Imports nothing by itself."""
