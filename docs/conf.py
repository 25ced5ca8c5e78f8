"""Sphinx: the Markdown under docs/ and the docstrings, into docs/_build/html."""

from semcast import __version__

project = "semcast"
author = "The semcast authors"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"semcast {release}"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
autodoc_typehints = "description"
nitpicky = False
