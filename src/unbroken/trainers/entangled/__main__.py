"""python -m unbroken.trainers.entangled: the stop handlers first, torch after them."""

from unbroken.training import preemption

if __name__ == "__main__":
    preemption.install()
    from unbroken.trainers.entangled.main import main
    from unbroken.training.command_line import leave

    leave(main)
