"""The mutual information gap, on codes whose score is known."""

import math

import pytest
import torch

from unbroken.trainers.disentangled.scores import entropy, gaps, into_bins, mutual_information, mutual_information_gap

N = 4000


@pytest.fixture
def levels() -> torch.Tensor:
    return torch.randint(0, 4, (N, 2), generator=torch.Generator().manual_seed(1))


def test_one_coordinate_a_factor_scores_one(levels: torch.Tensor) -> None:
    assert mutual_information_gap(levels.double(), levels) == pytest.approx(1.0, abs=0.01)
    assert mutual_information_gap(-3 * levels.flip(1).double() + 7, levels) == pytest.approx(1.0, abs=0.01)


def test_two_coordinates_that_know_the_same_score_zero(levels: torch.Tensor) -> None:
    twice = torch.cat([levels, levels], dim=1).double()
    assert mutual_information_gap(twice, levels) == 0.0


def test_mixed_coordinates_score_little(levels: torch.Tensor) -> None:
    mixed = torch.stack([levels.sum(1), levels[:, 0] - levels[:, 1]], dim=1).double()
    assert mutual_information_gap(mixed, levels) < 0.1


def test_noise_and_a_dead_code_score_nothing(levels: torch.Tensor) -> None:
    noise = torch.randn(N, 3, generator=torch.Generator().manual_seed(2))
    assert mutual_information_gap(noise, levels) < 0.01
    assert mutual_information_gap(torch.zeros(N, 3), levels) == 0.0


def test_one_latent_and_a_constant_factor(levels: torch.Tensor) -> None:
    levels = torch.stack([levels[:, 0], torch.zeros(N, dtype=torch.int64)], dim=1)
    assert gaps(levels[:, :1].double(), levels).tolist() == [pytest.approx(1.0), 0.0]


def test_information_and_entropy_by_hand() -> None:
    codes = torch.tensor([[0], [0], [1], [1]])
    levels = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert mutual_information(codes, levels).tolist() == [[pytest.approx(math.log(2)), pytest.approx(0.0)]]
    assert entropy(levels).tolist() == [pytest.approx(math.log(2))] * 2


def test_bins_reach_both_ends() -> None:
    assert into_bins(torch.tensor([[-1.0], [0.0], [1.0]]), 4).tolist() == [[0], [2], [3]]
