"""Which engine explains what, and where: the one place where one is chosen."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..errors import MissingDependencyError
from ..model.ensemble import TreeEnsemble, require_numbers
from ..model.joint_links import JointLink
from ..model.links import Link
from ..players.players import Players
from .background import BackgroundEngine
from .background_rows import Background
from .contract import Engine
from .divided import DividedEngine
from .indices import Index
from .joint import JointEngine
from .lines import LinesEngine
from .mixed import MixedEngine
from .program import Program
from .raw import raw_engine
from .rescaled import RescaledEngine
from .values import ValueEngine

if TYPE_CHECKING:
    from .cuda.device import Device

__all__ = ["engine_for"]

_LOG = logging.getLogger("linear_treeshap")

#: Rows times leaves: with fewer, device="auto" is the processor, which is done while a GPU is still being
#: asked.
_WORTH_A_GPU = 1 << 22


def engine_for(
    ensemble: TreeEnsemble,
    players: Players,
    index: Index,
    *,
    background: Background | None,
    link: Link | JointLink | None,
    n_jobs: int | None,
    device: str = "cpu",
    divided: tuple[tuple[int, ...], ...] = (),
) -> Engine:
    """Path-dependent values without a ``background``, those of raw outputs without a ``link``.

    ``divided`` are the players among whom each of the last players, combinations, is divided.
    """
    if divided:
        whole = engine_for(
            ensemble, players, index, background=background, link=link, n_jobs=n_jobs, device=device
        )
        return DividedEngine(whole, divided)
    program = Program(ensemble, players=players, index=index)
    if background is None:
        require_numbers(ensemble)
        return _on_device(ValueEngine(program), device)
    if link is None:
        return _on_device(raw_engine(program, background, n_jobs=n_jobs), device)
    _leave_to_the_processor("Functions of outputs", device)
    if isinstance(link, JointLink):
        return JointEngine(program, background, link, n_jobs=n_jobs)
    return RescaledEngine(program, background, link, n_jobs=n_jobs)


def _on_device(processor: ValueEngine | BackgroundEngine | LinesEngine | MixedEngine, device: str) -> Engine:
    """The same values on another device; "auto" is a GPU where there is one, and enough rows."""
    if device == "cpu":
        return processor
    if isinstance(processor, (LinesEngine, MixedEngine)):
        _leave_to_the_processor("Leaves that are lines, and statistics of mixed rows", device)
        return processor
    from .cuda.background import TableEngine  # not for those who have no use for it
    from .cuda.engine import DeviceEngine, PathEngine
    from .cuda.gpu import find_gpu

    def on(gpu: Device, **options: int) -> DeviceEngine:
        if isinstance(processor, ValueEngine):
            return PathEngine(processor, gpu, **options)
        return TableEngine(processor, gpu, **options)

    if device != "auto":
        return on(find_gpu(device))
    try:
        return on(find_gpu("cuda"), min_work=_WORTH_A_GPU)
    except MissingDependencyError as error:
        _LOG.info("device='auto' is the processor: %s", error)
        return processor


def _leave_to_the_processor(what: str, device: str) -> None:
    """Say so, if a GPU was asked for: it has to be there all the same."""
    if device not in ("cpu", "auto"):
        from .cuda.gpu import find_gpu

        find_gpu(device)
        _LOG.info("%s against background rows are not computed on a GPU yet: the processor does.", what)
