"""The files that say what is installed agree with one another and with the code.

They are pyproject.toml (ranges), requirements.lock (exact versions) and environment.yml.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from importlib import metadata

import pytest
import yaml
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import sflkit


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def platform(python=None, system=None):
    """The markers' environment: this one, or another Python or system."""
    other = {"python_version": python, "python_full_version": f"{python}.0"} if python else {}
    names = {"Linux": "linux", "Darwin": "darwin"}
    return (
        default_environment()
        | other
        | ({"platform_system": system, "sys_platform": names[system]} if system else {})
    )


@pytest.fixture(scope="module")
def pins(root):
    """Version and marker (None: everywhere) of each package in requirements.lock."""
    lines = [
        line.strip()
        for line in (root / "requirements.lock").read_text(encoding="utf-8").splitlines()
    ]
    found = {}
    for line in filter(lambda line: line and not line.startswith("#"), lines):
        # exact, no build tag, no address, no option
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)(?: ; (.+))?", line)
        assert match, (
            f"requirements.lock: {line!r} must read name==version or name==version ; marker"
        )
        name = canonicalize_name(match[1])
        assert name not in found, f"requirements.lock: {name} is there twice"
        found[name] = Version(match[2]), Marker(match[3]) if match[3] else None
    return found


def valid(pins, environment):
    return {
        name: version
        for name, (version, marker) in pins.items()
        if marker is None or marker.evaluate(environment)
    }


@pytest.fixture(scope="module")
def lock(pins):
    return valid(pins, platform())


def declared(project, *extras):
    texts = project["dependencies"] + [
        text for extra in extras for text in project["optional-dependencies"][extra]
    ]
    return [Requirement(text) for text in texts]


def test_the_lock_lies_inside_the_ranges(project, lock):
    for requirement in declared(project, "lab", "test", "docs"):
        assert requirement.specifier, f"{requirement} needs a range"
        version = lock.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in requirements.lock"
        assert version in requirement.specifier, f"{requirement} does not allow {version}"


@pytest.mark.parametrize("system", ["Linux", "Darwin"])
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_lock_is_complete_on_every_platform(project, pins, python, system):
    environment = platform(python, system)
    assert _needed(project, environment) - set(valid(pins, environment)) == set()


def _needed(project, environment):
    """Return the names of all packages that the project needs, directly or by another one.

    CUDA and triton wheels are left out, since they come with torch's build and not with the lock.
    """
    todo, seen = [*declared(project, "lab", "test", "docs"), Requirement("setuptools")], set()
    while todo:
        requirement = todo.pop()
        name, extras = canonicalize_name(requirement.name), tuple(sorted(requirement.extras))
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            texts = () if _with_torch(name) else metadata.requires(name) or ()
        except metadata.PackageNotFoundError:
            continue  # wanted on another platform only: what it needs is not known here
        for below in map(Requirement, texts):
            if below.marker is None or any(
                below.marker.evaluate(environment | {"extra": extra}) for extra in extras or ("",)
            ):
                todo.append(below)
    return {name for name, _ in seen if not _with_torch(name)}


def _with_torch(name):
    return name == "triton" or name.startswith(("nvidia-", "cuda-"))


def test_what_is_installed_is_what_is_locked(lock):
    for name, version in lock.items():
        assert Version(metadata.version(name).split("+")[0]) == version, name


def test_environment_takes_python_and_the_lock(root, project):
    environment = yaml.safe_load((root / "environment.yml").read_text(encoding="utf-8"))
    *conda, pip = environment["dependencies"]
    assert conda == ["python =3.11", "pip"] and "3.11" in SpecifierSet(project["requires-python"])
    index, *packages = pip["pip"]
    assert index == "--extra-index-url https://download.pytorch.org/whl/cpu", "no CUDA"
    assert packages == ["-r requirements.lock", "-e .", "-e companion"]


def test_binder_starts_with_the_lab_s_configuration(root):
    command = [str(root / "start"), "printenv", "JUPYTER_CONFIG_PATH"]
    found = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    assert found.strip().split(":")[0] == str(root / "docs" / "lab")


def test_the_version_is_one(root):
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == sflkit.__version__ == metadata.version("sflkit")
    assert f"version = {{{sflkit.__version__}}}" in (root / "README.md").read_text(encoding="utf-8")
    version = Version(sflkit.__version__)
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    top = re.search(r"^## (.+)$", changes, re.MULTILINE)[1]
    assert top == version.base_version + " (unreleased)" * version.is_devrelease


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("sflkit", ()),
        ("companion", ("lab",)),
        ("docs", ("lab", "docs")),
        ("tests", ("lab", "test", "docs", "browser")),
    ],
)
def test_every_import_is_declared(root, project, folder, extras):
    known = {canonicalize_name(requirement.name) for requirement in declared(project, *extras)}
    # distributed is dask[distributed]; the site lies in the clone
    known |= {"sflkit", "sflkit-companion", "distributed", "docs"}
    providers = metadata.packages_distributions()
    for path in (root / folder).rglob("*.py"):
        if "bench" in path.parts:
            continue  # its peers are the extra `bench`
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for name in (dotted.split(".")[0] for dotted in names):
                assert known & {canonicalize_name(p) for p in providers.get(name, known)}, (
                    f"{path.name} imports {name}"
                )
