"""The Triton kernels of the Fourier convolution; imported only where they run."""
