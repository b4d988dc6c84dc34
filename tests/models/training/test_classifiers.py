import pytest
import torch
from random_faces import face_set

from models.judge import OUTPUTS, Classifier, Estimator, GreyJudge, Judge
from models.training.classifiers import ClassifierPlan, calibrate, classifier_losses, evaluate, outputs_of, train
from models.training.data import report_rows, selection_rows


@pytest.fixture(scope="module")
def faces():
    return face_set(60)


class TableClassifier(Classifier):
    """Returns rows of a table in order, whatever the input."""

    def __init__(self, answers):
        super().__init__()
        self.answers, self.place = answers, 0

    def forward(self, inputs):
        rows = self.answers[self.place : self.place + len(inputs)]
        self.place += len(inputs)
        return rows, rows


def perfect_outputs(faces, rows):
    answers = torch.zeros(len(rows), OUTPUTS)
    answers[:, 0] = 8 * faces.gender[rows]
    answers[torch.arange(len(rows)), 1 + faces.race[rows]] = 8
    answers[:, 12] = (faces.age[rows] - 40) / 20
    answers[:, 13] = torch.atanh(faces.smiling[rows].clamp(-0.999, 0.999))
    return answers


def test_evaluation_of_a_perfect_classifier(faces):
    rows = faces.rows(2)
    figures = evaluate(TableClassifier(perfect_outputs(faces, rows)), faces, rows, device="cpu")
    assert figures["gender_accuracy"] == figures["race_accuracy"] == 1
    assert figures["age_error"] == pytest.approx(0, abs=0.2)
    assert figures["smiling_correlation"] == pytest.approx(1, abs=1e-3)


def test_losses_are_finite_and_lower_for_correct_outputs(faces):
    rows = torch.arange(len(faces))
    right = classifier_losses(perfect_outputs(faces, rows) * 0.5, faces, rows)
    wrong = classifier_losses(-perfect_outputs(faces, rows) * 0.5, faces, rows)
    assert set(right) == {"gender", "race", "at_least", "age", "smiling"}
    for name, loss in right.items():
        assert loss.isfinite()
        assert name == "at_least" or loss < wrong[name]


def test_calibration_corrects_overconfidence():
    # Correct in 3 of 4 cases with constant confidence: the optimal temperature is logit / log(3).
    faces = face_set(400)
    rows = torch.arange(400)
    answers = perfect_outputs(faces, rows)
    answers[:, 0] = 5 * faces.gender
    answers[::4, 0] *= -1
    network = TableClassifier(answers)
    calibrate(network, faces, rows, device="cpu")
    assert network.gender_temperature.item() == pytest.approx(5 / torch.tensor(3.0).log().item(), rel=0.05)
    assert network.race_temperature.item() == pytest.approx(10**-0.7, rel=0.01)  # always correct: the lowest


@pytest.mark.parametrize(("kind", "epochs"), [(Estimator, 2.0), (Judge, 2.0), (GreyJudge, 10.0)])
def test_short_training_reduces_the_loss_and_calibrates(faces, tmp_path, capsys, kind, epochs):
    torch.manual_seed(0)
    network = kind(widths=(8, 8, 8, 8))
    plan = ClassifierPlan(parts=(0, 1), epochs=epochs, batch=8, peak_rate=5e-3, seed=1)
    rows = faces.rows(0, 1)
    before = classifier_losses(outputs_of(network, faces, rows, device="cpu"), faces, rows)
    train(network, faces, plan, tmp_path, device="cpu")
    after = classifier_losses(outputs_of(network, faces, rows, device="cpu"), faces, rows)
    assert sum(after.values()) < sum(before.values())
    assert not network.training
    assert network.gender_temperature != 1
    assert "gender_accuracy" in (tmp_path / "log.jsonl").read_text()


def test_calibration_uses_the_selection_faces_only(faces, tmp_path, capsys):
    def trained(folder, training_faces):
        torch.manual_seed(0)
        network = Estimator(widths=(8, 8, 8, 8))
        train(network, training_faces, ClassifierPlan(parts=(0,), epochs=0.4, batch=4), folder, device="cpu")
        return network

    network = trained(tmp_path / "a", faces)
    temperature = network.gender_temperature.clone()
    calibrate(network, faces, selection_rows(faces), device="cpu")
    assert network.gender_temperature == temperature
    other = face_set(60)
    other.crops[report_rows(other).numpy()] = 99
    assert trained(tmp_path / "b", other).gender_temperature == temperature


def test_training_uses_the_given_parts_only(faces, tmp_path, capsys):
    def trained(folder, crops):
        torch.manual_seed(0)
        network = Judge(widths=(8, 8, 8, 8))
        train(network, crops, ClassifierPlan(parts=(0,), epochs=0.4, batch=4), folder, device="cpu")
        return dict(network.named_parameters())

    other = face_set(60)
    other.crops[other.part.numpy() != 0] = 99
    first, second = trained(tmp_path / "a", faces), trained(tmp_path / "b", other)
    assert all(torch.equal(first[name], value) for name, value in second.items())
