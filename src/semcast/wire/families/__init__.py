"""Control frames, a file for each family: layout, classes, and how they are written and read.

Every file ends with its `FAMILY`, the lines that `wire/table.py` puts together.
"""
