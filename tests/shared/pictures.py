"""What test files of pictures share."""

from __future__ import annotations

import io


def drawn(ax):
    """Render the figure, which lays it out, and return its canvas's bytes."""
    buffer = io.BytesIO()
    ax.figure.get_figure(root=True).savefig(buffer, dpi=40)
    return buffer.getvalue()


def tick_names(ax):
    return [tick.get_text() for tick in ax.get_yticklabels()]
