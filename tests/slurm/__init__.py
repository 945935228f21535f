"""Tests on a real Slurm that the test session starts on this machine."""
