"""Saved explainers: a documented file that contains no code."""
