"""A sequential beta-VAE on factorised sequences; see trainer.py and config/collections/disentangled_beta.yaml."""
