"""Unbroken: interrupted PyTorch training runs that end in the same bits as unbroken ones."""

__version__ = "0.1.0"
