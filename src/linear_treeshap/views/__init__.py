"""Plots, pages and notebooks: leaves, which nothing else imports."""
