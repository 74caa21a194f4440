"""Rows → values. An engine is made of an ensemble, players and an index; all engines keep one contract."""
