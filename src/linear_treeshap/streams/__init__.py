"""Record batches in, record batches out: what the command line and the engines of many machines share."""
