import facenet_pytorch
import pytest
import torch
from facenet_pytorch.models.inception_resnet_v1 import get_torch_home
from torch import nn

from models import identity
from models.identity import FILE, SIZE, find_weights, load_recogniser, similarity
from models.weights import WeightsError


class TinyRecogniser(nn.Module):
    """Replaces InceptionResnetV1: an 8-dimensional embedding of a face's mean colours."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(48, 8, bias=False)

    def forward(self, faces):
        self.received = faces
        return self.last(nn.functional.adaptive_avg_pool2d(faces, 4).flatten(1))


@pytest.fixture
def weights_file(tmp_path, monkeypatch):
    """Weights of the replacement in the layout of the public file, which includes a classifier."""
    monkeypatch.setattr(facenet_pytorch, "InceptionResnetV1", TinyRecogniser)
    file = tmp_path / FILE
    classifier = {"logits.weight": torch.zeros(5, 8), "logits.bias": torch.zeros(5)}
    torch.save(TinyRecogniser().state_dict() | classifier, file)
    return file


def crops(count, seed=0):
    small = torch.rand(count, 3, 4, 4, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return nn.functional.interpolate(small, size=(128, 128), mode="nearest")


# The file


@pytest.mark.parametrize(
    "environment",
    [{"TORCH_HOME": "{}/torch"}, {"XDG_CACHE_HOME": "{}/cache"}, {"HOME": "{}"}, {"HOME": "{}", "TORCH_HOME": "~/t"}],
    ids=["TORCH_HOME", "XDG_CACHE_HOME", "home", "home in TORCH_HOME"],
)
def test_weights_are_found_in_the_cache_of_facenet_pytorch_without_download(tmp_path, monkeypatch, environment):
    for name in ("TORCH_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    assert find_weights() is None
    assert not list(tmp_path.rglob("*"))
    folder = tmp_path / get_torch_home() / "checkpoints"
    folder.mkdir(parents=True)
    assert find_weights() is None
    (folder / FILE).write_bytes(b"weights")
    assert find_weights() == folder / FILE


# Loading


def test_network_is_loaded_frozen_and_without_the_classifier(weights_file):
    network = load_recogniser(weights_file)
    assert torch.equal(network.last.weight, torch.load(weights_file, weights_only=True)["last.weight"])
    assert not network.training
    assert not any(parameter.requires_grad for parameter in network.parameters())


class MaliciousPickle:
    def __reduce__(self):
        return (print, ("executed",))


@pytest.mark.parametrize(
    "content",
    [{"other": torch.zeros(2)}, {}, [1, 2], MaliciousPickle(), None],
    ids=["other", "empty", "list", "code", "junk"],
)
def test_invalid_file_raises_without_executing_code(content, weights_file, capsys):
    if content is None:
        weights_file.write_text("not weights")
    else:
        torch.save(content, weights_file)
    with pytest.raises((ValueError, WeightsError), match=rf"{FILE} does not contain the weights of InceptionResnetV1"):
        load_recogniser(weights_file)
    assert "executed" not in capsys.readouterr().out


# Similarity


def test_similarity_is_symmetric_and_one_for_identical_faces(weights_file):
    network = load_recogniser(weights_file)
    first, other = crops(5), crops(5, seed=1)
    assert similarity(network, first, first).tolist() == pytest.approx([1] * 5, abs=1e-5)
    there, back = similarity(network, first, other), similarity(network, other, first)
    assert there.shape == (5,)
    assert there.tolist() == pytest.approx(back.tolist(), abs=1e-5)
    assert (there.abs() <= 1 + 1e-6).all()
    assert (there < 0.999).all()


def test_faces_are_compared_pairwise(weights_file):
    network = load_recogniser(weights_file)
    first, other = crops(3), crops(3, seed=1)
    other[1] = first[1]
    assert similarity(network, first, other)[1].item() == pytest.approx(1, abs=1e-5)
    singly = [similarity(network, first[i : i + 1], other[i : i + 1]).item() for i in range(3)]
    assert similarity(network, first, other).tolist() == pytest.approx(singly, abs=1e-4)


def test_input_has_the_size_and_range_of_training(weights_file):
    network = load_recogniser(weights_file)
    white = torch.ones(1, 3, 128, 128)
    similarity(network, white, -white)
    assert network.received.shape == (2, 3, SIZE, SIZE)
    # (255 - 127.5) / 128 and (0 - 127.5) / 128
    assert network.received[0].unique().tolist() == pytest.approx([127.5 / 128])
    assert network.received[1].unique().tolist() == pytest.approx([-127.5 / 128])


def test_file_name_and_size_are_those_of_facenet_pytorch():
    source = facenet_pytorch.models.inception_resnet_v1.load_weights.__code__
    assert any(FILE in str(constant) for constant in source.co_consts)
    assert identity.SIZE == 160
