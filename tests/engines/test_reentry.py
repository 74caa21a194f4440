"""Python that runs in the middle of a call, a progress callback or a signal handler, may explain rows itself.

It does so on the very thread that the long call works on, so the two must not share working memory. The
answers are the same bits as those of a call that nobody disturbs.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from strategies import chain, copies, random_ensemble

import linear_treeshap
from linear_treeshap import TreeEnsemble, TreeExplainer, global_interactions

Array = npt.NDArray[Any]
Call = Callable[..., Array]

ENGINES = Path(linear_treeshap.__file__).parent / "engines"

#: So often Python must have run in the middle of a call before its answer says anything.
N_DISTURBED = 2


def forest(n_features: int) -> TreeEnsemble:
    """Bushes, whose leaves fit into tables of background rows."""
    rng = np.random.default_rng(n_features)
    return random_ensemble(
        rng, n_features=n_features, n_trees=40, max_depth=6, max_leaves=n_features * 5, n_outputs=2
    )


def long_paths(n_features: int) -> TreeEnsemble:
    """Long paths, whose leaves do not: they are scanned."""
    return copies(chain(np.random.default_rng(n_features).permutation(n_features).tolist()), n_features // 5)


def calls(ensemble: TreeEnsemble, *, n_rows: int, deep: bool) -> dict[str, Call]:
    """What can be asked of an ensemble, each as a function of its options."""
    rng = np.random.default_rng(1)
    X, background = (rng.normal(size=(n, ensemble.n_features)) for n in (n_rows, 100))
    few = X[: n_rows // 4]
    path = TreeExplainer(ensemble, n_jobs=1)
    against = TreeExplainer(ensemble, background, n_jobs=1)

    def add_up() -> Array:
        found = global_interactions(path, few, 3)
        return np.array([found.mean, found.mean_abs])

    return {
        "values": lambda **options: path.shap_values(X, check_additivity=False, **options),
        "pairs": lambda **options: path.shap_interaction_values(few, **options),
        "pairs, float32": lambda **options: path.shap_interaction_values(few, dtype="float32", **options),
        "sets": lambda **options: path.interactions(few, 3, **options).values,
        "sets, float32": lambda **options: path.interactions(few, 3, dtype="float32", **options).values,
        "sums of sets": add_up,
        f"background, {'scan' if deep else 'tables'}": lambda **options: against.shap_values(
            X, check_additivity=False, **options
        ),
        f"background pairs, {'scan' if deep else 'tables'}": lambda **options: (
            against.shap_interaction_values(X[:100] if deep else few, **options)
        ),
    }


CALLS = calls(forest(8), n_rows=300_000, deep=False)
DEEP = calls(long_paths(30), n_rows=60_000, deep=True)
LONG_CALLS = {**CALLS, **{name: call for name, call in DEEP.items() if name not in CALLS}}


@pytest.fixture(scope="module")
def larger() -> dict[str, Call]:
    """The same calls for larger models, for which the memory of the long call is too small."""
    return {
        **calls(forest(20), n_rows=1000, deep=False),
        **calls(long_paths(45), n_rows=700, deep=True),
    }


@pytest.mark.parametrize(
    "name", [name for name in LONG_CALLS if name != "sums of sets" and "background pairs" not in name]
)
def test_a_progress_callback_may_explain(name: str, larger: dict[str, Call]) -> None:
    call, shares = LONG_CALLS[name], list[float]()
    expected = call().tobytes()

    def tell(share: float) -> None:
        if share < 1 and len(shares) < N_DISTURBED:
            larger[name]()
            shares.append(share)

    for _ in range(100):  # a quick machine may be done before it looks up
        assert call(progress=tell).tobytes() == expected
        if len(shares) >= N_DISTURBED:
            return
    pytest.fail("the call was never disturbed")


@pytest.fixture
def alarm() -> Iterator[Callable[[Callable[[FrameType | None], None]], None]]:
    """Have a signal handler call a function, with what Python was doing, every hundredth of a second."""
    before = signal.getsignal(signal.SIGALRM)

    def ring(handler: Callable[[FrameType | None], None]) -> None:
        signal.signal(signal.SIGALRM, lambda _, frame: handler(frame))
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)

    yield ring
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such timers")
@pytest.mark.parametrize("name", LONG_CALLS)
def test_a_signal_handler_may_explain(name: str, larger: dict[str, Call], alarm: Any) -> None:
    call, n_disturbed, is_busy = LONG_CALLS[name], 0, False
    expected = call().tobytes()

    def ring(frame: FrameType | None) -> None:
        nonlocal n_disturbed, is_busy
        if is_busy or n_disturbed == N_DISTURBED or frame is None:
            return
        if Path(frame.f_code.co_filename).parent != ENGINES:  # only there does Python wait for a long call
            return
        is_busy = True
        larger[name]()
        n_disturbed, is_busy = n_disturbed + 1, False

    alarm(ring)
    while n_disturbed < N_DISTURBED:
        assert call().tobytes() == expected
