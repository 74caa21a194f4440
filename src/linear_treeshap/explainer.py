"""TreeExplainer: a model is read once and compiled once, then explains any number of rows.

The conventions are shap's. An explainer never changes after it is made, so threads may share it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from .engines.background_rows import (
    Background,
    Perturbation,
    perturbation_of,
    read_background,
    require_covers,
    user_background,
    with_covers_of,
)
from .engines.choice import engine_for
from .engines.contract import Engine, Sets, Truth
from .engines.cuda.arrays import is_on_gpu, on_host, plain_rows, to_gpu
from .engines.indices import index_of, known_by
from .engines.sets import Kind, adds_up, interaction_kind
from .engines.threads import n_threads
from .errors import FileFormatError, InputError
from .importers import import_model
from .importers.model_output import link_for, outcomes, saved_model_of
from .importers.pipelines.preprocessing import preprocessing_of
from .model.ensemble import TreeEnsemble, first_trees, widened
from .model.joint_links import JointLink
from .players.assignment import assign_players, widened_assignment
from .players.players import Players
from .players.user_rows import UserRows
from .progress import Progress
from .results.about import About
from .results.axes import names_of
from .results.checking import Checking, Checks, is_off
from .results.explanation import Explanation
from .results.interactions import Interactions, in_order
from .results.monotone import Signs
from .results.on_gpu import values_on_gpu
from .results.output_array import OutputArray
from .rows.frames import is_frame
from .rows.tables import width_of

__all__ = ["AskedSets", "TreeExplainer", "explain"]

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]

_LOG = logging.getLogger("linear_treeshap")


class TreeExplainer:
    """Exact Shapley values of a tree model.

    Parameters
    ----------
    model
        A fitted model of XGBoost, LightGBM, CatBoost, scikit-learn and others, a list of models (their mean)
        or of (weight, model) pairs (their sum), a dictionary of arrays, a `TreeEnsemble`, or the path of a
        model file: see `import_model`. Rows of a scikit-learn pipeline are given raw, and explained in raw
        columns wherever each transformed column comes from one raw column; ``players`` says what values are
        given to.
    data
        Background rows, of any kind that can be explained, as many as you like; one row is a baseline.
    model_output
        "raw": what the trees add up to (log-odds for boosted classifiers, probabilities for forests of
        scikit-learn). With ``data`` also "probability"; "log_loss", the loss of each row for the ``y`` given
        with it (for a regressor the squared error); "predict" where that is a function of the raw output; or
        a function of your own, of an array of raw outputs, which is explained for each output by itself. The
        "probability" and "log_loss" of several classes are those of softmax, which takes all raw outputs at
        once; ``y`` is then the number of the class.
    feature_perturbation
        "interventional": a feature that is absent from a coalition takes the values of the background rows,
        and values are means over them. "tree_path_dependent": it sends a row both ways, weighted as the
        training rows were, or as ``data`` is if there is any. "auto" is the first if there is ``data``.
    feature_names
        Names for the columns of rows that have none.
    index
        What the mean over coalitions of the other features is: "shapley", or "SV"; "banzhaf", or "BV", where
        each of them is present with probability one half; ("weighted_banzhaf", p), with probability p;
        ("beta", alpha, beta), Beta Shapley; ("measure", points, weights), with a probability drawn from these
        points; or ("sizes", weights), the weight of one coalition of each size, from none of the others to
        all. Only Shapley values add up to the prediction, so there is nothing to check for the others.
    groups
        Columns that are one player: a dictionary of group → columns (names or positions), a label for each
        column, "onehot" for families of one-hot columns found by their names (``city_Rome``, ``city=Rome``),
        or the fitted transformer that made the model's columns. Other columns are their own players. The
        values are the exact Shapley values of that game, not sums of the columns' values. Where a model reads
        several columns as one (CatBoost's combinations), what their combination gets is divided equally
        among its categories, as CatBoost's own values are; "columns" divides it among all columns that it
        reads, "combinations" shows it as a player of its own, and "mixed", with ``data``, looks it up for
        rows that are mixed of the row and a background row, so that nothing has to be divided.
    data_weights
        What each background row counts for; by default all count the same.
    n_jobs
        Threads, counted as joblib does; None and -1 for all CPUs.
    device
        Where values are computed: "cpu"; "cuda" or "cuda:1", a GPU of NVIDIA's, which needs CuPy; or "auto",
        a GPU where there is one and enough rows. A GPU computes path-dependent values and their pairs, and
        values of raw outputs against background rows. What it does not compute yet is computed by the CPU,
        and the log says so once: interactions of sets, and against background rows pairs, functions of
        outputs, and paths of more than 64 players.
    output_names
        Names for the outputs; by default those of the model's classes, where it knows them.
    link, linearize_link
        Accepted for programs written for shap, which does nothing with them: ``model_output`` says which
        output is explained.

    Examples
    --------
    >>> import numpy as np
    >>> from linear_treeshap import TreeExplainer
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor(max_depth=1).fit([[0], [0], [0], [1]], [1, 1, 1, 3])
    >>> explainer = TreeExplainer(model, feature_names=["age"])
    >>> explainer.expected_value
    1.5
    >>> explainer.shap_values(np.array([[0.0], [1.0]]))
    array([[-0.5],
           [ 1.5]])
    >>> explainer(np.array([[1.0]])).to_frame(layout="long")
       row feature  value
    0    0     age    1.5

    Notes
    -----
    Pickles, copies and saved files hold the trees, not the model they came from: they need neither its
    library nor its size. Their additivity check asks the trees instead of the model, so it finds what goes
    wrong in explaining, and not what went wrong in reading the model or in reading these rows; a saved file
    therefore holds what the model predicted for some rows, see `save`. Pickles and copies keep the
    transformers of a pipeline; a saved file does not: it wants rows that are already transformed, which it
    explains in the same players.
    """

    def __init__(
        self,
        model: Any,
        data: Any = None,
        model_output: str | Callable[[Any], Any] = "raw",
        feature_perturbation: Perturbation = "auto",
        feature_names: Sequence[str] | None = None,
        *,
        index: Any = "shapley",
        groups: Any = None,
        data_weights: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        output_names: Sequence[str] | None = None,
        link: Any = None,
        linearize_link: Any = None,
    ) -> None:
        self.feature_perturbation = perturbation_of(feature_perturbation, data, data_weights)
        self.data = data.rows if isinstance(data, Background) else data
        self.model = model
        self.ensemble = import_model(model)
        if output_names is not None:
            names = names_of(output_names, "Output", self.ensemble.n_outputs)
            self.ensemble = replace(self.ensemble, output_names=names)
        if self.ensemble.row_format.takes_more and feature_names is not None:
            self.ensemble = widened(self.ensemble, max(len(feature_names), self.ensemble.n_features))
        self._wider: dict[int, TreeExplainer] = {}  # by the number of columns, where rows say it
        is_interventional = self.feature_perturbation == "interventional"
        self._link = link_for(model_output, model, self.ensemble, has_background=is_interventional)
        self.model_output = model_output
        n_threads(n_jobs)  # an unfit number is refused here rather than at the first call
        self.n_jobs, self.device = n_jobs, device
        self._preprocessing = preprocessing_of(model)
        if isinstance(groups, str) and groups == "mixed":
            self.ensemble = _with_mixed_rows(self.ensemble, is_interventional)
        self._assignment = assign_players(groups, feature_names, self.ensemble, self._preprocessing)
        self.feature_names = self._assignment.names
        self.index = index = known_by(index)
        self._index = index_of(index, self._assignment.in_trees.n_players)
        if self._link is not None and not self._index.is_efficient:
            raise InputError(
                f"model_output={model_output!r} is defined for Shapley values only, not {index!r}."
            )
        self._background = None
        if data is not None:
            background = read_background(
                data,
                data_weights,
                self.ensemble,
                self._preprocessing,
                self._assignment,
                model,
            )
            if is_interventional:
                self._background = background
            else:
                self.ensemble = with_covers_of(self.ensemble, background)
        elif not is_interventional:
            require_covers(self.ensemble)
        self._compile()
        self._fingerprint: Any = None  # what a file says that the model's library predicts
        self._about = About.of(
            model,
            self.ensemble,
            model_output=model_output,
            feature_perturbation=self.feature_perturbation,
            index=index,
            adds_up=self._index.is_efficient,
        )

    @property
    def players(self) -> Players:
        """What values are given to: columns of the rows, or groups of them; its ``members`` lists these.

        Examples
        --------
        >>> from linear_treeshap import TreeExplainer
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> model = DecisionTreeRegressor().fit([[0, 1, 5], [1, 0, 5], [0, 0, 7]], [1, 2, 3])
        >>> TreeExplainer(model, feature_names=["city_Rome", "city_Oslo", "age"], groups="onehot").players
        Players(2 players of 3 columns: city (2 columns), age)
        """
        return self._assignment.of_rows

    @property
    def monotone(self) -> dict[str, int]:
        """Feature → 1 or -1, where the model says that it was trained to rise, or to fall, with it.

        That is known of models of XGBoost, of LightGBM and CatBoost and their files, and of scikit-learn.
        With one row as ``data`` the signs of values follow from it, and are checked.

        Examples
        --------
        >>> from linear_treeshap import TreeExplainer
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> model = DecisionTreeRegressor(monotonic_cst=[0, -1]).fit([[0, 1], [1, 0], [0, 0]], [1, 2, 3])
        >>> TreeExplainer(model, feature_names=["city", "age"]).monotone
        {'age': -1}
        """
        known = self._assignment.tree_names or self.ensemble.feature_names
        names = names_of(known, "Feature", self.ensemble.n_features)
        return {names[column]: direction for column, direction in sorted(self.ensemble.monotone.items())}

    @property
    def n_outputs(self) -> int:
        """How many outputs are explained: those of the trees, or fewer if they are made into one."""
        return self._engine.n_outputs

    @property
    def output_names(self) -> tuple[str, ...] | None:
        """The names of the outputs; None if they have none."""
        names = self.ensemble.output_names
        return self._link.output_names(names) if isinstance(self._link, JointLink) else names

    @property
    def expected_value(self) -> Any:
        """The output before any feature is known: a float, or (n_outputs,) float64 for several.

        With a background it is the mean over it. For "log_loss" it is a function of the true ``y``.
        """
        if self._link is not None and self._link.needs_y:
            return self._expected_loss
        expected = self._engine.base_values()
        return float(expected[0]) if len(expected) == 1 else expected.copy()

    def _expected_loss(self, y: Any) -> Any:
        """The mean loss over the background, if the truth were ``y``: a number for a number."""
        means = self._engine.base_values(np.atleast_1d(np.asarray(y, dtype=np.float64)))[:, 0]
        return float(means[0]) if np.ndim(y) == 0 else means

    def __call__(
        self,
        X: Any,
        y: Any = None,
        interactions: bool = False,
        check_additivity: bool | float = True,
        approximate: bool = False,
    ) -> Explanation:
        """Explain the rows ``X``; see `shap_values`. ``y`` is needed for "log_loss" only.

        Returns
        -------
        Explanation
            The values with their names, base values and rows; of one row if ``X`` is one-dimensional.
        """
        explainer = self._as_wide_as(X)
        engine = explainer._engine
        user_rows, target = explainer._read(X), OutputArray()
        truth = explainer._truth(y, user_rows)
        values = explainer._explained(
            user_rows, engine, check_additivity, target, y=truth, of_pairs=interactions
        )
        base_values = np.broadcast_to(engine.base_values(truth), (len(values), engine.n_outputs))
        names = user_rows.names or explainer.feature_names
        explanation = Explanation.of_rows(
            values,
            base_values,
            table=user_rows.to_show(names),
            feature_names=names,
            output_names=explainer.output_names,
            row_labels=user_rows.row_labels,
            about=replace(self._about, checked_with=explainer._compared_with(check_additivity)),
        )
        return explanation[0] if user_rows.is_one_row else explanation

    def shap_values(
        self,
        X: Any,
        y: Any = None,
        tree_limit: int | None = None,
        approximate: bool = False,
        check_additivity: bool | float = True,
        *,
        out: npt.NDArray[np.floating] | None = None,
        dtype: npt.DTypeLike = "float64",
        progress: Progress = False,
    ) -> npt.NDArray[np.floating]:
        """Shapley values as an array.

        Parameters
        ----------
        X
            Rows: an array, a data frame (columns in any order), a SciPy sparse matrix, an
            ``xgboost.DMatrix``, a ``catboost.Pool``, or one row of one dimension; for device="cuda" also rows
            on a GPU, of CuPy, PyTorch or cuDF, whose values stay there.
        y
            The true outcome of each row, for model_output="log_loss"; not needed otherwise.
        tree_limit
            Explain the first trees only; None, 0 and -1 for all. Trees are counted, not rounds: a round of
            boosting has a tree for each of several classes.
        approximate
            Accepted for programs written for shap: values are exact either way, and an approximation would
            take no less time.
        check_additivity
            True makes two comparisons, within rounding; a number is the largest difference that both allow;
            False makes none. First, the values of every row, with the expected value, against the prediction
            of the compiled trees (in weighted sums over 64 rows), for an index that adds up, which is
            Shapley's. Second, what the trees predict against the model's own raw prediction, by its library:
            of all rows of up to 256, else of 192 that are spread over the table and up to some 64 with
            missing values or infinities; of as many background rows, once; and of all rows of a DMatrix or
            Pool. It finds rows that are read otherwise than by the library. To ask a library for a few rows
            takes longer than the values, so small tables are not compared each time: the first of its kind
            is (of another type, or with something missing), and then one whenever three times as many rows
            have been explained since as before. Frames of a model with labelled categories, and calls of 100
            million leaves times rows, are always. An explainer that was loaded, pickled or made of a file has
            no library to ask, and makes the first comparison only, which cannot see whether the trees are
            still those of the model.
        out
            An array to write to, of the shape that is returned; float64 or float32.
        dtype
            "float64" or "float32", if ``out`` is not given. Sums are float64 either way.
        progress
            True for a bar on stderr, or a function that is given the share done, from 0 to 1.

        Returns
        -------
        array
            (n_rows, n_players), or (n_rows, n_players, n_outputs) for several outputs: in the order of
            the columns of ``X`` where columns are players, else in that of ``players``; without the first
            dimension if ``X`` is one row of one dimension.

        Raises
        ------
        InputError
            The rows do not fit the model.
        AdditivityError
            The values of a row do not add up to the model's prediction.
        """
        explainer = self._as_wide_as(X)
        engine, target = explainer._first_trees(tree_limit), OutputArray(out, dtype, progress)
        if is_on_gpu(X) and hasattr(engine, "device"):
            return cast(Array, explainer._explained_on_gpu(X, engine, check_additivity, target))
        user_rows = explainer._read(X)
        truth = explainer._truth(y, user_rows)
        values = explainer._explained(user_rows, engine, check_additivity, target, y=truth)
        return target.returned(values, user_rows)

    def shap_interaction_values(
        self,
        X: Any,
        y: Any = None,
        tree_limit: int | None = None,
        *,
        check_additivity: bool | float = True,
        out: npt.NDArray[np.floating] | None = None,
        dtype: npt.DTypeLike = "float64",
        progress: Progress = False,
    ) -> npt.NDArray[np.floating]:
        """Interaction values of all pairs of features, as matrices; options as for `shap_values`.

        An entry off the diagonal is half of a pair's Shapley interaction index, and so is its mirror image;
        the diagonal is what is left of each feature's own value, so rows and columns add up to
        `shap_values`. For many features, `interactions` keeps only the pairs that meet in a tree.

        Returns
        -------
        array
            (n_rows, n_features, n_features), or (n_rows, n_features, n_features, n_outputs) for several
            outputs; without the first dimension if ``X`` is one row of one dimension.

        Examples
        --------
        >>> from linear_treeshap import TreeExplainer
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> model = DecisionTreeRegressor().fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 8])
        >>> TreeExplainer(model).shap_interaction_values([[1.0, 1.0]])
        array([[[2., 1.],
                [1., 2.]]])
        """
        explainer = self._as_wide_as(X)
        engine, target = explainer._first_trees(tree_limit), OutputArray(out, dtype, progress)
        if is_on_gpu(X) and hasattr(engine, "device"):
            there = explainer._explained_on_gpu(X, engine, check_additivity, target, of_pairs=True)
            return cast(Array, there)
        user_rows = explainer._read(X)
        values = explainer._explained(user_rows, engine, check_additivity, target, of_pairs=True)
        return target.returned(values, user_rows)

    def interactions(
        self,
        X: Any,
        order: int = 2,
        *,
        index: Kind | None = None,
        check_additivity: bool | float = True,
        dtype: npt.DTypeLike = "float64",
        progress: Progress = False,
    ) -> Interactions:
        """Interaction indices of all sets of up to ``order`` features that meet in a tree.

        Parameters
        ----------
        X
            Rows, as for `shap_values`.
        order
            The largest number of features in a set.
        index
            "SII", the Shapley interaction index; "k-SII", the same with larger sets taken off smaller ones so
            that all sets of a row add up to its prediction; "STII", Shapley-Taylor, and "FSII", the best
            approximation by sets of this order, which add up as well; "BII", Banzhaf, and "FBII", its best
            approximation; "CHII", chaining; "Moebius" and "Co-Moebius". None for k-SII, or for that of the
            explainer's own index if it is not Shapley's.
        check_additivity
            As for `shap_values`. Sums are compared where the index adds up: k-SII, STII, FSII and SII of
            order 1.
        dtype, progress
            As for `shap_values`.

        Examples
        --------
        >>> from linear_treeshap import TreeExplainer
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> model = DecisionTreeRegressor().fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 8])
        >>> TreeExplainer(model).interactions([[1.0, 1.0]]).to_frame()
           Feature 0  Feature 1  Feature 0 × Feature 1
        0        2.0        2.0                    2.0
        """
        explainer = self._as_wide_as(X)
        kind, engine = explainer._set_engine(index, order)
        user_rows = explainer._read(X)
        values = OutputArray(None, dtype, progress).filled(
            user_rows,
            engine.values,
            (len(engine.sets), engine.n_outputs),
            player_axes=0,
            check=explainer._check(user_rows, explainer._engine, check_additivity, adds_up(kind, order)),
            n_jobs=self.n_jobs,
        )
        sets, values = in_order(engine.sets, values, user_rows.order)
        return Interactions(
            sets,
            values[:, :, 0] if engine.n_outputs == 1 else values,
            explainer._engine.base_values(),
            names_of(user_rows.names or explainer.feature_names, "Feature", engine.n_players),
            names_of(explainer.ensemble.output_names, "Output", engine.n_outputs),
            kind,
            user_rows.row_labels,
            user_rows.raw if is_frame(user_rows.raw) else None,
        )

    def iter_values(
        self, X: Any, *, n_jobs: int | None = None, check_additivity: bool | float = True
    ) -> Iterator[npt.NDArray[np.float64]]:
        """Values of ``X``, (rows, n_players, n_outputs), slice after slice, each in the same memory.

        For sums over more rows than there is memory for values. They are in the order of ``players``, and
        each slice is checked as by `shap_values`.

        Examples
        --------
        >>> import numpy as np
        >>> from linear_treeshap import TreeExplainer
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> model = DecisionTreeRegressor(max_depth=1).fit([[0], [0], [0], [1]], [1, 1, 1, 3])
        >>> explainer = TreeExplainer(model)
        >>> sum(float(abs(values).sum()) for values in explainer.iter_values(np.zeros((100_000, 1))))
        50000.0
        """
        user_rows = self._read(X)
        self._truth(None, user_rows)
        shape = (self._engine.n_players, self.n_outputs)
        scratch = np.empty((0, *shape))
        check = self._check(user_rows, self._engine, check_additivity, has_signs=True)
        for some in user_rows.slices(beside=shape[0] * shape[1]):
            block = user_rows.rows[some]
            if len(scratch) < len(block):
                scratch = np.empty((len(block), *shape))
            values = scratch[: len(block)]
            self._engine.values(block, values, n_jobs=self.n_jobs if n_jobs is None else n_jobs)
            check(some, block, values)
            yield values

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what is explained to a file that `TreeExplainer.load` reads, without the model's library.

        The file holds the trees, the players and their names, the index, the output, and of each background
        row which way it goes at every node, but not its numbers. Of a pipeline it holds the last step only.
        The model's own library is asked for its predictions of up to 64 rows, made up of the trees' own
        thresholds, and these are in the file too: trees that do not give the same are not saved, nor loaded.
        That shows that the model was read rightly, categories and missing values included. It cannot show
        that rows given later mean what the model was trained on; and there is nothing to ask if the trees
        came from a file or a dictionary, or know their categories by hashes only (CatBoost).

        Raises
        ------
        InputError
            ``model_output`` is a function of your own, which a file cannot hold; or the model reads texts or
            embeddings, which only its library can.
        AdditivityError
            The trees do not predict what the model's own library does.

        Examples
        --------
        >>> import os, tempfile
        >>> from linear_treeshap import TreeExplainer
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> model = DecisionTreeRegressor(max_depth=1).fit([[0], [0], [0], [1]], [1, 1, 1, 3])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.lts")
        ...     TreeExplainer(model).save(path)
        ...     TreeExplainer.load(path)
        TreeExplainer(1 tree, 2 leaves, depth 1, 1 feature, 1 output)
        """
        from .storage.arguments import keep
        from .storage.fingerprint import take_fingerprint
        from .storage.saved_explainer import write

        kept = keep(
            self.model,
            self.ensemble,
            self._assignment,
            self._preprocessing,
            model_output=self.model_output,
            feature_perturbation=self.feature_perturbation,
            index=self.index,
            background=self._background,
            fingerprint=take_fingerprint(self.model, self.ensemble)
            if self._has_library
            else self._fingerprint,
        )
        if self._preprocessing is not None:
            _LOG.warning("The file %s wants transformed rows: it holds the last step of the pipeline.", path)
        write(path, kept)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        data: Any = None,
        model_output: str | Callable[[Any], Any] | None = None,
        feature_perturbation: Perturbation | None = None,
        *,
        index: Any = None,
        groups: Any = None,
        data_weights: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
    ) -> TreeExplainer:
        """Read an explainer that `save` wrote: the same trees, background and output give the same bits.

        Whatever is given takes the place of what was saved: background rows, another output of the model,
        another index, other groups. ``data`` alone makes values interventional;
        feature_perturbation="tree_path_dependent" alone leaves the background aside.

        Examples
        --------
        >>> import os, tempfile
        >>> from linear_treeshap import TreeExplainer
        >>> from sklearn.ensemble import GradientBoostingClassifier
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
        >>> model = GradientBoostingClassifier(n_estimators=2).fit(X, y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.lts")
        ...     TreeExplainer(model, X, "probability").save(path)
        ...     round(TreeExplainer.load(path).expected_value, 3)
        ...     TreeExplainer.load(path, model_output="raw", data=X[:1]).expected_value < 0
        0.5
        True
        """
        from .storage.arguments import arguments_of
        from .storage.saved_explainer import read

        saved = read(path)
        is_as_saved = all(x is None for x in (data, model_output, feature_perturbation, index, groups))
        arguments = arguments_of(
            saved,
            data=data,
            data_weights=data_weights,
            model_output=model_output,
            feature_perturbation=feature_perturbation,
            index=index,
            groups=groups,
        )
        try:
            explainer = cls(**arguments, n_jobs=n_jobs, device=device)
        except InputError as error:
            if not is_as_saved:
                raise
            raise FileFormatError(f"Cannot read {os.fspath(path)!r}: {error}") from error
        explainer._fingerprint = saved.fingerprint
        return explainer

    def __repr__(self) -> str:
        text = repr(self.ensemble).replace("TreeEnsemble", "TreeExplainer", 1)
        players = self.players
        if players.note:
            return f"{text[:-1]}; {players.note})"
        is_plain = players.are_columns and not self._assignment.is_raw
        return text if is_plain else f"{text[:-1]}, {players.n_players:,} players)"

    def __getstate__(self) -> dict[str, Any]:
        model = saved_model_of(self.model, self.ensemble)
        return {**self.__dict__, "model": model, "_engine": None, "_checking": None, "_wider": {}}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._compile()

    def _as_wide_as(self, X: Any) -> TreeExplainer:
        """This explainer, or one of as many columns as ``X`` has: some models leave that to their rows."""
        if not self.ensemble.row_format.takes_more:
            return self
        width = width_of(X)
        if width is None or width <= self.ensemble.n_features:
            return self
        if width not in self._wider:
            wider = object.__new__(type(self))
            wider.__dict__.update(self.__dict__)
            wider.ensemble = widened(self.ensemble, width)
            wider._assignment = widened_assignment(self._assignment, width)
            wider.feature_names = wider._assignment.names
            wider._index = index_of(self.index, wider._assignment.in_trees.n_players)
            wider._background = None if self._background is None else self._background.widened(width)
            wider._compile()
            self._wider[width] = wider
        return self._wider[width]

    # -- inside ------------------------------------------------------------------------------------

    def _compile(self) -> None:
        """What is made of the trees, and is not pickled with them."""
        self._engine = self._engine_of(self.ensemble)
        self._checking = Checking(
            self.model,
            self._engine,
            link=self._link,
            index=self.index,
            preprocessing=self._preprocessing,
            background=None if self.data is None else self._user_background(),
            signs=partial(Signs.of, self.ensemble, self._assignment, self._background, self._link),
            n_jobs=self.n_jobs,
        )

    def _engine_of(self, ensemble: TreeEnsemble) -> Engine:
        return engine_for(
            ensemble,
            self._assignment.in_trees,
            self._index,
            background=self._background,
            link=self._link,
            n_jobs=self.n_jobs,
            device=self.device,
            divided=self._assignment.divided,
        )

    def _first_trees(self, tree_limit: int | None) -> Engine:
        """The engine of some of the trees; all of them are compiled already."""
        ensemble = first_trees(self.ensemble, tree_limit)
        return self._engine if ensemble is self.ensemble else self._engine_of(ensemble)

    def _read(self, X: Any) -> UserRows:
        return UserRows.of(on_host(X), self.ensemble, self._preprocessing, self._assignment, self.model)

    def _user_background(self) -> Callable[[], UserRows]:
        """What reads the background. Not a method, by which an explainer would hold itself."""
        return partial(
            user_background, self.data, self.ensemble, self._preprocessing, self._assignment, self.model
        )

    def _truth(self, y: Any, user_rows: UserRows) -> Truth:
        """(n_rows,) the outcomes that the output depends on; None if it depends on none."""
        if self._link is None or not self._link.needs_y:
            return None
        return outcomes(y, user_rows.n_rows, self.model_output)

    def _explained(
        self,
        user_rows: UserRows,
        engine: Engine,
        check_additivity: bool | float,
        target: OutputArray,
        *,
        y: Truth = None,
        of_pairs: bool = False,
    ) -> npt.NDArray[np.floating]:
        """Values (n_rows, n_players, n_outputs), or a matrix of pairs for each row, checked, in the order in
        which they are shown."""
        n_axes = 2 if of_pairs else 1
        return target.filled(
            user_rows,
            engine.pairs if of_pairs else engine.values,
            (*[engine.n_players] * n_axes, engine.n_outputs),
            player_axes=n_axes,
            check=self._check(user_rows, engine, check_additivity, has_signs=not of_pairs),
            n_jobs=self.n_jobs,
            y=None if of_pairs else y,
        )

    def _explained_on_gpu(
        self,
        X: Any,
        engine: Any,
        check_additivity: bool | float,
        target: OutputArray,
        *,
        of_pairs: bool = False,
    ) -> Any:
        """The values of rows that are on a GPU, or matrices of pairs, on the same one; rows that have to be
        read first are read here."""
        rows = None if self._preprocessing is not None else plain_rows(X, self.ensemble.row_format)
        if rows is None or target.out is not None or target.progress:
            user_rows = self._read(X)
            values = self._explained(user_rows, engine, check_additivity, target, of_pairs=of_pairs)
            returned = target.returned(values, user_rows)
            return to_gpu(returned) if target.out is None else returned
        check = partial(self._check, engine=engine, check_additivity=check_additivity)
        found = values_on_gpu(
            rows,
            engine,
            target.checked_dtype,
            self._read,
            None if is_off(check_additivity) else check,
            of_pairs=of_pairs,
        )
        return found[..., 0] if engine.n_outputs == 1 else found

    def _set_engine(self, asked: Any, order: Any) -> tuple[str, Sets]:
        """The engine of an interaction index, and its name."""
        kind = interaction_kind(asked, self._index, order)
        return kind or str(self.index), self._engine.sets(kind, order)

    @property
    def _has_library(self) -> bool:
        """Is the model's own library there to be asked, or are there only trees?"""
        return self._checking.has_library

    def _check(
        self,
        user_rows: UserRows,
        engine: Engine,
        check_additivity: bool | float,
        adds_up: bool | None = None,  # None: as the explainer's index does
        has_signs: bool = False,
    ) -> Checks:
        """What is compared while these rows are explained by ``engine``."""
        adds_up = self._index.is_efficient if adds_up is None else adds_up
        return self._checking.of(user_rows, engine, check_additivity, adds_up=adds_up, has_signs=has_signs)

    def _compared_with(self, check_additivity: bool | float) -> str:
        return self._checking.compared_with(check_additivity, adds_up=self._index.is_efficient)


