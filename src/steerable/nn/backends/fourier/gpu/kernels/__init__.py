"""The Triton kernels of the Fourier convolution; imported only if they run."""
