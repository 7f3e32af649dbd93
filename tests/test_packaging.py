"""What would be uploaded to PyPI: the source distribution is whole, its metadata are there, a workflow tests it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import steerable

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSIONS = [
    found[1]
    for text in PROJECT["classifiers"]
    if (found := re.fullmatch(r"Programming .* :: (3\.\d+)", text)) is not None
]


def tracked() -> list[str]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this is not a checkout with git, which knows what the repository holds")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], dict[str, bytes]]:
    """The names in the source distribution, and the files of the wheel, built in a copy of the repository."""
    pytest.importorskip("setuptools", minversion="77", reason="setuptools 77 or later builds the package")
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("dist")
    for name in tracked():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name)
    code = "from setuptools import build_meta; build_meta.build_sdist({0!r}); build_meta.build_wheel({0!r})"
    subprocess.run([sys.executable, "-c", code.format(str(out))], cwd=copy, check=True, capture_output=True)
    (source,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    with tarfile.open(source) as archive:
        names = {Path(*Path(member.name).parts[1:]).as_posix() for member in archive if member.isfile()}
    with zipfile.ZipFile(wheel) as archive:
        return names, {name: archive.read(name) for name in archive.namelist()}


def test_the_source_distribution_holds_the_whole_repository(built: tuple[set[str], dict[str, bytes]]) -> None:
    names, _ = built
    assert sorted(set(tracked()) - names) == []
    made = {name for name in names if name not in ("PKG-INFO", "setup.cfg") and ".egg-info/" not in name}
    assert sorted(made - set(tracked())) == []


def test_the_wheel_holds_the_package_and_nothing_else(built: tuple[set[str], dict[str, bytes]]) -> None:
    _, files = built
    package = {name.removeprefix("src/") for name in tracked() if name.startswith("src/")}
    assert {name for name in files if ".dist-info/" not in name} == package


def test_the_metadata_are_there(built: tuple[set[str], dict[str, bytes]]) -> None:
    _, files = built
    (metadata,) = (content.decode() for name, content in files.items() if name.endswith("/METADATA"))
    for line in (
        "Name: steerable",
        "Author: The steerable developers",
        "License-Expression: Apache-2.0",
        "Requires-Python: >=3.11",
        "Description-Content-Type: text/markdown",
    ):
        assert line in metadata.splitlines()
    assert "# steerable" in metadata


def test_the_workflow_runs_targets_of_make_on_every_python_that_is_promised() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML reads the workflow")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))
    jobs = workflow["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python-version"] == VERSIONS
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (parts,) = re.findall(r"^test: (.*)$", makefile, flags=re.MULTILINE)
    commands = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    run = {found[1] for command in commands if (found := re.match(r"make (\w+)", command))}
    assert run == {*parts.split(), "browser"}


def test_the_oldest_python_that_is_promised_is_the_oldest_that_is_allowed() -> None:
    assert PROJECT["requires-python"] == f">={VERSIONS[0]}"
    minors = [int(version.removeprefix("3.")) for version in VERSIONS]
    assert sorted(minors) == minors


@pytest.mark.parametrize("apt_get", [None, "exit 100", "exit 0"])
@pytest.mark.parametrize("user", ["0", "1000"])
def test_make_goes_on_where_no_browser_can_be_installed(tmp_path: Path, apt_get: str | None, user: str) -> None:
    """Without apt-get, with one that fails, or without the rights: the browser's tests are skipped, nothing fails."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("there is no make on this machine")
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    programs = {"id": f"echo {user}", "sed": "exit 0", **({} if apt_get is None else {"apt-get": apt_get})}
    for name, line in programs.items():
        (tmp_path / name).write_text(f"#!{tmp_path / 'sh'}\n{line}\n")
        (tmp_path / name).chmod(0o755)
    command = [make, "--no-print-directory", "browser", f"SHELL={tmp_path / 'sh'}"]
    run = subprocess.run(command, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    installed = user == "0" and apt_get == "exit 0"
    assert ("the explorer's browser tests will be skipped" in run.stdout) is not installed


def test_only_make_browser_installs_a_system_package() -> None:
    """``make test`` must not change the machine unasked; continuous integration asks for the browser first."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("there is no make on this machine")

    def commands(target: str) -> str:
        return subprocess.run([make, "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "apt-get" in commands("browser")
    assert "apt-get" not in commands("test")
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert re.findall(r"^make (\w+)$", script, flags=re.MULTILINE) == ["browser", "test"]


def test_the_citation_names_this_version_and_licence() -> None:
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == steerable.__version__  # type: ignore[index]
    assert "\nlicense: Apache-2.0\n" in citation
