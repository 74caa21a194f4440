"""What a release is made with is pinned, and what says the same thing twice agrees."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from release import check, version  # noqa: E402


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def declared(pattern: str) -> str:
    found = re.search(pattern, read("pyproject.toml"), re.MULTILINE)
    assert found is not None
    return found[1]


def test_a_tag_names_the_version_that_is_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A section of the changelog that is still unreleased is not a version."""
    monkeypatch.setattr(version, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.3\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [1.2.3] 2026-11-16\n\n## [1.2.2] 2026-10-01\n")
    assert version.mistakes("v1.2.3") == []
    assert len(version.mistakes("v1.2.4")) == 3
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased] 1.2.3\n\n## [1.2.2] 2026-10-01\n")
    assert version.mistakes("v1.2.3") == ["CHANGELOG.md has 1.2.2, and the tag is v1.2.3"]


def test_what_is_in_it_can_be_asked_for_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No other step has made the folder yet."""
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "BUILD", tmp_path / "build" / "release")
    monkeypatch.setattr(check, "_run", lambda command: Path(command[-1]).write_text("{}"))
    check.STEPS["contents"]()
    assert (tmp_path / "build" / "release" / "sbom.cdx.json").exists()


@pytest.mark.parametrize("name", ["build", "tools", "compilers", "wheels"])
def test_tools_are_pinned_by_their_hashes(name: str) -> None:
    entries = re.split(r"\n(?=\S)", read(f"release/{name}.txt").strip())
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9.-]+==[^ ]+", entry), entry
        assert "--hash=sha256:" in entry, entry


def test_what_builds_a_release_is_what_the_package_asks_for() -> None:
    pinned = set(re.findall(r"^([a-z0-9.-]+)==", read("release/build.txt"), re.MULTILINE))
    assert set(re.findall(r'"([a-z-]+)>=', declared(r"^requires = \[(.*)\]$"))) <= pinned


@pytest.mark.skipif(not (ROOT / ".github").exists(), reason="the source distribution has no workflows")
def test_actions_are_pinned_to_commits() -> None:
    """A tag of somebody else's may be moved to anything."""
    used = re.findall(r"uses: (\S+)", read(".github/workflows/release.yml"))
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used)


def test_the_recipe_of_conda_is_that_of_the_package() -> None:
    recipe = read("release/conda/recipe.yaml")
    assert f"version: {declared(r'^version = .(.+).$')}\n" in recipe
    for requirement in re.findall(r'"([^"]+)"', declared(r"^dependencies = \[(.*)\]$")):
        name, _, least = requirement.partition(">=")
        assert f"    - {name} >={least}\n" in recipe
