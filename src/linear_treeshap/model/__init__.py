"""What a model is: trees as flat arrays, what they expect of a row, what its outputs mean."""
