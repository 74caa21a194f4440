"""The page of supported models says what the tests test."""

from __future__ import annotations

import support_table


def test_the_page_of_supported_models_is_current() -> None:
    """Skipped where a library is missing: the page lists them all."""
    written = support_table.PAGE.read_text(encoding="utf-8")
    assert written == support_table.render(), "run: python tests/support/support_table.py"
