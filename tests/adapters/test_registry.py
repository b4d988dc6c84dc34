import subprocess
import sys
from pathlib import Path

import pytest

from adapters import registry
from adapters.base import AdapterError

THIRD_PARTY = '''
from adapters.base import Capabilities, Label, RawAnswer


class Brightness:
    """How bright the first byte is."""

    name = "brightness"
    model = "1"
    capabilities = Capabilities(labels=("bright",))

    def __init__(self, *, gain: float = 1.0):
        self.gain = gain
        self.parameters = {"gain": gain}

    def send(self, images):
        return [RawAnswer(body=bytes([image[0]])) for image in images]

    def parse(self, answer):
        return [Label("bright", min(1.0, self.gain * answer.body[0] / 255))]
'''


@pytest.fixture
def installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `pip install` of a package with an adapter leaves behind."""
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
def test_another_package_adds_an_adapter() -> None:
    adapter = registry.create("brightness", {"gain": "2"})
    assert adapter.parse(adapter.send([bytes([51])])[0])[0].score == pytest.approx(0.4)
    row = {row.name: row for row in registry.describe()}["brightness"]
    assert (row.summary, row.remote, row.labels, row.options) == ("How bright the first byte is.", False, 1, ("gain",))


@pytest.mark.usefixtures("installed_package")
def test_a_missing_package_is_named_with_its_cure_and_hides_no_other_adapter() -> None:
    with pytest.raises(AdapterError, match="pip install a_package_nobody_has"):
        registry.create("needy")
    with pytest.raises(AdapterError, match="brightness_adapter:Nothing names nothing"):
        registry.create("wrong")
    problems = {row.name: row.problem for row in registry.describe()}
    assert "a_package_nobody_has" in (problems["needy"] or "")
    assert problems["opencv"] is None


def test_every_adapter_is_described_in_one_line() -> None:
    for row in registry.describe():
        assert row.summary
        assert "\n" not in row.summary


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("opncv", {}, r"no adapter 'opncv'. Did you mean 'opencv'\? Known: .*, opencv, planted, python"),
        ("opencv:x", {}, "takes nothing after the colon"),
        ("opencv", {"size": 1}, "no option 'size'. Its options: short_side, smallest"),
        ("opencv", {"short_side": "wide"}, "option 'short_side'.*integer"),
        ("opencv", {"short_side": 3}, "short_side.*24-1024"),
        ("opencv", {"smallest": 0}, "smallest.*0-1"),
        ("face-attributes", {"smallest_face": 2}, "smallest_face.*0-1"),
        ("python", {}, "write python:..."),
        ("python:module", {}, "write python:module:function"),
        ("planted", {}, "option 'run': Field required"),
        ("planted", {"run": ".", "labels": {"a": {"rate": 0.5}}}, "'labels.a.slope': Field required"),
        ("planted", {"run": ".", "labels": {"a": {"rate": 0.5, "slope": 0, "slop": 1}}}, "'labels.a.slop'"),
    ],
)
def test_wrong_names_and_options_are_explained(spec: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(AdapterError, match=message):
        registry.create(spec, options)


def test_listing_and_describing_load_nothing_heavy() -> None:
    code = (
        "import sys; from adapters import registry; registry.names(); registry.describe();"
        "print(sorted({'torch', 'cv2', 'numpy', 'pandas', 'pyarrow', 'PIL', 'facenet_pytorch'} & set(sys.modules)))"
    )
    # The child sees the same packages as this process.
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == "[]"
