"""What waits for the application, and in which order it comes out."""
