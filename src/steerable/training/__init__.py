"""Training runs: requests, recipes, checkpoints, trained models."""
