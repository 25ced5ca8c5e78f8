"""The settings of members, groups and scenarios: one table, and what every user of it shares.

A new setting is one entry in `table`. `make settings` then writes the fields of the configuration
classes, the typed arguments of `join` and the tables of the documentation anew. Knows nothing of
what a setting does.
"""

from semcast.settings.setting import Place, Setting
from semcast.settings.table import SETTINGS, at, check, for_member, named

__all__ = ["SETTINGS", "Place", "Setting", "at", "check", "for_member", "named"]
