"""A release before it is one: `make release-check`, or `python -m release.check STEP …` for some of it.

In come a checkout and the interpreters at hand; out come wheels in `build/release/wheels`, made from the
source distribution without a network, and a line for each thing that was seen. It ends at a wheel that
differs from one built elsewhere, is too large, needs more of a system than it says, or does not work where
there is no compiler.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["STEPS"]

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "release"
WHEELS = BUILD / "wheels"
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
#: One wheel is for this and all later ones.
STABLE = "3.12"
MAX_BYTES = 5 << 20

#: What needs no library of models; the whole suite runs in `make test`.
TESTS = (
    "engines/test_kernel.py", "engines/test_background.py", "engines/test_interactions.py",
    "engines/test_python_threads.py", "reference", "storage/test_kept_files.py",
)  # fmt: skip

README_EXAMPLE = """
import re, sys, sysconfig
from pathlib import Path
import linear_treeshap
assert Path(linear_treeshap.__file__).is_relative_to(sysconfig.get_path("platlib")), linear_treeshap.__file__
exec(re.search(r"```python\\n(.*?)```", Path(sys.argv[1]).read_text(encoding="utf-8"), re.DOTALL)[1])
assert abs(explanation.values.sum(1) + explanation.base_values - model.predict(X)).max() < 1e-9
"""


def main(steps: list[str]) -> None:
    os.environ["SOURCE_DATE_EPOCH"] = _output(["git", "log", "-1", "--format=%ct"]).strip()
    for step in steps or STEPS:
        STEPS[step]()


# -- the steps ----------------------------------------------------------------------------------------------


def wheels() -> None:
    """A wheel for each interpreter that needs one, from the source distribution alone."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    source = _source()
    for version, python in _builders().items():
        wheel = _repaired(_wheel(python, source, BUILD / "one", WHEELS / "plain"))
        if wheel.stat().st_size > MAX_BYTES:
            sys.exit(f"{wheel.name} has {wheel.stat().st_size} bytes, more than {MAX_BYTES}")
        if "-abi3-" in wheel.name:
            _run([_tool("abi3audit"), "--strict", str(wheel)])
        elif _number(version) >= _number(STABLE):
            sys.exit(f"{wheel.name} is for one version only: the module was not built for the stable ABI")
        _say(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")


def twice() -> None:
    """The wheels once more, in another folder: the same bytes."""
    for python in _builders().values():
        again = _wheel(python, _source(), BUILD / "a folder with another name", BUILD / "again")
        first = WHEELS / "plain" / again.name
        if not first.exists():
            sys.exit(f"{first.name} is not there to compare with: let the step wheels come before this one.")
        if _sha256(first) != _sha256(again):
            sys.exit(f"{again.name}: two builds differ in {', '.join(_differing(first, again))}")
        _say(f"{again.name}: built twice, {_sha256(again)}")


def installed() -> None:
    """Each wheel on each interpreter, in a root that has no compiler, no headers and no network."""
    for version, python in _interpreters().items():
        folder = _environment(f"installed-{version}", python)
        _pip(folder, "--only-binary", ":all:", "numpy", "narwhals", "pytest", "hypothesis", "pandas")
        _pip(folder, "--only-binary", ":all:", "scikit-learn", "bokeh")
        ours = ("--no-index", "--no-deps", "--force-reinstall", f"--find-links={WHEELS}")
        _pip(folder, *ours, "linear-treeshap")
        checked = folder / "checked"  # without `src`: what is imported there is what was installed
        shutil.rmtree(checked, ignore_errors=True)
        checked.mkdir()
        for name in ("tests", "README.md", "pyproject.toml"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, checked / name)
        bare = _bare_root(folder, checked)
        here = str(folder / "bin" / "python")
        _run([*bare, here, "-W", "error", "-c", README_EXAMPLE, "README.md"], cwd=checked)
        tests = [f"tests/{name}" for name in TESTS]
        _run(
            [*bare, here, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", *tests],
            cwd=checked,
        )
        where = "in a bare root" if bare else "as installed"
        _say(f"Python {version}: the README's example and the tests, {where}")


def systems() -> None:
    """The core on other systems."""
    python = _environment("compilers", sys.executable, "compilers.txt") / "bin" / "python"
    path = f"{python.parent}:{os.environ['PATH']}"
    command = [str(python), "-m", "release.systems"]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"PATH": path}, check=True)


def audit() -> None:
    """Are there known holes in what builds it, and in what it needs?"""
    for requirements in ("build.txt", "tools.txt", "compilers.txt"):
        command = [_tool("pip-audit"), "--require-hashes", "--disable-pip", "-r", f"release/{requirements}"]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        said = found.stdout + found.stderr
        # An index that does not serve what is known of holes makes pip-audit skip packages, and succeed.
        skipped = said.count("could not be audited")
        if skipped or "ConnectionError" in said or "Max retries" in said:
            _say(f"{requirements}: NOT audited ({skipped or 'all'} packages): the database cannot be reached")
        elif found.returncode != 0:
            sys.exit(said)
        else:
            _say(f"{requirements}: no known holes")


def contents() -> None:
    """What is in it (SBOM)."""
    target = BUILD / "sbom.cdx.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [_tool("cyclonedx-py"), "requirements", "release/build.txt", "--pyproject", "pyproject.toml"]
    _run([*command, "--output-reproducible", "-o", str(target)])
    _say(f"{target.relative_to(ROOT)}: {target.stat().st_size} bytes")


STEPS: dict[str, Callable[[], None]] = {
    "wheels": wheels,
    "installed": installed,
    "contents": contents,
    "twice": twice,
    "systems": systems,
    "audit": audit,
}


# -- how they do it -----------------------------------------------------------------------------------------


