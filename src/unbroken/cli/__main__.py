"""``python -m unbroken.cli``."""

from unbroken.cli import main

main()
