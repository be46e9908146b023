"""A replay as plain Python lists: the reference for `greedystep.replay`."""

from typing import Any, NamedTuple


class Row(NamedTuple):
    observation: Any
    step: tuple | None
    """(action, reward, terminated, truncated, probability), or None in a row without an action."""


class ListColumn:
    """One environment's rows, of which the newest `height` count."""

    def __init__(self, height: int):
        self.height, self.history = height, []
        self.episode_is_open = False

    def add(self, observation, step, next_observation):
        if self.episode_is_open:
            self.history.pop()
        self.history += [Row(observation, step), Row(next_observation, None)]
        _, _, terminated, truncated, _ = step
        self.episode_is_open = not (terminated or truncated)

    def rows(self) -> list[Row]:
        return self.history[-self.height :]

    def steps(self) -> list[tuple[Row, list[Row]]]:
        """Each stored step with the rows that follow it in its episode."""
        rows, found = self.rows(), []
        for i, row in enumerate(rows):
            if row.step is not None:
                end = next(j for j in range(i, len(rows)) if rows[j].step is None)
                found.append((row, rows[i + 1 : end + 1]))
        return found

    def episodes(self) -> list[list[Row]]:
        """The rows of each episode that still has a step."""
        found, current = [], []
        for row in self.rows():
            current.append(row)
            if row.step is None:
                found.append(current)
                current = []
        return [episode for episode in found if len(episode) > 1]
