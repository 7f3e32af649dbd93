"""One training step and its surroundings: data and network put together, optimiser, checkpoints, early stopping."""
