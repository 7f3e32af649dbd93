"""One training step and what surrounds it: data and network put together, optimiser, checkpoints, early stopping."""
