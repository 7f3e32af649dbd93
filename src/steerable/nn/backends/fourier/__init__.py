"""The group Fourier convolution: one matrix product per irrep in place of the dense filter bank."""
