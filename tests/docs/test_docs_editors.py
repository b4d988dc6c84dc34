"""The examples of docs/editors.md; the diffusion model is replaced by a tiny random one of the same class."""

import json
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "editors.md"


def code_of(name):
    """The code block of the page that starts with a comment of this name."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (code,) = [block for block in blocks if block.startswith(f"# {name}")]
    return code


def module_of(name):
    module = types.ModuleType(name)
    exec(compile(code_of(f"{name}.py"), f"{name}.py", "exec"), module.__dict__)
    return module


def test_function_of_the_page_is_an_editor():
    pixels = np.zeros((8, 8, 3), dtype=np.uint8)
    options = {"attribute": "gender", "poles": ("feminine", "masculine"), "mask": pixels[..., 0], "prompt": ""}
    assert module_of("own_editor").edit(pixels, value=1.0, **options) is pixels


def tiny_pipeline(folder):
    """InstructPix2Pix with random weights, a few channels wide."""
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    words = ["<|startoftext|>", "<|endoftext|>", *(chr(place) for place in range(97, 123))]
    words += [f"{letter}</w>" for letter in words[2:]]
    (folder / "vocab.json").write_text(json.dumps({word: place for place, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    files = folder / "vocab.json", folder / "merges.txt"
    sizes = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    text = transformers.CLIPTextConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=37, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=77, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    return diffusers.StableDiffusionInstructPix2PixPipeline(
        unet=diffusers.UNet2DConditionModel(
            **sizes, sample_size=32, in_channels=8, out_channels=4, cross_attention_dim=32, attention_head_dim=8,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        ),
        vae=diffusers.AutoencoderKL(**sizes, **blocks, latent_channels=4),
        text_encoder=transformers.CLIPTextModel(text),
        tokenizer=transformers.CLIPTokenizer(*map(str, files), model_max_length=77),
        scheduler=diffusers.EulerAncestralDiscreteScheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_diffusion_editor_of_the_page_edits_by_prompt(tmp_path, monkeypatch):
    pipeline = tiny_pipeline(tmp_path)
    module = module_of("diffusion_editor")
    monkeypatch.setitem(sys.modules, "diffusion_editor", module)
    pipeline.set_progress_bar_config(disable=True)
    short = lambda prompt, **options: pipeline(prompt, **options | {"num_inference_steps": 2})  # noqa: E731
    monkeypatch.setattr(module, "pipeline", lambda: short)
    pixels = np.random.default_rng(0).integers(0, 256, (80, 64, 3), dtype=np.uint8)
    given = {"attribute": "gender", "poles": ("feminine", "masculine"), "mask": pixels[..., 0], "prompt": "make more"}
    low, high = (module.edit(pixels, value=value, **given) for value in (-1.0, 2.0))
    assert low.shape == high.shape == pixels.shape
    assert low.dtype == np.uint8
    assert (low != high).any()
