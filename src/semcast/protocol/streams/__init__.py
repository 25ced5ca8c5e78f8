"""Messages on their way: from a sender, over what is missing and asked for, to everybody."""
