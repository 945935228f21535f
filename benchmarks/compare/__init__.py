"""The same collection under four systems on the test cluster: ours, submitit, Lightning, a hand-written loop."""
