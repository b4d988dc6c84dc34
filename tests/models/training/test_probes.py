import pytest
import torch
from drawn_faces_set import face_set

from models.fader import Fader
from models.training.loop import generator
from models.training.probes import balanced_rows, codes_of, gender_probe


def codes(count, *, apart, seed, curved=False):
    """Codes ``(count, 8)`` and targets: ``apart`` along one axis, or by which side of zero two axes are on together."""
    random = generator(seed, 0)
    target = torch.randint(2, (count,), generator=random)
    rows = torch.randn(count, 8, generator=random)
    if curved:
        rows[:, 1] = rows[:, 1].abs() * rows[:, 0].sign() * (2 * target - 1)
    else:
        rows[:, 0] += apart * (target - 0.5)
    return rows, target


@pytest.mark.parametrize("hidden", [None, 32])
def test_what_is_plain_is_found_and_what_is_not_there_is_not(hidden):
    plain, none = (
        gender_probe(codes(800, apart=apart, seed=1), codes(800, apart=apart, seed=2), hidden=hidden)
        for apart in (6.0, 0.0)
    )
    assert plain > 0.9
    assert 0.42 < none < 0.58


def test_a_hidden_layer_finds_what_no_line_can():
    train, test = codes(2000, apart=0, seed=1, curved=True), codes(1000, apart=0, seed=2, curved=True)
    linear, deep = (gender_probe(train, test, hidden=hidden) for hidden in (None, 64))
    assert linear < 0.62
    assert deep > linear + 0.15


def test_the_same_seed_gives_the_same_figure():
    train, test = codes(300, apart=1.0, seed=1), codes(300, apart=1.0, seed=2)
    assert gender_probe(train, test, hidden=16, seed=3) == gender_probe(train, test, hidden=16, seed=3)


def test_rows_are_balanced_and_only_of_those_given():
    faces = face_set(60)
    faces.gender[:45] = 1.0
    rows = torch.arange(10, 60)
    chosen = balanced_rows(faces, rows, seed=0)
    genders = faces.gender[chosen]
    assert (genders > 0).sum() == (genders < 0).sum() == (faces.gender[rows] < 0).sum()
    assert len(chosen.unique()) == len(chosen)
    assert torch.isin(chosen, rows).all()
    assert chosen.tolist() != balanced_rows(faces, rows, seed=1).tolist()


def test_codes_are_those_of_the_network_one_flat_row_a_face():
    torch.manual_seed(0)
    faces, rows = face_set(6), torch.tensor([4, 1])
    found = codes_of(Fader().eval(), faces, rows)
    assert found.shape == (2, 16384)
    assert found.isfinite().all()
    assert (found[0] != found[1]).any()
