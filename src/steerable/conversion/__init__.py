"""An ordinary network turned into its steerable counterpart, with a report of what was replaced."""

from steerable.conversion.network import Converted
from steerable.conversion.pipeline import convert
from steerable.conversion.refusals import ConversionError
from steerable.conversion.report import ConversionReport, ReportRow
from steerable.lazy import public_names

__dir__ = public_names(__name__)

__all__ = ["ConversionError", "ConversionReport", "Converted", "ReportRow", "convert"]
