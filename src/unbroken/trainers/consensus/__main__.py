"""python -m unbroken.trainers.consensus: the stop handlers first, torch after them."""

from unbroken.training import preemption

if __name__ == "__main__":
    preemption.install()
    from unbroken.trainers.consensus.main import main
    from unbroken.training.command_line import leave

    leave(main)
