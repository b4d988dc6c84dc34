"""The package structure of docs/architecture.md: which packages exist, and which may import which."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# A package imports only packages above it in this list. `api` and `pipeline` itself come last.
PACKAGES = (
    "config", "run", "photos", "counterfactuals", "querying", "collection", "statistics", "review", "analyses",
    "report", "stages", "dataset", "cli",
)  # fmt: skip
INDEPENDENT = ("adapters", "models")  # do not import `pipeline`
OWN = ("pipeline", *INDEPENDENT)
HEAVY = {"torch", "torchvision", "facenet_pytorch", "adapters"}


def modules(package: str) -> dict[str, ast.Module]:
    """Module name -> its syntax tree."""
    files = (ROOT / package).rglob("*.py")
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(file.read_text())
        for file in files
    }


def imported(tree: ast.Module) -> set[str]:
    """All imports of a module, including those inside functions and for type checking."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def top_of(name: str) -> str:
    return name.partition(".")[0]


def package_of(name: str) -> str | None:
    """The package of `pipeline` that a module belongs to; None for `api`, `pipeline` itself and other modules."""
    parts = name.split(".")
    return parts[1] if parts[0] == "pipeline" and len(parts) > 1 and parts[1] in PACKAGES else None


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    return {name: imported(tree) for package in OWN for name, tree in modules(package).items()}


def test_pipeline_has_only_the_listed_packages():
    assert {file.name for file in (ROOT / "pipeline").glob("*.py")} == {"__init__.py", "api.py"}
    folders = {folder.name for folder in (ROOT / "pipeline").iterdir() if (folder / "__init__.py").exists()}
    assert folders == set(PACKAGES)


def assert_no_import(imports, forbidden):
    """Assert that ``forbidden`` is false of every import, given as (module, imported name)."""
    wrong = [
        f"{name} imports {target}" for name, targets in imports.items() for target in targets if forbidden(name, target)
    ]
    assert not wrong, "\n".join(sorted(wrong))


@pytest.mark.parametrize("package", INDEPENDENT)
def test_adapters_and_models_do_not_import_the_pipeline(imports, package):
    assert_no_import(imports, lambda name, target: (top_of(name), top_of(target)) == (package, "pipeline"))


def test_packages_import_only_packages_above_them(imports):
    def is_below(name, target):
        own, other = package_of(name), package_of(target)
        return own and other and PACKAGES.index(other) > PACKAGES.index(own)

    assert_no_import(imports, is_below)


def test_modules_have_no_circular_imports(imports):
    dependencies = {  # the ``__init__`` of a module's own packages does not count
        name: {target for target in targets if target in imports and not f"{name}.".startswith(f"{target}.")}
        for name, targets in imports.items()
    }
    TopologicalSorter(dependencies).prepare()  # CycleError names the modules


def test_no_package_imports_the_api(imports):
    assert_no_import(imports, lambda name, target: package_of(name) and target == "pipeline.api")


@pytest.mark.parametrize("package", ["statistics", "report"])
def test_statistics_and_report_import_no_torch_and_no_adapter(imports, package):
    assert_no_import(imports, lambda name, target: package_of(name) == package and top_of(target) in HEAVY)


def test_private_names_are_not_imported(imports):
    def is_private(name, target):
        return top_of(target) in OWN and target.split(".")[-1].startswith("_") and not target.endswith("__")

    assert_no_import(imports, is_private)


def test_every_internal_import_exists(imports):
    packages = {".".join(name.split(".")[:depth]) for name in imports for depth in (1, 2, 3)}

    def is_missing(name, target):
        known = target in packages or target in imports or target.rpartition(".")[0] in imports
        return top_of(target) in OWN and not known

    assert_no_import(imports, is_missing)
