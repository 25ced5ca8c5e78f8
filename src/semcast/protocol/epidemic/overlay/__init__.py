"""The overlay: partial views of a group too large to know, repair by pulling, and the tree."""
