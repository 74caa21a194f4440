"""An explainer as workers get it: trees without the model they came from, on the threads that a task has.

It is made here and now by a pickle, so that what cannot be sent is said before anything runs.
"""

from __future__ import annotations

import pickle

from ..errors import InputError
from ..explainer import TreeExplainer

__all__ = ["travelling"]


def travelling(explainer: TreeExplainer, n_threads: int = 1) -> TreeExplainer:
    """What arrives at a worker; it needs the model's library only for the steps of a pipeline."""
    if not isinstance(explainer, TreeExplainer):
        raise InputError(
            f"explainer must be a TreeExplainer, got {type(explainer).__name__}. Pass TreeExplainer(model)."
        )
    try:
        arrived: TreeExplainer = pickle.loads(pickle.dumps(explainer))
    except Exception as error:  # whatever a user's own function or transformer says
        raise InputError(f"This explainer cannot be sent to workers: {error}") from error
    arrived.n_jobs = n_threads
    return arrived
