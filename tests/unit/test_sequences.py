"""The synthetic sequences: seeded, made by address, and with the structure that their documentation claims."""

import math

import numpy as np
import pytest
import torch

from unbroken.data import counter
from unbroken.data.sequences_entangled import TRAIN, VALID, EntangledSequences
from unbroken.data.sequences_factorised import FACTORS, FactorisedSequences
from unbroken.errors import CollectionError


def test_counter_numbers_are_uniform_and_addressed() -> None:
    address = np.arange(20_000)
    drawn = counter.uniform(3, address)
    assert drawn.min() >= 0 and drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 0.01 and abs(drawn.var() - 1 / 12) < 0.005
    assert (counter.uniform(3, address[5:9]) == drawn[5:9]).all()
    assert (counter.uniform(4, address) != drawn).all()
    assert abs(np.corrcoef(counter.uniform(4, address), drawn)[0, 1]) < 0.03
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.03
    normal = counter.normal(3, address)
    assert abs(normal.mean()) < 0.03 and abs(normal.std() - 1) < 0.02
    assert sorted(counter.permutation(100, 3)) == list(range(100))


def test_counter_numbers_stay_what_they_are() -> None:
    """A change of these numbers would change the data of every run there is."""
    assert counter.bits(0).item() == 16294208416658607535  # splitmix64(0), first output of the reference
    assert counter.integers(1000, 7, 1, np.arange(4)).tolist() == [972, 646, 811, 36]
    assert EntangledSequences(seed=7, length=5).tokens(torch.arange(2)).tolist() == [
        [5, 14, 24, 4, 6, 5],
        [19, 4, 11, 7, 13, 19],
    ]


def test_a_record_is_the_same_alone_and_among_others() -> None:
    for made in (EntangledSequences(noise=0.3).tokens, FactorisedSequences().values):
        together = made(torch.arange(50))
        alone = made(torch.tensor([17]))
        assert torch.equal(together[17:18], alone)
        assert not torch.equal(made(torch.arange(50), VALID), made(torch.arange(50), TRAIN))


def test_entangled_tokens_are_a_map_of_all_factors() -> None:
    data = EntangledSequences(task_size=3, factor_values=4, length=9)
    records = torch.arange(200)
    tokens = data.tokens(records)
    start, speed = data.factors(records)
    assert tokens.shape == (200, 10) and tokens.dtype == torch.int64 and data.vocabulary == 64
    places = (start[:, None] + speed[:, None] * np.arange(10)[None, :, None]) % 4
    codes = (places * 4 ** np.arange(3)).sum(-1)
    seen = {(int(c), int(t)) for c, t in zip(codes.ravel(), tokens.ravel(), strict=True)}
    assert len(seen) == len({c for c, _ in seen}) == len({t for _, t in seen}), "one to one"
    assert torch.equal(tokens[:, :5], tokens[:, 4:9]), "every speed returns after factor_values steps"
    assert (speed > 0).all()


def test_noise_replaces_as_many_tokens_as_it_says_and_sets_the_floor() -> None:
    clean, noisy = EntangledSequences(length=50), EntangledSequences(length=50, noise=0.2)
    records = torch.arange(400)
    changed = (clean.tokens(records) != noisy.tokens(records)).double().mean()
    assert abs(changed - 0.2 * 24 / 25) < 0.01
    assert clean.loss_floor == 0.0
    assert EntangledSequences(noise=1.0).loss_floor == pytest.approx(math.log(25))


def test_each_factor_moves_its_own_channels_and_no_other() -> None:
    data = FactorisedSequences(noise=0.0, channels_per_factor=2)
    records = torch.arange(300)
    values, levels = data.values(records), data.factors(records)
    assert values.shape == (300, 16, 8) and values.dtype == torch.float32
    for number in range(len(FACTORS)):
        own = values[:, :, 2 * number : 2 * number + 2].reshape(300, -1)
        by_level = [own[levels[:, number] == level] for level in range(5)]
        assert all((rows == rows[0]).all() for rows in by_level), "nothing else changes them"
        assert len({tuple(rows[0].tolist()) for rows in by_level}) == 5, "each level shows"
    counts = torch.stack([levels[:, i].bincount(minlength=5) for i in range(4)])
    assert (counts > 30).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"records": 0}, "data.records is 0"),
        ({"noise": 1.5}, "data.noise is 1.5; it must be between 0 and 1"),
        ({"task_size": 12}, "data.factor_values \\*\\* data.task_size is 244140625"),
    ],
)
def test_impossible_parameters_are_said(change: dict[str, float], said: str) -> None:
    with pytest.raises(CollectionError, match=said):
        EntangledSequences(**change)  # type: ignore[arg-type]
