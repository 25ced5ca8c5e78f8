"""Who is in a group: views, how they follow each other, and how a member leaves."""