def _interpreters() -> dict[str, str]:
    """Of each version one that can make environments, if there is one; the oldest first."""
    out = {}
    for version in VERSIONS:
        pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        for candidate in (shutil.which(f"python{version}"), *map(str, pyenv)):
            if candidate and _is_usable(candidate, version):
                out[version] = candidate
                break
    wanted = os.environ.get("VERSIONS", "").split()
    return {version: python for version, python in out.items() if not wanted or version in wanted}


def _builders() -> dict[str, str]:
    """Those that a wheel is built with: of all that the stable ABI is for, the oldest."""
    found = _interpreters()
    stable = [version for version in found if _number(version) >= _number(STABLE)]
    return {version: python for version, python in found.items() if version not in stable[1:]}


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _is_usable(python: str, version: str) -> bool:
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return found.returncode == 0 and found.stdout.strip() == version


def _environment(name: str, python: str, *requirements: str) -> Path:
    """An environment in .venv, with what is pinned by its hash in the files of `requirements`."""
    folder = ROOT / ".venv" / f"release-{name}"
    if not (folder / "bin" / "python").exists():
        _run([python, "-m", "venv", str(folder)])
    for file in requirements:
        _pip(folder, "--require-hashes", "--only-binary", ":all:", "-r", str(ROOT / "release" / file))
    return folder


def _pip(folder: Path, *arguments: str) -> None:
    _run(
        [
            str(folder / "bin" / "python"),
            "-m",
            "pip",
            "-q",
            "--disable-pip-version-check",
            "install",
            *arguments,
        ]
    )


def _tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _source() -> Path:
    """The source distribution, of what git has: nothing that lies about gets in."""
    folder = BUILD / "source"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _run(["git", "archive", "--format=tar", "-o", str(folder / "checkout.tar"), "HEAD"])
    with tarfile.open(folder / "checkout.tar") as archive:
        archive.extractall(folder / "checkout", filter="data")
    builder = _environment("builder", sys.executable, "build.txt", "tools.txt")
    python = str(builder / "bin" / "python")
    _run([python, "-m", "build", "--sdist", "--no-isolation", "-o", str(folder), str(folder / "checkout")])
    return next(folder.glob("*.tar.gz"))


def _wheel(python: str, source: Path, folder: Path, target: Path) -> Path:
    """Built in `folder`, without a network."""
    version = _output([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()
    environment = _environment(f"builds-{version}", python, "build.txt")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    new = folder / "wheels"
    command = [
        str(environment / "bin" / "python"),
        "-m",
        "pip",
        "-q",
        "wheel",
        "--no-build-isolation",
        "--no-deps",
    ]
    command += [
        "--no-index",
        "--config-settings=cmake.define.LTS_WERROR=ON",  # which older releases of pip do not know as -C
        "-w",
        str(new),
        str(next(folder.glob("linear*"))),
    ]
    path = f"{environment / 'bin'}:{os.environ['PATH']}"
    _run([*_without_network(), *command], env=os.environ | {"PATH": path})
    target.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(next(new.glob("*.whl")), target / next(new.glob("*.whl")).name))


def _repaired(wheel: Path) -> Path:
    """As auditwheel tags it; no library is copied in, because only those of every system are used."""
    _run([_tool("auditwheel"), "repair", "--plat", "auto", "-w", str(WHEELS), str(wheel)])
    found = next(WHEELS.glob("-".join(wheel.name.split("-")[:4]) + "-*manylinux*.whl"))
    with zipfile.ZipFile(found) as archive:
        libraries = [name for name in archive.namelist() if ".libs/" in name]
    if libraries:
        sys.exit(f"{found.name} had to take along {libraries}")
    return found


def _without_network() -> list[str]:
    command = ["unshare", "--net", "--map-root-user"]
    is_allowed = (
        shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0
    )
    if not is_allowed:
        _say("the network is not cut off: `unshare --net` may not be used here")
    return command if is_allowed else []


def _bare_root(folder: Path, writable: Path) -> list[str]:
    """A root of an environment, its interpreter and the system's libraries: no compiler, no network."""
    if shutil.which("bwrap") is None:
        _say("not in a bare root: bwrap (bubblewrap) is not at hand")
        return []
    python = str(folder / "bin" / "python")
    prefix = Path(_output([python, "-c", "import sys; print(sys.base_prefix)"]).strip())
    out = ["bwrap", "--unshare-net", "--unshare-user", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for link in filter(Path.is_symlink, Path("/").glob("lib*")):
        out += ["--symlink", os.readlink(link), str(link)]
    libraries = ["/etc/ld.so.cache", "/usr/lib64", *Path("/usr/lib").glob("*-linux-*")]
    for path in (folder, prefix / "bin", prefix / "lib", *libraries):
        out += ["--ro-bind-try", str(path), str(path)]
    for name, value in (("PATH", folder / "bin"), ("HOME", "/tmp"), ("PYTHONDONTWRITEBYTECODE", "1")):
        out += ["--setenv", name, str(value)]
    return [*out, "--bind", str(writable), str(writable), "--chdir", str(writable)]


def _differing(one: Path, other: Path) -> list[str]:
    with zipfile.ZipFile(one) as a, zipfile.ZipFile(other) as b:
        names = sorted({*a.namelist(), *b.namelist()})
        return [
            name
            for name in names
            if name not in a.namelist() or name not in b.namelist() or a.read(name) != b.read(name)
        ] or ["how they are packed"]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _run(command: list[str], env: dict[str, str] | None = None, cwd: Path = ROOT) -> None:
    """Says something only if it fails."""
    result = subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if result.returncode != 0:
        sys.exit(f"{result.stdout}{result.stderr}\nfailed: {' '.join(command)}")


def _output(command: list[str]) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