def _with_mixed_rows(ensemble: TreeEnsemble, is_interventional: bool) -> TreeEnsemble:
    """The same trees, for rows that keep what combinations of mixed rows are looked up by."""
    if not is_interventional:
        raise InputError(
            "groups='mixed' looks combinations up for rows that are mixed with background rows: pass data=, "
            "with feature_perturbation='interventional'."
        )
    if not ensemble.row_format.lookups:
        raise InputError(
            "groups='mixed' is for models that look numbers up for combinations of columns (CatBoost's "
            "statistics of categories), and this model has none. Leave groups out: columns are the players."
        )
    return replace(ensemble, row_format=replace(ensemble.row_format, keeps_hashes=True))


def explain(
    model: Any,
    X: Any,
    *,
    groups: Any = None,
    n_jobs: int | None = None,
    check_additivity: bool | float = True,
) -> Explanation:
    """Explain the rows ``X`` of a model, for those who do it once.

    Examples
    --------
    >>> from linear_treeshap import explain
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor(max_depth=1).fit([[0], [0], [0], [1]], [1, 1, 1, 3])
    >>> explain(model, [[0.0], [1.0]]).values
    array([[-0.5],
           [ 1.5]])
    """
    return TreeExplainer(model, groups=groups, n_jobs=n_jobs)(X, check_additivity=check_additivity)


@dataclass(frozen=True)
class AskedSets:
    """An interaction index of an explainer, for those who sum over rows: see `linear_treeshap.importance`."""

    explainer: TreeExplainer
    order: int
    kind: str
    engine: Sets

    @classmethod
    def of(cls, explainer: TreeExplainer, order: int, index: Kind | None) -> AskedSets:
        """The sets of up to ``order`` players that meet in a tree."""
        return cls(explainer, order, *explainer._set_engine(index, order))

    def slices(
        self, X: Any, check_additivity: bool | float
    ) -> Iterator[tuple[npt.NDArray[np.floating], Callable[[Float64], None]]]:
        """The rows ``X`` as the engine reads them, some at a time, and a check of the sum of their values."""
        explainer = self.explainer
        user_rows = explainer._read(X)
        checks = explainer._check(
            user_rows, explainer._engine, check_additivity, adds_up(self.kind, self.order)
        )
        for some in user_rows.slices():
            block = user_rows.rows[some]
            yield block, partial(checks.total, some, block)
