"""The experiment file: what it may say (`model`), how it is read, checked against its fabric, and its JSON schema."""

from mrc_lab.errors import FileError
from mrc_lab.experiments.files.loader import load_file, load_text
from mrc_lab.experiments.files.model import Case, Experiment

__all__ = ["Case", "Experiment", "FileError", "load_file", "load_text"]
