import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from models.training.loop import Schedule, Session, generator, one_cycle

STEPS = 12


class Killed(BaseException):
    pass


def fit(folder, *, dies_at=None, steps=STEPS):
    """Fit a linear model; return its weights, the steps run, and the steps saved."""
    torch.manual_seed(1)
    model = nn.Linear(3, 1)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    session = Session(folder, Schedule(steps, log_every=4, save_every=5), {"model": model, "optimiser": optimiser})
    steps_run = []

    def one_step(step):
        if step == dies_at:
            raise Killed
        inputs = torch.randn(8, 3, generator=generator(7, step))
        loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        steps_run.append(step)
        return {"loss": loss.item()}

    saved = list(session.run(one_step))
    return model.state_dict(), steps_run, saved


@pytest.mark.parametrize("dies_at", [0, 3, 5, 9, 11])
def test_resumed_training_equals_uninterrupted_training(tmp_path, dies_at):
    whole, _, saved = fit(tmp_path / "whole")
    assert saved == [5, 10, 12]
    with pytest.raises(Killed):
        fit(tmp_path / "killed", dies_at=dies_at)
    resumed, steps_run, _ = fit(tmp_path / "killed")
    assert steps_run[0] == dies_at // 5 * 5  # resumed from the last checkpoint
    for name, tensor in whole.items():
        assert torch.equal(resumed[name], tensor)


def test_finished_training_is_not_continued(tmp_path):
    first, *_ = fit(tmp_path)
    again, steps_run, saved = fit(tmp_path)
    assert (steps_run, saved) == ([], [])
    assert all(torch.equal(again[name], tensor) for name, tensor in first.items())


def test_log_has_a_line_every_few_steps(tmp_path, capsys):
    fit(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [4, 8, 12]
    assert all(line["loss"] >= 0 and line["seconds"] >= 0 for line in lines)
    assert "step=12" in capsys.readouterr().out
    assert not (tmp_path / "checkpoint.partial").exists()


@given(st.integers(1, 400), st.floats(1e-5, 1))
def test_one_cycle_rises_to_its_peak_and_ends_at_zero(steps, peak):
    rates = [one_cycle(step, steps=steps, peak=peak) for step in range(steps + 1)]
    assert all(0 <= rate <= peak * (1 + 1e-6) for rate in rates)
    assert all(rate > 0 for rate in rates[:-1])
    assert rates[-1] == pytest.approx(0, abs=1e-6 * peak)
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert steps < 40 or top / steps == pytest.approx(0.15, abs=0.03)


def test_generator_depends_on_seed_and_step_only():
    first, again, other, elsewhere = (
        torch.rand(4, generator=generator(*key)) for key in [(1, 5), (1, 5), (1, 6), (2, 5)]
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, elsewhere)
