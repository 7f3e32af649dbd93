"""The computation of convolutions: one interface, several backends, one chooser. README.md says what runs when.

The rest of the library imports from here only.
"""

from steerable.nn.backends.known import AUTO
from steerable.nn.backends.passes import DENSE, Choice, Passes
from steerable.nn.backends.precision import tf32_allowed
from steerable.nn.backends.problem import ConvolutionProblem, Window
from steerable.nn.backends.runner import ConvolutionRunner
from steerable.nn.backends.store import MEMORY_FORMATS, remembered

__all__ = [
    "AUTO",
    "DENSE",
    "MEMORY_FORMATS",
    "Choice",
    "ConvolutionProblem",
    "ConvolutionRunner",
    "Passes",
    "Window",
    "remembered",
    "tf32_allowed",
]
