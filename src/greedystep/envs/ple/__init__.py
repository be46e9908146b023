"""Three state-based games of the PyGame Learning Environment (Tasfi, 2016), written from their rules.

The games run as gym-games runs them: 30 frames a second, one action a frame, and the numbers of the game's state as the
observation.
"""
