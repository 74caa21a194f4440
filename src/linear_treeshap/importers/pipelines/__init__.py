"""What happens to a row before the trees read it: transformers of scikit-learn and imbalanced-learn."""
