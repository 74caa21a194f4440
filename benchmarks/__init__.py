"""Benchmarks: how fast this library is beside its peers, and how exact.

Reading order: `data` and `cases` say what is measured, `peers` who is measured, `worker` how, in a
process of its own; `run` starts the workers and writes JSON; `tables` and `figures` turn it into docs.
"""
