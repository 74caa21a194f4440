"""What a release is checked with before it is one: `make release-check`."""
