"""What the default check costs: ``python -m benchmarks.check``, a line per model.

The default call as a multiple of the same call with ``check_additivity=False``, in CPU time on one core, best
of many, in turns; and how much more the first call of an explainer takes, which asks the model's library.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from linear_treeshap import TreeExplainer

from . import data

#: Rows of a call → how often both calls are made.
SIZES = {1: 600, 100: 60, 1_000: 15, 20_000: 10}


def models() -> dict[str, Any]:
    import lightgbm
    import xgboost
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

    train = data.generated(20_000, 20)
    made = {
        "XGBoost, 100 trees of depth 6": xgboost.XGBRegressor(n_estimators=100, max_depth=6, n_jobs=1),
        "XGBoost, 50 trees of depth 3": xgboost.XGBRegressor(n_estimators=50, max_depth=3, n_jobs=1),
        "LightGBM, 100 trees of 31 leaves": lightgbm.LGBMRegressor(n_jobs=1, verbose=-1),
        "HistGradientBoosting, 100 trees of 31 leaves": HistGradientBoostingRegressor(early_stopping=False),
        "random forest, 100 trees of depth 10": RandomForestRegressor(100, max_depth=10, random_state=0),
    }
    return {name: model.fit(train.X, train.y) for name, model in made.items()}


def seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def cost(model: Any, rows: Any, repetitions: int) -> tuple[float, float]:
    """The multiple in a call that is not the first, and the seconds that the first takes more."""
    explainer = TreeExplainer(model, n_jobs=1)
    first = seconds(lambda: explainer.shap_values(rows))
    with_check, without = [], []
    for _ in range(repetitions + 12):  # the library is asked again in the first dozen
        without.append(seconds(lambda: explainer.shap_values(rows, check_additivity=False)))
        with_check.append(seconds(lambda: explainer.shap_values(rows)))
    return min(with_check) / min(without), first - min(without)


def main() -> None:
    rows = data.generated(max(SIZES), 20, seed=1).X
    for name, model in models().items():
        costs = [cost(model, rows[:n], repetitions) for n, repetitions in SIZES.items()]
        cells = [
            f"{n:,} rows {ratio:.2f} (first call +{1e3 * more:.0f} ms)"
            for n, (ratio, more) in zip(SIZES, costs, strict=True)
        ]
        print(f"{name}: {', '.join(cells)}")


if __name__ == "__main__":
    main()
