"""One thread for each test process: tensors are tiny, and pytest-xdist runs a process per core."""

import torch

torch.set_num_threads(1)
