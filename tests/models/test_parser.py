from hashlib import sha256

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from models import weights
from models.parser import CLASSES, GROUPS, MIRRORED, BiSeNet, SmallParser, _upsampled_conv, class_indices
from models.weights import PUBLIC_BISENET_SHA256, WeightsError, load_parser


def conv(name, into, out, kernel):
    return {f"{name}.weight": (out, into, kernel, kernel)}


def norm(name, width):
    vectors = ("weight", "bias", "running_mean", "running_var")
    return {f"{name}.{part}": (width,) for part in vectors} | {f"{name}.num_batches_tracked": ()}


def conv_norm(name, into, out, kernel=3):
    return conv(f"{name}.conv", into, out, kernel) | norm(f"{name}.bn", out)


def public_layout():
    """Names and shapes of the public face-parsing weights."""
    resnet = "cp.resnet"
    layout = conv(f"{resnet}.conv1", 3, 64, 7) | norm(f"{resnet}.bn1", 64)
    widths = (64, 64, 128, 256, 512)
    for layer in range(1, 5):
        for block in range(2):
            name, width = f"{resnet}.layer{layer}.{block}", widths[layer]
            into = widths[layer - 1] if block == 0 else width
            layout |= conv(f"{name}.conv1", into, width, 3) | norm(f"{name}.bn1", width)
            layout |= conv(f"{name}.conv2", width, width, 3) | norm(f"{name}.bn2", width)
            if into != width:
                layout |= conv(f"{name}.downsample.0", into, width, 1) | norm(f"{name}.downsample.1", width)
    for name, into in (("cp.arm16", 256), ("cp.arm32", 512)):
        layout |= conv_norm(f"{name}.conv", into, 128)
        layout |= conv(f"{name}.conv_atten", 128, 128, 1) | norm(f"{name}.bn_atten", 128)
    layout |= conv_norm("cp.conv_head32", 128, 128) | conv_norm("cp.conv_head16", 128, 128)
    layout |= conv_norm("cp.conv_avg", 512, 128, kernel=1)
    layout |= conv_norm("ffm.convblk", 256, 256, kernel=1)
    layout |= conv("ffm.conv1", 256, 64, 1) | conv("ffm.conv2", 64, 256, 1)
    for name, into, width in (("conv_out", 256, 256), ("conv_out16", 128, 64), ("conv_out32", 128, 64)):
        layout |= conv_norm(f"{name}.conv", into, width) | conv(f"{name}.conv_out", width, 19, 1)
    return layout


@pytest.fixture(scope="module")
def bisenet():
    torch.manual_seed(1)
    network = BiSeNet().eval()
    # Values other than the initial 0 and 1 show that statistics are loaded.
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return network


def test_bisenet_has_the_layout_of_the_public_weights(bisenet):
    state = bisenet.state_dict()
    assert {name: tuple(tensor.shape) for name, tensor in state.items()} == public_layout()
    assert len(state) == 191
    assert sum(parameter.numel() for parameter in bisenet.parameters()) == 13_300_416


def test_bisenet_accepts_other_sizes(bisenet):
    with torch.inference_mode():
        assert bisenet(torch.rand(1, 3, 64, 64) * 2 - 1).shape == (1, 19, 64, 64)
        assert bisenet(torch.rand(2, 3, 64, 96) * 2 - 1).shape == (2, 19, 64, 96)


def test_bisenet_input_has_imagenet_normalisation(bisenet):
    received = []
    hook = bisenet.cp.resnet.conv1.register_forward_pre_hook(lambda _, inputs: received.append(inputs[0][0, :, 0, 0]))
    with torch.inference_mode():
        for level in (-1.0, 1.0):
            bisenet(torch.full((1, 3, 64, 64), level))
    hook.remove()
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    np.testing.assert_allclose(received[0], (0 - mean) / deviation, rtol=1e-5)
    np.testing.assert_allclose(received[1], (1 - mean) / deviation, rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 64, 64), (2, 96, 64)])
def test_small_parser_gives_logits_for_every_pixel(shape):
    count, height, width = shape
    with torch.inference_mode():
        logits = SmallParser().eval()(torch.rand(count, 3, height, width) * 2 - 1)
    assert logits.shape == (count, len(CLASSES), height, width)
    assert logits.isfinite().all()


