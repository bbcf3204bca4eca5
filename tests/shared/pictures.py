"""What test files of pictures share."""


def tick_names(ax):
    return [tick.get_text() for tick in ax.get_yticklabels()]
