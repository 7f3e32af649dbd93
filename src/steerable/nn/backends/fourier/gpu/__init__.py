"""The Fourier convolution on GPUs, by Triton; README.md says what runs when."""
