"""The Fourier convolution on CPUs, compiled by numba; README.md says what runs when."""
