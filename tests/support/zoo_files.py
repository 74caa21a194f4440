"""The zoo as files, for a machine that has a GPU and none of the libraries: `python
tests/support/zoo_files.py FOLDER`.

For each model its saved explainer, hostile rows as trees read them, and the processor's values of these.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import zoo
from engines import value_engine

from linear_treeshap import TreeExplainer
from linear_treeshap.rows.rows import read_rows

N_ROWS = 100


def write_zoo(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in zoo.names():
        model = zoo.load(name)
        explainer = TreeExplainer(model.model)
        ensemble = explainer.ensemble
        X = model.to_input(zoo.hostile_rows(model, ensemble, n_rows=N_ROWS))
        rows = read_rows(X, ensemble.row_format)[0:N_ROWS]
        values = np.empty((N_ROWS, ensemble.n_columns, ensemble.n_outputs))
        value_engine(ensemble).values(rows, values)
        explainer.save(folder / f"{name}.lts")
        np.savez_compressed(folder / f"{name}.npz", rows=rows, values=values)


if __name__ == "__main__":
    write_zoo(Path(sys.argv[1]))
