"""A small causal transformer on sequences whose factors are mixed in every token; see trainer.py."""
