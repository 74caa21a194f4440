"""Functions that pass options on and show them as their own: these are listed, with defaults, in one place.

``@with_options(Options, of=BatchExplainer)`` on a function of ``**options: Unpack[Options]`` gives it the
signature that a person is shown, by ``help`` and by what completes names; others are refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

__all__ = ["with_options"]

Function = TypeVar("Function", bound=Callable[..., Any])


def with_options(options: Any, *, of: Callable[..., Any]) -> Callable[[Function], Function]:
    """The options are the names of a TypedDict, with the defaults that they have as parameters ``of`` it."""
    listed = inspect.signature(of).parameters

    def decorated(function: Function) -> Function:
        own = inspect.signature(function).parameters.values()
        signature = inspect.Signature(
            [
                *(one for one in own if one.kind is one.POSITIONAL_OR_KEYWORD),
                *(listed[name] for name in inspect.get_annotations(options)),
                *(one for one in own if one.kind is one.KEYWORD_ONLY),
            ]
        )

        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            return function(*args, **kwargs)

        called.__signature__ = signature  # type: ignore[attr-defined]
        return cast(Function, called)

    return decorated
