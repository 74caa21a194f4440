"""What users get: values with their names, interactions, and whether they add up."""
