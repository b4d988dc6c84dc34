import pytest
import torch
from random_faces import face_set

from models.fader import Fader
from models.training.loop import generator
from models.training.probes import balanced_rows, codes_of, gender_probe


def random_codes(count, *, apart, seed, curved=False):
    """Codes ``(count, 8)`` and targets, ``apart`` on one axis or, if curved, by the sign of a product."""
    random = generator(seed, 0)
    target = torch.randint(2, (count,), generator=random)
    rows = torch.randn(count, 8, generator=random)
    if curved:
        rows[:, 1] = rows[:, 1].abs() * rows[:, 0].sign() * (2 * target - 1)
    else:
        rows[:, 0] += apart * (target - 0.5)
    return rows, target


@pytest.mark.parametrize("hidden", [None, 32])
def test_probe_finds_separable_codes_only(hidden):
    separable, equal = (
        gender_probe(random_codes(800, apart=apart, seed=1), random_codes(800, apart=apart, seed=2), hidden=hidden)
        for apart in (6.0, 0.0)
    )
    assert separable > 0.9
    assert 0.42 < equal < 0.58


def test_hidden_layer_finds_nonlinear_codes():
    train, test = random_codes(2000, apart=0, seed=1, curved=True), random_codes(1000, apart=0, seed=2, curved=True)
    linear, deep = (gender_probe(train, test, hidden=hidden) for hidden in (None, 64))
    assert linear < 0.62
    assert deep > linear + 0.15


def test_probe_is_reproducible():
    train, test = random_codes(300, apart=1.0, seed=1), random_codes(300, apart=1.0, seed=2)
    assert gender_probe(train, test, hidden=16, seed=3) == gender_probe(train, test, hidden=16, seed=3)


def test_balanced_rows_are_a_balanced_subset():
    faces = face_set(60)
    faces.gender[:45] = 1.0
    rows = torch.arange(10, 60)
    chosen = balanced_rows(faces, rows, seed=0)
    genders = faces.gender[chosen]
    assert (genders > 0).sum() == (genders < 0).sum() == (faces.gender[rows] < 0).sum()
    assert len(chosen.unique()) == len(chosen)
    assert torch.isin(chosen, rows).all()
    assert chosen.tolist() != balanced_rows(faces, rows, seed=1).tolist()


def test_codes_are_flat_rows_of_the_network():
    torch.manual_seed(0)
    faces, rows = face_set(6), torch.tensor([4, 1])
    found = codes_of(Fader().eval(), faces, rows)
    assert found.shape == (2, 16384)
    assert found.isfinite().all()
    assert (found[0] != found[1]).any()
