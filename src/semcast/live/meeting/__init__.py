"""Meeting: how members find, check and name each other, and how they are doing."""
