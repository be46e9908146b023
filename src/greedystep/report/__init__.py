"""Present results: on the terminal, as tables and figures, and as one HTML page."""
