"""Path-dependent values on a GPU: the ensemble → a stream of records → kernels, compiled when they are first
needed."""
