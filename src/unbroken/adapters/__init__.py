"""Trainers of other frameworks made to keep the trainer contract: a callback for each."""
