"""Columns → players: groups, one-hot families, raw columns of pipelines; the user's rows as players."""
