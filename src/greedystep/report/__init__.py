"""Results made readable: on the terminal, as tables and figures, and as one page."""