@pytest.mark.parametrize("shape", [(1, 64, 64), (2, 96, 64)])
def test_coarse_logits_have_half_the_resolution(shape):
    count, height, width = shape
    network, photos = SmallParser(widths=(8, 8, 8, 8, 8)).eval(), torch.rand(count, 3, height, width) * 2 - 1
    with torch.inference_mode():
        coarse, full = network.coarse(photos), network(photos)
    assert coarse.shape == (count, len(CLASSES), height // 2, width // 2)
    # A coarse logit is that of the centre of four pixels.
    differences = torch.nn.functional.avg_pool2d(full, 2) - coarse
    assert differences.abs().mean() < 0.1 * coarse.std()
    assert differences.mean().abs() < 1e-3


def test_number_of_parameters_of_the_small_parser():
    assert sum(parameter.numel() for parameter in SmallParser().parameters()) == 1_979_107
    assert SmallParser.size % 32 == 0


# Names


def test_order_of_classes():
    assert len(CLASSES) == 19
    assert [CLASSES.index(name) for name in ("background", "skin", "nose", "hair", "hat")] == [0, 1, 10, 17, 18]


@pytest.mark.parametrize("group", GROUPS)
def test_group_is_replaced_by_its_members(group):
    assert class_indices([group]) == tuple(sorted(CLASSES.index(member) for member in GROUPS[group]))


@given(st.lists(st.sampled_from([*CLASSES, *GROUPS])))
def test_class_indices_are_sorted_and_unique(names):
    indices = class_indices(names)
    assert list(indices) == sorted(set(indices))
    assert indices == class_indices(reversed(names))


def test_unknown_class_raises_with_the_known_names():
    with pytest.raises(ValueError, match=r"'chin'.*skin.*brows"):
        class_indices(["skin", "chin"])


def test_mirroring_swaps_left_and_right_classes():
    assert [MIRRORED[MIRRORED[index]] for index in range(19)] == list(range(19))
    for index, name in enumerate(CLASSES):
        partner = {"l_": "r_", "r_": "l_"}.get(name[:2], name[:2]) + name[2:]
        # "l_lip" is the lower lip.
        expected = partner if partner in CLASSES and name != "l_lip" else name
        assert CLASSES[MIRRORED[index]] == expected


# The public weights


@pytest.fixture
def trust(monkeypatch):
    """Make the sha256 of a file the expected one."""
    return lambda file: monkeypatch.setattr(weights, "PUBLIC_BISENET_SHA256", sha256(file.read_bytes()).hexdigest())


@pytest.mark.parametrize("new_format", [True, False], ids=["zip", "legacy"])
def test_public_weights_load_from_a_state_dict(bisenet, tmp_path, trust, new_format):
    file = tmp_path / "79999_iter.pth"
    torch.save(bisenet.state_dict(), file, _use_new_zipfile_serialization=new_format)
    trust(file)
    loaded = load_parser("bisenet", weights=file)
    photos = torch.rand(1, 3, 64, 64) * 2 - 1
    np.testing.assert_allclose(loaded(photos), bisenet(photos).detach(), rtol=0, atol=0)
    assert not loaded.training
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


class MaliciousPickle:
    def __reduce__(self):
        return (print, ("executed",))


@pytest.mark.parametrize("content", [{"weight": torch.zeros(2)}, MaliciousPickle()], ids=["other network", "code"])
def test_file_with_another_sha256_raises_without_executing_code(content, tmp_path, capsys):
    file = tmp_path / "other.pth"
    torch.save(content, file)
    with pytest.raises(WeightsError, match=r"other\.pth is not the public BiSeNet weights") as caught:
        load_parser("bisenet", weights=file)
    assert sha256(file.read_bytes()).hexdigest() in str(caught.value)
    assert PUBLIC_BISENET_SHA256 in str(caught.value)
    assert "executed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "content", [{"weight": torch.zeros(2)}, [1, 2], MaliciousPickle()], ids=["other network", "no network", "code"]
)
def test_file_with_the_right_sha256_must_be_a_matching_state_dict(content, tmp_path, trust, capsys):
    file = tmp_path / "other.pth"
    torch.save(content, file)
    trust(file)
    with pytest.raises(WeightsError, match=r"other\.pth does not contain the weights of BiSeNet"):
        load_parser("bisenet", weights=file)
    assert "executed" not in capsys.readouterr().out


def test_truncated_file_raises(bisenet, tmp_path, trust):
    file = tmp_path / "79999_iter.pth"
    torch.save(bisenet.state_dict(), file)
    trust(file)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(WeightsError, match="is not the public BiSeNet weights: sha256"):
        load_parser("bisenet", weights=file)


def test_missing_file_raises(tmp_path):
    with pytest.raises(WeightsError, match=r"gone\.pth cannot be read: No such file"):
        load_parser("bisenet", weights=tmp_path / "gone.pth")


def test_missing_path_raises_with_the_required_file():
    with pytest.raises(WeightsError, match=f"--weights.*{PUBLIC_BISENET_SHA256[:12]}"):
        load_parser("bisenet")


def test_upsampled_convolution_equals_convolution_of_upsampled_features():
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(4, 3 + 2, 3, 3, generator=random)
    x, skip = torch.randn(2, 3, 5, 6, generator=random), torch.randn(2, 2, 10, 12, generator=random)
    joined = torch.cat([functional.interpolate(x, scale_factor=2, mode="nearest"), skip], dim=1)
    expected = functional.conv2d(joined, weight, padding=1)
    assert torch.allclose(_upsampled_conv(weight, x, skip), expected, atol=1e-4)
