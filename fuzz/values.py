"""The differential fuzzer: random models, explained in every way, against the definition.

A case is judged by `judge`, which knows trees and nothing else; then every other way to ask the same (cuts,
threads, one row, float32, a saved file, a call within a call) must give the same bits. A case that fails is
made smaller while it still fails, and described.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from strategies import random_ensemble, random_rows

from linear_treeshap import AdditivityError, InputError, LinearTreeShapError, TreeExplainer
from linear_treeshap.engines.values import FEW_ROWS

from . import judge
from .cases import OUTPUTS, Case, as_dictionary, large_case, long_case, repeated, small_case
from .tally import Finding, Tally
from .worker import scratch_folder

__all__ = ["case", "examine"]

Array = npt.NDArray[Any]

#: Of the sum of absolute contributions of leaves. tests/engines/test_accuracy.py promises this for values;
#: sums over players of pairs and Bernoulli numbers stay within it. Half an ulp for each tree comes on top.
TOLERANCE = 1e-13
#: Rules of Beta Shapley have points and weights from refined eigenvalues; twenty players lose a digit. Those
#: of sizes may have weights that cancel to a thousandth.
RULE_TOLERANCE = 1e-12
#: Slopes of a function that is only given as such are differences of its values over steps of 1e-5.
OUTPUT_TOLERANCE = 1e-8
#: Both roads of the judge add in extended precision; they may differ by its rounding, of the sum of leaves.
JUDGE_TOLERANCE = 1e-16 if np.finfo(np.longdouble).eps < 1e-18 else 1e-13

#: The points 0 and 1 are so far off in sets of MAX_ORDER players, and a contribution moves by that times the
#: slope of a product of factors up to 1, one for each other player. It shows where the right number is zero.
END = 2.0**-192

#: Trees of more players are judged by leaves alone: coalitions double with each, and a case takes seconds.
MAX_PLAYERS_BY_COALITIONS = 10

#: The variable by which a user chooses an instruction set.
KERNEL_VARIABLE = "LINEAR_TREESHAP_KERNEL"
#: Shrinking takes a hundred times as long as a case: it is done for the first ones that fail a check.
_MAX_SHRINK_SECONDS = 15.0
_MAX_SHRUNK = 2
_SHRUNK: Counter[str] = Counter()

#: Leaves times rows of a call that takes longer than the 50 ms after which progress is first told.
WATCHED = {"values": 40_000_000, "pairs": 8_000_000}
#: What is explained inside of such a call: wider than what is explained outside, so that memory moves.
LARGER = random_ensemble(np.random.default_rng(0), n_features=60, n_trees=30, max_depth=12, max_leaves=80)
LARGER_ROWS = random_rows(np.random.default_rng(1), LARGER, 9)


def case(rng: np.random.Generator) -> Tally:
    """Run one random case."""
    kind = rng.random()
    made = small_case(rng) if kind < 0.8 else long_case(rng) if kind < 0.95 else large_case(rng)
    tally = examine(made)
    if tally.findings and _SHRUNK[tally.findings[0].check] < _MAX_SHRUNK:
        first = tally.findings[0]
        _SHRUNK[first.check] += 1
        least = _shrunk(made, first.check)
        again = next(f for f in examine(least).findings if f.check == first.check)
        tally.findings[0] = Finding(first.check, f"{again.what}; smallest case: {least}")
    return tally


def examine(case: Case) -> Tally:
    """Explain a case in every way, and compare."""
    tally = Tally()
    chosen = os.environ.get(KERNEL_VARIABLE, "")  # which means none
    os.environ[KERNEL_VARIABLE] = case.kernel
    try:
        explainer = _explainer(case)
        _Examination(case, explainer, tally).run()
    except LinearTreeShapError as error:
        if case.index[0] == "sizes" and isinstance(error, InputError) and "too far from" in str(error):
            tally.done("refused: weights per size that are far from any measure")
        else:
            tally.complain("valid model refused", f"{type(error).__name__}: {error}")
    except Exception as error:
        tally.complain("foreign exception", f"{type(error).__name__}: {error}")
    finally:
        os.environ[KERNEL_VARIABLE] = chosen
    return tally


def _explainer(case: Case, **options: Any) -> TreeExplainer:
    ensemble = repeated(case)
    return TreeExplainer(
        as_dictionary(ensemble) if case.is_dictionary else ensemble,
        case.background,
        "raw" if case.output is None else OUTPUTS[case.output],
        index=case.index,
        groups=case.groups,
        data_weights=case.weights,
        **{"n_jobs": 1, **options},
    )


class _Examination:
    """One case, its explainer, and all that is asked of it."""

    def __init__(self, case: Case, explainer: TreeExplainer, tally: Tally) -> None:
        self.case, self.explainer, self.tally = case, explainer, tally
        # Contributions cancel between background rows, and between the points of rules whose weights have
        # both signs: those of sizes, and of measures of more points than a path has players.
        cancels = case.background is not None or case.index[0] in ("sizes", "measure")
        self.game = judge.Game(case.ensemble, case.rows, case.player_of, case.background, cancels=cancels)
        self.weight = judge.index_weight(case.index, case.n_players)
        self.point = judge.index_point(case.index)
        self.is_long = case.ensemble.depth > 7
        self.where = "path" if case.background is None else "background"
        self.tolerance = TOLERANCE + case.ensemble.n_trees * case.times * np.finfo(np.float64).eps / 2
        if case.index[0] in ("beta", "sizes"):
            self.tolerance = RULE_TOLERANCE
        if case.output is not None:
            self.tolerance = OUTPUT_TOLERANCE
        self.shares = np.ones(self.game.shape[1], dtype=np.longdouble)
        if case.weights is not None:
            self.shares = case.weights.astype(np.longdouble)
        self.shares = self.shares / self.shares.sum()
        self.slopes = self._slopes()

    def run(self) -> None:
        values = self._values(self.case.rows)
        self._judge_values(values)
        self._same_bits("values", self._values, values)
        if self.case.output is None and (not self.is_long or self.case.n_players <= 12):
            pairs = self._pairs(self.case.rows)
            self._judge_pairs(pairs)
            self._same_bits("pairs", self._pairs, pairs)
        if self.case.background is None and (not self.is_long or self.case.n_players <= 12):
            self._judge_sets()
        self._saved(values)

    # -- what is asked ---------------------------------------------------------------------------------

    def _values(self, rows: Array, explainer: TreeExplainer | None = None, **options: Any) -> Array:
        found = (explainer or self.explainer).shap_values(rows, check_additivity=False, **options)
        return np.asarray(found).reshape(len(rows), self.case.n_players, -1)

    def _pairs(self, rows: Array, explainer: TreeExplainer | None = None, **options: Any) -> Array:
        found = (explainer or self.explainer).shap_interaction_values(rows, **options)
        return np.asarray(found).reshape(len(rows), self.case.n_players, self.case.n_players, -1)

    # -- the definition --------------------------------------------------------------------------------

    def _judge_values(self, values: Array) -> None:
        sets = self._sets([1], self.weight, self.point)
        shape = (*self.game.shape, self.case.n_players, self.case.ensemble.n_outputs)
        right, scale = np.zeros(shape, np.longdouble), np.zeros(shape, np.longdouble)
        for (player,), found in sets.items():
            right[:, :, player], scale[:, :, player] = found.value, found.scale
        slopes, steepness = self.slopes[:, :, None], np.abs(self.slopes) + self._slope_rounding()
        self._close(
            f"values, {self.where}{self._suffix}", values, right * slopes, scale * steepness[:, :, None]
        )
        expected = self.game.expected()
        if self.case.output is None:
            self.tally.close(
                f"expected value, {self.where}",
                np.atleast_1d(self.explainer.expected_value),
                self._mean(self._times(expected.value, self.case.ensemble.base_values))[0],
                self._mean(self._times(expected.scale, np.abs(self.case.ensemble.base_values)))[0],
                self.tolerance,
            )
        if self.case.index == "shapley":  # the default check must not complain
            try:
                self.explainer.shap_values(self.case.rows)
                self.tally.done("the default check of additivity")
            except AdditivityError as error:
                self.tally.complain("the default check of additivity", str(error))

    def _judge_pairs(self, pairs: Array) -> None:
        sets = self._sets([1, 2], self.weight, self.point)
        shape = (*self.game.shape, self.case.ensemble.n_outputs)
        right = judge.matrices(sets, self.case.n_players, shape)
        self._close(f"pairs, {self.where}{self._suffix}", pairs, right.value, right.scale)

    def _judge_sets(self) -> None:
        case, kind = self.case, self.case.kind or ("k-SII" if self.case.index == "shapley" else None)
        found = self.explainer.interactions(case.rows, case.order, index=case.kind)
        single = self.explainer.interactions(case.rows, case.order, index=case.kind, dtype="float32")
        with np.errstate(over="ignore", under="ignore"):
            self.tally.same_bits("same bits: sets, float32", single.values, found.values.astype(np.float32))
        right = self._right_sets(kind)
        if missing := set(right) ^ set(found.sets):
            self.tally.complain("sets that meet", f"{sorted(missing)[0]} is in one list only")
            return
        if not right:
            return
        values = found.values.reshape(len(case.rows), len(found.sets), -1)
        stacked, scale = (
            np.stack([getattr(right[members], name) for members in found.sets], axis=2)
            for name in ("value", "scale")
        )
        self._close(f"sets, {kind or self._index_name}", values, stacked, scale)

    def _right_sets(self, kind: str | None) -> judge.Sets:
        order = self.case.order
        orders = list(range(1, order + 1))
        if kind == "k-SII":
            return judge.k_sii(self._sets(orders, judge.index_weight("shapley", 0)), order)
        if kind == "STII" and order > 1:
            low = self._sets(orders[:-1], lambda k, n: int(k == 0), point=0.0)
            high = self._sets(orders[-1:], lambda k, n: judge.taylor_weight(order, k, n))
            return low | high
        if kind in ("SII", "STII"):
            return self._sets(orders, judge.index_weight("shapley", 0))
        if kind == "BII":
            return self._sets(orders, judge.index_weight("banzhaf", 0), point=0.5)
        return self._sets(orders, self.weight, self.point)

    def _sets(self, orders: list[int], weight: judge.Weight, point: float | None = None) -> judge.Sets:
        """By leaves; by coalitions as well where that is possible, which must be the same."""
        sets = self.game.by_leaves(orders, weight, point)
        if point in (0.0, 1.0):
            moved = np.abs(self.case.ensemble.value).astype(np.longdouble).sum() * self.case.n_players * END
            for found in sets.values():
                found.scale += moved / self.tolerance
        if self.game.most_players <= MAX_PLAYERS_BY_COALITIONS:
            scale = np.abs(self.case.ensemble.value).sum() * 2 ** max(orders)
            for members, found in self.game.by_coalitions(orders, weight).items():
                # Players of a tree that meet on none of its paths have the index zero.
                right = sets[members].value if members in sets else 0 * found.value
                self.tally.close("the judge's two roads", right, found.value, scale, JUDGE_TOLERANCE)
        return sets

    def _close(self, check: str, found: Array, right: Array, scale: Array) -> None:
        """``right`` and ``scale`` are for each background row, and for the trees once."""
        times = self.case.times
        self.tally.close(check, found, times * self._mean(right), times * self._mean(scale), self.tolerance)

    def _mean(self, numbers: Array) -> Array:
        """Over background rows, the second dimension."""
        return np.asarray(np.tensordot(self.shares, np.moveaxis(numbers, 1, 0), axes=1))

    def _times(self, numbers: Array, base: Array) -> Array:
        return np.asarray(base + self.case.times * (numbers - base))

    @property
    def _suffix(self) -> str:
        name = self._index_name if self.case.output is None else "own output"
        return f", {name}{', long paths' * self.is_long}{', large' * (self.case.times > 1)}"

    @property
    def _index_name(self) -> str:
        return str(self.case.index[0] if isinstance(self.case.index, tuple) else self.case.index)

    def _slopes(self) -> Array:
        """(n_rows, n_background or 1, n_outputs) by which raw values become values of the output."""
        shape = (*self.game.shape, self.case.ensemble.n_outputs)
        if self.case.output is None:
            return np.ones(shape, dtype=np.longdouble)
        function = OUTPUTS[self.case.output]
        raw = self.game.raw(self.case.rows)[:, None]
        other = self.game.raw(self.case.background)[None] if self.case.background is not None else raw
        step = np.broadcast_to(raw - other, shape)
        near = np.abs(step) < 1e-7  # there the slope is the derivative in the middle, but for its square
        middle, h = (raw + other) / 2, np.longdouble(1e-5)
        derivative = (function(middle + h) - function(middle - h)) / (2 * h)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(near, derivative, (function(raw) - function(other)) / step))

    def _slope_rounding(self) -> Array:
        """By how much slopes may be off beyond the tolerance: the function has two values rounded to a few
        ulps of theirs, not of their difference, over a step that is not less than 1e-5."""
        if self.case.output is None or self.case.background is None:
            return np.zeros(1)
        function = OUTPUTS[self.case.output]
        raw, other = self.game.raw(self.case.rows)[:, None], self.game.raw(self.case.background)[None]
        sizes = np.abs(function(raw)) + np.abs(function(other))
        rounding = 4 * np.finfo(np.float64).eps * sizes / np.maximum(np.abs(raw - other), 1e-5)
        return np.asarray(rounding / self.tolerance)

    # -- the same in other ways ------------------------------------------------------------------------

    def _same_bits(self, name: str, ask: Callable[..., Array], whole: Array) -> None:
        rows, tally = self.case.rows, self.tally
        # Path-dependent values of so few rows may be added up in another order.
        few = FEW_ROWS if name == "values" and self.case.background is None else 0
        cut = len(rows) // 2
        if cut > few:
            tally.same_bits(
                f"same bits: {name}, cut", np.concatenate([ask(rows[:cut]), ask(rows[cut:])]), whole
            )
        if few:  # not even two in that of one
            two = rows[-2:]
            tally.same_bits(f"same bits: {name}, two rows", ask(two[::-1].copy()), ask(two)[::-1])
        else:
            tally.same_bits(f"same bits: {name}, one row", ask(rows[-1:]), whole[-1:])
        with np.errstate(over="ignore", under="ignore"):
            single = whole.astype(np.float32)
        tally.same_bits(f"same bits: {name}, float32", ask(rows, dtype="float32"), single)
        if self.case.times > 1:
            for n_jobs in (2, 5):
                many = _explainer(self.case, n_jobs=n_jobs)
                tally.same_bits(f"same bits: {name}, threads", ask(rows, many), whole)
            self._within(name, ask, whole)

    def _within(self, name: str, ask: Callable[..., Array], whole: Array) -> None:
        """Explain inside of a progress callback: another model and this one, which it may not disturb."""
        calls = 0
        others = [TreeExplainer(LARGER, data, n_jobs=1) for data in (None, LARGER_ROWS[:3])]

        def callback(share: float) -> None:
            nonlocal calls
            calls += share < 1  # at the end nothing is under way
            if share < 1 and calls <= 3:
                for other in others:
                    other.shap_values(LARGER_ROWS, check_additivity=False)
                    other.shap_interaction_values(LARGER_ROWS)
                ask(self.case.rows[:4])

        n_leaves = self.case.ensemble.n_leaves * self.case.times
        times = -(-WATCHED[name] // max(1, n_leaves * len(whole)))
        rows = np.concatenate([self.case.rows] * times)
        found = ask(rows, progress=callback)
        check = f"same bits: {name}, {self.where}, a call within a call"
        if calls:
            self.tally.same_bits(check, found, ask(rows))

    def _saved(self, values: Array) -> None:
        """A saved explainer gives the same bits, or says that it cannot be saved."""
        path = scratch_folder() / f"{os.getpid()}.lts"
        try:
            self.explainer.save(path)
            loaded = TreeExplainer.load(path, n_jobs=1)
        except LinearTreeShapError as error:
            if self.case.output is None:  # a function of the user's own cannot be in a file
                self.tally.complain("saved and loaded", f"{type(error).__name__}: {error}")
            return
        finally:
            path.unlink(missing_ok=True)
        self.tally.same_bits("saved and loaded", self._values(self.case.rows, loaded), values)
        expected = (np.atleast_1d(explainer.expected_value) for explainer in (loaded, self.explainer))
        self.tally.same_bits("saved and loaded", *expected)


def _shrunk(case: Case, check: str) -> Case:
    """The smallest case found that fails the same check."""
    stop = time.monotonic() + _MAX_SHRINK_SECONDS
    shrinks = True
    while shrinks and time.monotonic() < stop:
        shrinks = False
        for smaller in case.smaller():
            if time.monotonic() > stop:
                break
            if any(found.check == check for found in examine(smaller).findings):
                case, shrinks = smaller, True
                break
    return case
