import subprocess
import sys
from pathlib import Path

import pytest

from adapters import registry
from adapters.base import AdapterError

THIRD_PARTY = '''
from pydantic import Field

from adapters.base import Capabilities, Label, RawAnswer
from adapters.options import AdapterOptions


class Brightness:
    """How bright the first byte is."""

    name = "brightness"
    model = "1"
    capabilities = Capabilities(labels=("bright",))

    class Options(AdapterOptions):
        gain: float = Field(1.0, gt=0, description="what brightness is multiplied with.")

    def __init__(self, options: Options):
        self.gain = options.gain
        self.parameters = {"gain": options.gain}

    def send(self, images):
        return [RawAnswer(body=bytes([image[0]])) for image in images]

    def parse(self, answer):
        return [Label("bright", min(1.0, self.gain * answer.body[0] / 255))]
'''


@pytest.fixture
def installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that provides an adapter."""
    (tmp_path / "brightness_adapter.py").write_text(THIRD_PARTY)
    record = tmp_path / "brightness_adapter-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: brightness-adapter\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(
        "[counterslope.adapters]\n"
        "brightness = brightness_adapter:Brightness\n"
        "needy = needy_adapter:Needy\n"
        "wrong = brightness_adapter:Nothing\n"
    )
    (tmp_path / "needy_adapter.py").write_text("import a_package_nobody_has\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("installed_package")
def test_installed_package_adds_an_adapter():
    adapter = registry.create("brightness", {"gain": "2"})
    assert adapter.parse(adapter.send([bytes([51])])[0])[0].score == pytest.approx(0.4)
    row = registry.describe("brightness")
    assert row.summary == "How bright the first byte is."
    assert (row.capabilities.remote, row.capabilities.labels) == (False, ("bright",))
    assert [(option.name, option.kind, option.default) for option in row.options] == [
        ("gain", "number more than 0", "1.0")
    ]


@pytest.mark.usefixtures("installed_package")
def test_broken_package_is_reported_and_hides_no_other_adapter():
    with pytest.raises(AdapterError, match=r"install.* a_package_nobody_has"):
        registry.create("needy")
    with pytest.raises(AdapterError, match="brightness_adapter:Nothing cannot be resolved"):
        registry.create("wrong")
    problems = {row.name: row.problem for row in registry.describe_all()}
    assert "a_package_nobody_has" in (problems["needy"] or "")
    assert problems["opencv"] is None


def test_new_adapter_needs_one_file_and_one_line(tmp_path, monkeypatch):
    (tmp_path / "toy_adapter.py").write_text(THIRD_PARTY)  # one file
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(registry.BUILT_IN, "toy", "toy_adapter:Brightness")  # one line
    assert "toy" in registry.names()
    assert registry.option_names("toy") == ("gain",)
    assert {row.name: row.problem for row in registry.describe_all()}["toy"] is None
    adapter = registry.create("toy", {"gain": 2})
    assert adapter.parse(adapter.send([bytes([51])])[0])[0].score == pytest.approx(0.4)
    with pytest.raises(AdapterError, match=r"no option 'gian'; did you mean 'gain'\?"):
        registry.create("toy", {"gian": 2})
    with pytest.raises(AdapterError, match="'toy': option 'gain' must be more than 0, not -1"):
        registry.create("toy", {"gain": -1})


def test_every_adapter_has_a_one_line_summary():
    for row in registry.describe_all():
        assert row.summary
        assert "\n" not in row.summary


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("opncv", {}, r"no adapter 'opncv'; did you mean 'opencv'\? Known: .*, opencv, planted, python"),
        ("opencv:x", {}, "takes no target"),
        ("opencv", {"size": 1}, "'opencv' has no option 'size'. Its options: short_side, smallest"),
        ("opencv", {"smalest": 1}, r"no option 'smalest'; did you mean 'smallest'\?"),
        ("opencv", {"short_side": "wide"}, "'opencv': option 'short_side' must be a whole number, not 'wide'"),
        ("opencv", {"short_side": 3}, "option 'short_side' must be in 24-1024, not 3"),
        ("opencv", {"smallest": 0}, "option 'smallest' must be more than 0 and at most 1, not 0"),
        ("face-attributes", {"smallest_face": 2}, "smallest_face.*at most 1"),
        ("google", {"model": "latest"}, r"option 'model' must be builtin/stable \| builtin/latest, not 'latest'"),
        ("google", {"api_key": "x"}, "credentials are read from the environment, not from options.*info google"),
        ("openai", {"labels": ["a"], "model": "sk-0123456789abcdef0"}, "'model' contains a credential.*export MY_KEY"),
        ("google", {"target": "mine"}, "write google:mine"),
        ("watson", {}, "ended on 1 December 2021; replay:watson"),
        ("python", {}, "write python:..."),
        ("python:module", {}, "write python:module:function"),
        ("planted", {}, "option 'run' is required"),
        ("planted", {"run": ".", "labels": {"a": {"rate": 0.5}}}, "'labels.a.slope' is required"),
        (
            "planted",
            {"run": ".", "labels": {"a": {"rate": 0.5, "slope": 0, "slop": 1}}},
            "option 'labels.a.slop' is not known",
        ),
    ],
)
def test_wrong_name_or_option_is_explained(spec, options, message):
    with pytest.raises(AdapterError, match=message):
        registry.create(spec, options)


def test_listing_and_describing_import_no_heavy_package():
    code = (
        "import sys; from adapters import registry; registry.names(); registry.describe_all();"
        "print(sorted({'torch', 'cv2', 'numpy', 'pandas', 'pyarrow', 'PIL', 'facenet_pytorch'} & set(sys.modules)))"
    )
    # The child sees the same packages as this process.
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == "[]"
